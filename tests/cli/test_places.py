"""Shares of a curve's last compute, in every option that takes a compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.cli import places
from scalerl.cli.places import OfLast
from scalerl.errors import InputError
from scalerl.series import Series

from .conftest import Run, curve, write

SHORT = Series.of([10, 100, 200], [0.1, 0.2, 0.3])
LONG = Series.of([10, 100, 400], [0.1, 0.2, 0.3])


def test_amounts_and_shares() -> None:
    assert places.place("--x", "50k") == 50_000
    assert places.place("--x", "12.5%") == OfLast(0.125)
    assert places.budget("end") == OfLast(1.0)
    assert places.budget("250%") == OfLast(2.5)
    assert places.window("10%", "50%") == (OfLast(0.1), OfLast(0.5))


def test_a_share_is_of_the_last_compute_of_all_seeds() -> None:
    assert places.amounts([OfLast(0.5), 7.0], [SHORT]) == (100.0, 7.0)
    assert places.amounts([OfLast(0.5)], [SHORT, LONG]) == (200.0,)
    assert places.window_of([LONG], OfLast(0.25), float("inf")) == (100.0, None)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--from", "100%"),
        ("--from", "-1%"),
        ("--until", "0%"),
        ("--until", "101%"),
        ("--until", "half%"),
        ("--until", "nan%"),
        ("--until", "%"),
    ],
)
def test_impossible_shares_of_the_window(option: str, text: str) -> None:
    with pytest.raises(InputError) as refused:
        places.window(*((text, None) if option == "--from" else (None, text)))
    assert option in str(refused.value)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["0%", "inf%", "-5%", "End"])
def test_impossible_budgets(text: str) -> None:
    with pytest.raises(InputError, match="--budget"):
        places.budget(text)


def test_a_window_of_two_kinds_is_checked_on_the_curve() -> None:
    low, high = places.window("150", "50%")
    assert places.window_of([LONG], low, high) == (150, 200)
    with pytest.raises(InputError, match="--from is not below --until"):
        places.window_of([SHORT], low, high)
    with pytest.raises(InputError, match="--from is not below --until"):
        places.window("50%", "50%")


def test_the_end_of_a_finished_run_from_its_first_half(run: Run, one: Path) -> None:
    document = run("fit", one, "--from", "1%", "--until", "50%", "--budget", "end", "--json").document
    assert (document["window"]["from"], document["window"]["until"]) == (60, 3000)
    assert document["window"]["last"] <= 3000
    assert [found["compute"] for found in document["forecast"]] == [6000]
    assert document["decision"]["budget"] == 6000
    assert document["held_out"]


def test_each_curve_has_its_own_share(run: Run, one: Path, tmp_path: Path) -> None:
    compute, value = curve(0.6, 600, 2)
    longer = write(tmp_path / "longer.csv", [2 * c for c in compute], value)
    found = run("fit", one, longer, "--until", "50%", "--budget", "200%", "--json").document["curves"]
    assert [one["window"]["until"] for one in found] == [3000, 6000]
    assert [one["forecast"][0]["compute"] for one in found] == [12000, 24000]
    compared = run("compare", one, longer, "--until", "50%", "--json").document["curves"]
    assert [one["window"]["until"] for one in compared] == [3000, 6000]


def test_decide_at_the_end(run: Run, one: Path) -> None:
    document = run("decide", one, "--until", "50%", "--budget", "100%", "--json").document
    assert document["decision"]["budget"] == 6000
    spent = run("decide", one, "--budget", "end")
    assert spent.code == 2
    assert "already spent" in spent.err


def test_shares_of_backtest(run: Run, one: Path) -> None:
    document = run("backtest", one, "--shares", "50%", "--json").document
    assert {score["share"] for score in document["scores"]} == {0.5}
    assert "--shares" in run("backtest", one, "--shares", "150%").err
