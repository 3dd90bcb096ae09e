"""The human output: what a reader must find in it. How it looks is tested with `scalerl.report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.cli.fit import MOST_IN_FULL

from .conftest import Run, curve, write


def _words(text: str) -> str:
    return " ".join(text.split())


def test_fit_says_everything_about_one_curve(run: Run, one: Path) -> None:
    ran = run("fit", one, "--until", 3000, "--budget", 12000, "--target", 0.65, "--plot", "out.svg")
    assert ran.code == 0
    assert ran.err == ""
    words = _words(ran.out)
    for expected in ("ceiling", "exponent", "midpoint", "floor", "12k", "0.65", "Held out after the window: 4 points"):
        assert expected in words
    assert any(action in words for action in ("SCALE", "STOP", "NEED MORE DATA", "UNSTABLE"))
    assert "All curves" not in words
    assert ran.out.splitlines()[-1] == "Picture: out.svg"


def test_without_held_out_points_nothing_is_said_of_them(run: Run, one: Path) -> None:
    assert "Held out" not in run("fit", one).out


def test_an_example_names_its_source_and_what_it_recommends(run: Run) -> None:
    fitted = _words(run("fit", "--example", "scalerl-8b").out)
    assert "arXiv 2510.13786" in fitted
    assert "The example recommends: floor 0.4 (--floor), points from 1500 (--from)." in fitted
    chosen = _words(run("fit", "--example", "scalerl-8b", "--floor", 0.38, "--from", 0).out)
    assert "arXiv 2510.13786" in chosen
    assert "recommends" not in chosen
    for command in ("decide", "backtest"):
        assert "arXiv 2510.13786" in _words(run(command, "--example", "scalerl-8b").out)


def test_several_curves_end_with_an_overview(run: Run, one: Path, two: Path) -> None:
    out = run("fit", one, two).out
    assert out.count("What each further doubling adds") == 2
    overview = out[out.index("All curves") :]
    assert "one" in overview
    assert "two" in overview
    assert overview.count("24 points") == 2


@pytest.mark.parametrize("law", ["sigmoid", "flat"])
def test_many_curves_are_an_overview_only(law: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a_rather_long_name_of_a_run_{i}" for i in range(MOST_IN_FULL + 1)]
    files = [write(tmp_path / f"{name}.csv", *curve(0.7, 600, i)) for i, name in enumerate(names)]
    monkeypatch.setenv("COLUMNS", "80")
    out = run("fit", *files, "--law", law).out
    assert "What each further doubling adds" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("24 points") == len(names)
    assert "--json" in out
    monkeypatch.setenv("COLUMNS", "120")
    wide = run("fit", *files, "--law", law).out
    assert all(name in wide for name in names)


def test_compare_and_backtest(run: Run, one: Path, two: Path) -> None:
    compared = run("compare", one, two, "--plot", "out.svg")
    assert "moves the ceiling" in compared.out
    assert compared.out.splitlines()[-1] == "Picture: out.svg"
    tested = run("backtest", one, "--shares", 0.5)
    assert "50 %" in tested.out
    assert "last_value" in tested.out
    assert (compared.err, tested.err) == ("", "")


def test_no_colours_in_a_pipe(run: Run, one: Path) -> None:
    assert "\x1b" not in run("fit", one).out
