"""`fit` and `Fit`: frozen, the same after a round trip, honest about what is unknown, and strict about input."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from scalerl import numbers
from scalerl.curves import Estimate, Fit, fit, forecast
from scalerl.curves.laws import LAWS, LawName
from scalerl.errors import InputError
from scalerl.series import Series

Curve = Callable[..., Series]
EVERY_LAW: tuple[LawName, ...] = ("sigmoid", "power", "loglinear", "flat")


def width(estimate: Estimate | None) -> float:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("law", EVERY_LAW)
def test_json_round_trip_is_exact_and_forecasts_the_same(curve: Curve, law: LawName) -> None:
    found = fit([curve(n=300, seed=1, name="a"), curve(n=300, seed=2, name="b")], law=law, window=(500, 9000), name="r")
    text = found.to_json()
    json.loads(text, parse_constant=refuse)
    back = Fit.from_json(text)
    assert back == found
    assert back.to_json() == text
    assert forecast(back, [5e3, 2e4, 1e5]) == forecast(found, [5e3, 2e4, 1e5])


@pytest.mark.parametrize(
    "options",
    [{"bounds": None}, {"bounds": (0.0, np.inf)}, {"floor": 0.3, "ceiling": 0.7}, {"floor": "free"}, {"level": 0.5}],
)
def test_json_round_trip_keeps_every_option(curve: Curve, options: dict[str, Any]) -> None:
    found = fit(curve(), **options)
    json.loads(found.to_json(), parse_constant=refuse)
    back = Fit.from_json(found.to_json())
    assert back == found
    assert forecast(back, [2e4]) == forecast(found, [2e4])


def test_json_round_trip_of_the_papers_procedure(paper_sigmoid: Fit) -> None:
    back = Fit.from_json(paper_sigmoid.to_json())
    assert back == paper_sigmoid
    assert forecast(back, [1e5]) == forecast(paper_sigmoid, [1e5])


def test_a_document_that_is_not_a_fit_is_refused() -> None:
    with pytest.raises(InputError, match="not a saved fit"):
        Fit.from_json('{"ceiling": 1}')


@pytest.mark.parametrize("law", EVERY_LAW)
def test_can_be_sent_to_another_process(curve: Curve, law: LawName) -> None:
    found = fit(curve(), law=law)
    back = pickle.loads(pickle.dumps(found))
    assert back == found
    assert forecast(back, [2e4]) == forecast(found, [2e4])


def test_is_frozen(curve: Curve) -> None:
    found = fit(curve())
    with pytest.raises(FrozenInstanceError):
        found.sse = 0.0  # type: ignore[misc]


@pytest.mark.parametrize("law", EVERY_LAW)
def test_prints_its_name_law_points_and_every_parameter(curve: Curve, law: LawName) -> None:
    found = fit(curve(points=33), law=law, name="my run")
    first, *rest = str(found).splitlines()
    assert "my run" in first
    assert law in first
    assert "33 points" in first
    for name, estimate in found.parameters.items():
        text = numbers.estimate(estimate, compute=name in ("midpoint", "scale"))
        assert any(line.split()[0] == name and line.endswith(text) for line in rest)


def test_prints_its_warnings(curve: Curve) -> None:
    found = fit(curve(points=6))
    assert found.diagnostics
    assert all(d.message in str(found) for d in found.diagnostics)


@pytest.mark.parametrize("law", EVERY_LAW)
def test_parameters_are_those_of_the_law(curve: Curve, law: LawName) -> None:
    found = fit(curve(), law=law)
    assert set(found.parameters) == set(LAWS[law].parameters)
    for name in ("ceiling", "exponent", "midpoint", "floor"):
        assert getattr(found, name) == found.parameters.get(name)


def test_window_fitted_and_held_out(curve: Curve) -> None:
    series = curve(points=40, last=40.0, midpoint=5.0)
    found = fit(series, window=(3, 30))
    assert list(found.window) == [3, 30]
    assert found.fitted[0].compute.tolist() == list(range(3, 31))
    assert found.held_out[0].compute.tolist() == list(range(31, 41))
    assert found.series == (series,)
    assert found.points == 28
    assert (found.first_compute, found.last_compute) == (3, 30)
    assert fit(series).held_out == ()
    assert fit(series.window(3, 30)).parameters == found.parameters


@pytest.mark.parametrize("bounds", [(0.0, 1.0), None])
def test_held_out_points_have_no_say(curve: Curve, bounds: tuple[float, float] | None) -> None:
    """What lies after the window must not reach the fit, not even through the scale of the values."""
    series = curve(points=40)
    value = series.value.copy()
    value[30:] = 0.95
    changed = Series.of(series.compute, value, start=series.start)
    end = float(series.compute[29])
    before, after = (fit(s, window=(None, end), bounds=bounds) for s in (series, changed))
    assert before.parameters == after.parameters
    assert forecast(before, [2e4]) == forecast(after, [2e4])


def test_value_at_is_the_least_squares_law(curve: Curve) -> None:
    found = fit(curve())
    p = {name: e.value for name, e in found.parameters.items()}
    expected = p["floor"] + (p["ceiling"] - p["floor"]) / (1 + (p["midpoint"] / 5000.0) ** p["exponent"])
    assert found.value_at(5000.0)[0] == pytest.approx(expected, rel=1e-12)
    residual = found.fitted[0].value - found.value_at(found.fitted[0].compute)
    assert found.sse == pytest.approx(float(residual @ residual), rel=1e-9)
    assert found.r_squared is not None
    assert 0.9 < found.r_squared <= 1.0


@pytest.mark.parametrize("law", EVERY_LAW)
@pytest.mark.parametrize("seed", range(3))
def test_every_interval_holds_its_estimate(curve: Curve, law: LawName, seed: int) -> None:
    for last in (500.0, 3000.0, 20000.0):
        found = fit(curve(last=last, noise=0.01, seed=seed), law=law)
        for estimate in found.parameters.values():
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.low < estimate.high


def test_a_parameter_that_was_given_has_no_interval(curve: Curve) -> None:
    found = fit(curve(start=False), floor=0.3, ceiling=0.7)
    for name in ("floor", "ceiling"):
        assert (found.parameters[name].low, found.parameters[name].high) == (None, None)
    assert found.parameters["exponent"].low is not None
    assert fit(curve()).parameters["floor"].low is not None  # measured: known with an error


def test_a_wider_level_gives_wider_intervals(curve: Curve) -> None:
    half, most = (fit(curve(noise=0.01), level=level) for level in (0.5, 0.9))
    for name in half.parameters:
        assert width(half.parameters[name]) < width(most.parameters[name])


def test_seeds_are_pooled(curve: Curve) -> None:
    seeds = [curve(seed=i, name=f"seed {i}") for i in range(3)]
    found = fit(seeds, name="recipe")
    assert found.points == 120
    assert len(found.fitted) == 3
    assert found.name == "recipe"
    assert "3 seeds" in str(found)


def test_more_seeds_narrow_the_ceiling(curve: Curve) -> None:
    """On average over recipes, well specified, with independent noise."""
    ratios = []
    for k in range(5):
        seeds = [curve(noise=0.012, n=300, points=25, last=8000.0, seed=10 * k + i, name=f"{i}") for i in range(3)]
        alone = np.mean([width(fit(s).ceiling) for s in seeds])
        ratios.append(width(fit(seeds).ceiling) / alone)
    assert np.mean(ratios) < 0.9


def test_seeds_of_different_lengths(curve: Curve) -> None:
    found = fit([curve(seed=1), curve(seed=2).head(20)])
    assert found.last_compute == 10000.0
    assert found.value_at(1e9)[0] == pytest.approx(0.7, abs=0.03)


def test_constant_values_make_a_fit_and_not_a_crash() -> None:
    for level in (0.0, 0.3, 1.0):
        for law in EVERY_LAW:
            found = fit(Series.of(np.arange(1.0, 21.0), np.full(20, level)), law=law)
            assert found.value_at([10.0])[0] == pytest.approx(level, abs=1e-6)
            assert found.r_squared is None or 0 <= found.r_squared <= 1


@pytest.mark.parametrize("law", EVERY_LAW)
def test_large_units_and_sharp_steps_stay_finite(law: LawName) -> None:
    """FLOPs reach 1e26; a step between two evaluations asks for a very large exponent."""
    compute = 1e24 * np.arange(1.0, 21.0)
    value = np.where(compute > 1.5e24, 0.6, 0.2) + 0.001 * np.sin(np.arange(20.0))
    found = fit(Series.of(compute, value), law=law)
    assert np.isfinite(found.value_at(compute)).all()
    assert all(np.isfinite(e.value) for e in found.parameters.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"law": "cubic"}, "unknown law"),
        ({"method": "magic"}, "unknown method"),
        ({"level": 0.0}, "unusable level"),
        ({"level": 1.0}, "unusable level"),
        ({"level": float("nan")}, "unusable level"),
        ({"bounds": (1.0, 0.0)}, "unusable bounds"),
        ({"bounds": (0.0, 0.5)}, "value outside the bounds"),
        ({"ceiling": 1.5}, "unusable ceiling"),
        ({"ceiling": 0.6, "law": "flat"}, "fixed ceiling"),
        ({"floor": -0.1}, "floor"),
        ({"floor": 0.8, "ceiling": 0.7}, "floor"),
        ({"floor": "measured"}, "no step-0 measurement"),
        ({"floor": "lowest"}, "floor"),
        ({"floor": float("nan")}, "floor"),
        ({"floor": float("-inf"), "bounds": None}, "floor"),
        ({"ceiling": float("inf"), "bounds": None}, "ceiling"),
        ({"window": (2e4, None)}, "no points in the window"),
        ({"window": (None, 1000.0)}, "too few points"),
    ],
)
def test_refuses_in_one_line(curve: Curve, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        fit(curve(start=False), **options)
    assert "\n" not in str(caught.value)


def test_refuses_nothing_and_too_little() -> None:
    with pytest.raises(InputError, match="no series"):
        fit([])
    with pytest.raises(InputError, match="too few points"):
        fit(Series.of([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]))
    with pytest.raises(InputError, match="too few points"):
        fit(Series.of([], []))


def test_a_measured_floor_above_the_given_ceiling_is_refused(curve: Curve) -> None:
    with pytest.raises(InputError):
        fit(curve(), ceiling=0.1)
