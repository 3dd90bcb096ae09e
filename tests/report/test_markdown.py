"""The report as Markdown: complete, and with names that mean nothing to a renderer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from scalerl.curves import Fit
from scalerl.report.answers import Document
from scalerl.report.document import RunResult, UnitResult, comparison_documents, report_document, run_document
from scalerl.report.history import moments
from scalerl.report.markdown import report_markdown, text


def document_of(*fits: Fit, name: str | None = None, problem: str | None = None) -> Document:
    runs = []
    for made in fits:
        history = tuple(moments(made, 20_000.0, 3))
        unit = UnitResult("gpu_hours", "GPU-hours", made.series, made, 20_000.0, targets=(0.6,), history=history)
        runs.append(
            run_document(RunResult(made.name, name or made.name, "a.csv", (unit,), notes=("merged",), problem=problem))
        )
    compared = comparison_documents({"gpu_hours": fits}) if len(fits) > 1 else None
    return report_document(runs, compared, title="My runs", command="scalerl report a.csv", level=0.8)


def tables(markdown: str) -> list[int]:
    """The number of cells in each line of a table."""
    return [line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")]


def test_one_run(bent: Fit) -> None:
    shown = report_markdown(document_of(bent))
    assert shown.startswith("# My runs\n")
    assert "**STOP**: at 2.73x the compute expect 0.6" in shown
    for words in (
        "### Parameters", "### Forecasts", "### Before trusting it", "### The same law on other windows",
        "### How the forecast for 20k GPU-hours has moved", "merged", "    scalerl report a.csv", "| midpoint |",
        "0.6 is reached already", "held-out points lie inside",
    ):  # fmt: skip
        assert words in shown
    assert "## Comparison" not in shown
    assert shown.endswith("\n")


def test_several_runs_are_ranked(pair_of_fits: list[Fit]) -> None:
    shown = report_markdown(document_of(*pair_of_fits))
    assert "Best first: runs/base, runs/worse." in shown
    assert "moves the ceiling, in favour of runs/base" in shown
    assert shown.count("\n## runs/") == 2
    assert set(tables(shown)) == {2, 3, 4}


def test_only_identified_ceilings_are_ranked(bent: Fit, straight: Fit) -> None:
    shown = report_markdown(document_of(straight, bent))
    assert "Best first: bent. Ceiling not identified yet: straight." in shown
    other = replace(straight, name="other")
    other.__dict__["posterior"] = straight.posterior
    assert "there is no ranking" in report_markdown(document_of(straight, other))


def test_a_run_without_a_fit_says_why(bent: Fit) -> None:
    shown = report_markdown(document_of(bent, problem="too few points"))
    assert "No forecast yet: too few points" in shown
    assert "**STOP**" not in shown


def test_an_unidentified_ceiling_is_words(straight: Fit) -> None:
    assert "ceiling not identified yet" in report_markdown(document_of(straight))


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "a|b", "**bold**", "[x](http://y)", "`code`", "a\n# b"]
)
def test_a_name_is_never_markup(name: str, bent: Fit) -> None:
    odd = replace(bent, name=name)
    odd.__dict__["posterior"] = bent.posterior
    shown = report_markdown(document_of(odd, bent, name=name))
    plain = report_markdown(document_of(bent, replace(bent, name="other"), name="plain"))
    assert tables(shown) == tables(plain)
    assert "<img" not in shown
    assert "**bold**" not in shown
    assert not re.search(r"(?<!\\)\]\(http", shown)
    assert text(name).count("\n") == 0
