"""Downstream sets and parts of one run in its report: measurements, rank correlation, a law of its own, pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from scalerl.cli import main
from scalerl.curves import Fit, fit
from scalerl.report.answers import Document
from scalerl.report.figures import fits_figure
from scalerl.report.markdown import set_lines
from scalerl.report.set_documents import set_documents
from scalerl.report.set_results import SetResult, read_sets
from scalerl.runs import RunDirectory
from scalerl.series import Series

from .set_runs import mixed_run


def law(name: str, seeds: Sequence[Series]) -> Fit:
    return fit(seeds, name=name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_run(tmp_path_factory.mktemp("runs") / "mixed").path


@pytest.fixture(scope="module")
def documents(run: Path) -> dict[str, Document]:
    return {one["name"]: one for one in set_documents(run, law, 0.8)}


def by_name(path: Path) -> dict[str, SetResult]:
    return {one.name: one for one in read_sets(RunDirectory.open(path))}


def test_measurements_are_read_where_there_are_some_parts_first(run: Path) -> None:
    found = by_name(run)
    assert list(found) == ["sums", "goals", "aime24", "other"]
    assert [one.kind for one in found.values()] == ["part", "part", "downstream", "downstream"]
    assert [measured.step for measured in found["other"].measured] == [0, 200, 400, 600]  # null is not measured
    assert len(found["aime24"].measured) == 31
    assert found["aime24"].num_samples == 8


def test_pass_at_k_comes_from_the_results_by_problem(run: Path, tmp_path: Path) -> None:
    found = by_name(run)
    passed = found["aime24"].passed
    assert passed is not None
    assert (passed.value, passed.num_problems) == (0.5, 24)  # every second problem has a right answer among eight
    goals = found["goals"].passed
    assert goals is not None
    assert goals.num_problems == 6
    assert found["other"].passed is None  # its problems are in no file
    assert by_name(mixed_run(tmp_path / "bare", results=False).path)["aime24"].passed is None


def test_the_rank_correlation_is_spearmans_over_the_versions_measured_on_both(documents: dict[str, Document]) -> None:
    one = documents["aime24"]
    against = one["against"]
    expected = spearmanr(against["held_out"], against["value"]).statistic
    assert one["correlation"]["value"] == pytest.approx(expected)
    assert one["correlation"]["low"] < expected < one["correlation"]["high"]
    assert one["evaluations"] == 31
    assert documents["sums"]["correlation"] is None  # it is a part of the held-out value
    assert documents["sums"]["missing"] == []


def test_every_set_has_a_law_of_its_own_where_it_has_points_enough(documents: dict[str, Document]) -> None:
    ceilings = {name: one["law"]["ceiling"]["value"] for name, one in documents.items() if one["law"] is not None}
    assert set(ceilings) == {"sums", "goals", "aime24"}
    assert ceilings["sums"] > 0.88
    assert 0.5 < ceilings["goals"] < 0.65
    assert ceilings["aime24"] < 0.5
    assert documents["other"]["missing"] == ["no law of its own: too few points to fit, 3 (at least 5 beside step 0)"]
    curve = documents["goals"]["curve"]
    assert len(curve["compute"]) == 30
    assert curve["law"] == sorted(curve["law"])


def test_what_is_measured_too_rarely_says_so(tmp_path: Path) -> None:
    run = mixed_run(tmp_path / "short", every=600)
    (other,) = [one for one in set_documents(run.path, law, 0.8) if one["name"] == "other"]
    assert other["correlation"] is None
    assert other["missing"][0] == "no rank correlation: it was measured 1 times, and ranks need 3"


def test_markdown_has_a_table_and_sentences(documents: dict[str, Document]) -> None:
    text = "\n".join(set_lines(list(documents.values())))
    assert "| part goals | 8 | 0.105 ± 0.030 |" in text
    assert "| other | 8 |" in text
    assert "unknown |" in text  # its pass@k
    assert "- aime24: rank correlation with the held-out value 0.9" in text
    assert set_lines([]) == []


def test_the_picture_has_a_panel_for_each_set_and_curve(documents: dict[str, Document]) -> None:
    series = Series.of([1.0, 2, 4, 8, 16, 32], [0.2, 0.3, 0.4, 0.5, 0.55, 0.57], start=0.1, name="x")
    made = fit(series)
    plain = fits_figure([made])
    figure = fits_figure([made], sets=list(documents.values()))
    assert figure.get_figheight() == plain.get_figheight() + 2 * 2.5
    upper, lower = figure.subfigs
    assert len(upper.axes) == 1
    labels = [axes.get_ylabel() for axes in lower.axes if axes.get_visible()]
    assert labels == ["aime24, mean@8", "other, mean@8", "part sums, mean@8", "part goals, mean@8", "aime24, mean@8"]
    assert lower.axes[0].get_title(loc="left").startswith("rank correlation 0.9")


def test_the_report_of_a_run_has_them_in_every_format(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["metric"] for one in document["runs"][0]["sets"]] == [
        "part/sums", "part/goals", "downstream/aime24", "downstream/other",
    ]  # fmt: skip
    assert main(["report", str(run), "--format", "md"]) == 0
    assert "### Downstream and parts" in capsys.readouterr().out
    for name in ("run.png", "run.html"):
        assert main(["report", str(run), "-o", str(tmp_path / name)]) == 0
    again = tmp_path / "again.png"
    assert main(["report", str(run), "-o", str(again)]) == 0
    assert again.read_bytes() == (tmp_path / "run.png").read_bytes()


def test_a_report_about_one_set_has_no_others(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--metric", "part/goals", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["sets"] == []
