"""The report's document: plain JSON that says everything a page needs, and agrees with the engine."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from scalerl.curves import Fit, decide, fit, forecast
from scalerl.report.answers import ask, fit_document
from scalerl.report.document import (
    MOST_POINTS,
    RunResult,
    UnitResult,
    comparison_documents,
    report_document,
    run_document,
    unit_document,
    unit_key,
)
from scalerl.report.history import Moment, moment, moments
from scalerl.report.thinning import evenly, in_bins, rounded
from scalerl.series import Series

from .conftest import rising


def unit_of(made: Fit, **options: Any) -> dict[str, Any]:
    return unit_document(UnitResult("gpu_hours", "GPU-hours", made.series, made, **options))


def test_a_run_is_plain_json(bent: Fit) -> None:
    moved = tuple(moments(bent, 20_000.0, 3))
    unit = UnitResult("gpu_hours", "GPU-hours", bent.series, bent, history=moved)
    run = RunResult("1", "bent", "bent.csv", (unit,), "finished", ("a note",), (), {"seed": "1"})
    whole = report_document([run_document(run)], None, title="t", command="c", level=0.8)
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert set(whole) == {"schema", "title", "created", "version", "command", "level", "runs", "comparison"}
    (found,) = whole["runs"]
    assert (found["state"], found["notes"], found["provenance"]) == ("finished", ["a note"], {"seed": "1"})
    assert len(found["units"][0]["history"]) == 3


def test_it_says_when_it_was_made(bent: Fit) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = report_document([], None, title="t", command="", level=0.8, created=when)
    assert made["created"] == "2026-01-02T03:04:05+00:00"


def test_points_keep_their_part_in_the_fit(bent: Fit) -> None:
    points = unit_of(bent)["points"]
    roles = dict(zip(points["compute"], points["role"], strict=True))
    assert {role for compute, role in roles.items() if compute < 150} == {"before"}
    assert {role for compute, role in roles.items() if compute > 8_000} == {"held out"}
    assert points["role"].count("fitted") == bent.points
    assert points["compute"] == sorted(points["compute"])
    assert points["n"] is None


def test_several_seeds_are_one_cloud() -> None:
    seeds = [rising("a"), rising("b", ceiling=0.6)]
    points = unit_of(fit(seeds, name="both"))["points"]
    assert len(points["value"]) == 60


def test_very_many_points_are_thinned() -> None:
    compute = np.linspace(1, 1e4, 5_000)
    series = Series.of(compute, 0.3 + 0.2 * compute / 1e4, 50.0)
    points = unit_document(UnitResult("c", "c", (series,), None))["points"]
    assert len(points["compute"]) == MOST_POINTS == len(points["n"])
    assert (points["compute"][0], points["compute"][-1]) == (1.0, 1e4)


def test_the_fit_is_that_of_the_fit_command(bent: Fit) -> None:
    unit = unit_of(bent, budget=50_000.0)
    expected = fit_document(ask(bent, (50_000.0,)), {})
    differing = {key for key in expected if unit["fit"][key] != expected[key]}
    assert differing <= {"forecast"}  # it has more of them
    assert unit["fit"]["forecast"][0] == expected["forecast"][0]
    assert unit["fit"]["decision"]["budget"] == 50_000.0 == unit["budget"]


def test_the_decision_is_about_the_budget_and_not_the_farthest_forecast(bent: Fit) -> None:
    made = unit_of(bent)["fit"]
    assert made["decision"]["budget"] == 2 * bent.last_compute
    assert max(one["compute"] for one in made["forecast"]) == 10 * bent.last_compute


@pytest.mark.parametrize("which", ["bent", "straight"])
def test_the_curve_agrees_with_the_engine_everywhere(which: str, request: pytest.FixtureRequest) -> None:
    made: Fit = request.getfixturevalue(which)
    unit = unit_of(made)
    curve = unit["curve"]
    assert curve["compute"] == sorted(curve["compute"])
    assert curve["compute"][-1] == pytest.approx(10 * made.last_compute)
    past = sum(value is None for value in curve["median"])
    assert curve["compute"][past] == pytest.approx(made.last_compute)
    for index in (past + 20, past + 60, -1):
        (exact,) = forecast(made, [curve["compute"][index]])
        drawn = [curve[name][index] for name in ("median", "low", "high")]
        assert drawn == pytest.approx([exact.value, exact.low, exact.high], abs=1e-4)
        decision = decide(made, curve["compute"][index])
        assert curve["probability"][index] == pytest.approx(decision.probability, abs=2e-3)
        assert curve["action"][index] == decision.action


def test_a_budget_beyond_the_usual_end_stretches_the_curve(bent: Fit) -> None:
    far = 30 * bent.last_compute
    assert unit_of(bent, budget=far)["curve"]["compute"][-1] > far


def test_too_few_points_and_falling_curves_override_the_probability() -> None:
    short = fit(rising("short", points=6))
    assert set(unit_of(short)["curve"]["action"]) == {None, "NEED MORE DATA"}
    compute = np.geomspace(100, 10_000, 30)
    value = np.where(compute < 2_000, 0.3 + 0.1 * np.log(compute / 100) / 3, 0.15)
    falling = fit(Series.of(compute, value, name="falling"))
    assert set(unit_of(falling)["curve"]["action"]) == {None, "UNSTABLE"}


def test_without_a_fit_there_are_points_only() -> None:
    unit = unit_document(UnitResult("c", "c", (rising(points=3),), None))
    assert (unit["fit"], unit["curve"], unit["log_f"], unit["budget"]) == (None, None, None, None)
    assert len(unit["points"]["compute"]) == 3
    assert unit["start"] == {"value": 0.3, "n": None}


def test_the_papers_procedure_has_no_band(bent: Fit) -> None:
    """Made up from another fit, because the real one takes half a minute."""
    from dataclasses import replace

    plain = replace(bent, method="paper")
    plain.__dict__["posterior"] = bent.posterior
    curve = unit_of(plain)["curve"]
    assert set(curve["low"]) == {None} == set(curve["high"])
    assert curve["median"][-1] == pytest.approx(float(bent.value_at(curve["compute"][-1])[0]), abs=1e-4)


def test_log_f_is_the_papers_straight_line(bent: Fit) -> None:
    found = unit_of(bent)["log_f"]
    assert bent.exponent is not None
    inner = slice(5, 15)
    slope = np.polyfit(np.log(found["compute"][inner]), np.log(found["f"][inner]), 1)[0]
    assert slope == pytest.approx(bent.exponent.value, rel=0.15)
    flat = fit(rising(), law="loglinear")
    assert unit_of(flat)["log_f"] is None


def test_comparisons_for_each_unit_that_several_runs_share(pair_of_fits: list[Fit], bent: Fit) -> None:
    found = comparison_documents({"a": pair_of_fits, "b": [bent]}, reference="runs/worse")
    assert set(found) == {"a"}
    assert found["a"]["reference"] == "runs/worse"
    assert len(found["a"]["words"]) == len(found["a"]["pairs"]) == 1
    assert any("moves the ceiling" in line for line in found["a"]["words"][0])
    json.dumps(found, allow_nan=False)


def test_only_what_can_be_compared_is(pair_of_fits: list[Fit]) -> None:
    straight_line = fit(rising("line"), law="loglinear")
    assert comparison_documents({"a": [pair_of_fits[0], straight_line]}) == {}


def test_one_unit_has_one_key() -> None:
    assert unit_key("GPU-hours") == unit_key("gpu_hours") == "gpu_hours"
    assert unit_key("FLOPs") == "flops"
    assert unit_key("步") == "步"


def test_the_history_is_what_was_known_then(bent: Fit) -> None:
    found = list(moments(bent, 20_000.0, 6))
    assert 4 <= len(found) <= 6
    assert [one.compute for one in found] == sorted({one.compute for one in found})
    assert found[-1] == moment(bent, 20_000.0)
    again = fit(rising("bent"), window=(150.0, found[2].compute))
    (then,) = forecast(again, [20_000.0])
    assert found[2] == Moment(
        found[2].compute, 20_000.0, then.value, then.low, then.high, decide(again, 20_000.0).action
    )


def test_a_budget_that_is_passed_has_no_history(bent: Fit) -> None:
    assert moment(bent, bent.last_compute) is None
    assert all(one.compute < 1_000 for one in moments(bent, 1_000.0, 6))


def test_thinning_keeps_the_ends_and_the_level() -> None:
    assert evenly(3, 10).tolist() == [0, 1, 2]
    assert (evenly(1000, 10)[0], evenly(1000, 10)[-1], evenly(1000, 10).size) == (0, 999, 10)
    x, y = in_bins(np.arange(1000.0), np.tile([0.0, 2.0], 500), 100)
    assert x.size == 100
    assert y.tolist() == [1.0] * 100
    assert rounded([1.23456789, math.nan, math.inf, 0.0]) == [1.2346, None, None, 0.0]
