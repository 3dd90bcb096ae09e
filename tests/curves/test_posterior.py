"""The posterior: reproducible, within its bounds, near the data, fine enough a grid, and intervals that hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalerl.curves import fit, forecast, infer, nodes, refit_with_ceiling
from scalerl.curves.spacing import local_slope, second_difference_sd
from scalerl.series import FloatArray, Series, StartValue

Curve = Callable[..., Series]
CASES: dict[str, dict[str, Any]] = {
    "sigmoid": {},
    "sigmoid, free floor": {"floor": "free"},
    "sigmoid, given floor": {"floor": 0.3},
    "sigmoid, given ceiling": {"ceiling": 0.7},
    "sigmoid, free floor, given ceiling": {"floor": "free", "ceiling": 0.7},
    "sigmoid, both given": {"floor": 0.3, "ceiling": 0.7},
    "power": {"law": "power"},
    "power, given ceiling": {"law": "power", "ceiling": 0.75},
    "unbounded": {"bounds": None},
}


def draws_of(series: Series, **options: Any) -> dict[str, FloatArray]:
    return fit(series, **options).posterior.parameter_draws()


def test_the_same_data_give_the_same_draws(curve: Curve) -> None:
    one, two = draws_of(curve(seed=1)), draws_of(curve(seed=1))
    other = draws_of(curve(seed=2))
    for name, draws in one.items():
        np.testing.assert_array_equal(draws, two[name])
        assert not np.array_equal(draws, other[name])


def test_draws_do_not_touch_the_global_random_state(curve: Curve) -> None:
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    fit(curve())
    assert before == (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002


@pytest.mark.parametrize("last", [300.0, 1500.0, 20000.0])
@pytest.mark.parametrize("ceiling", [0.35, 0.7, 0.99])
def test_sigmoid_draws_stay_within_the_bounds(curve: Curve, last: float, ceiling: float) -> None:
    found = fit(curve(last=last, ceiling=ceiling, noise=0.01))
    draws = found.posterior.parameter_draws()
    assert (draws["floor"] >= 0).all()
    assert (draws["floor"] <= draws["ceiling"] + 1e-12).all()
    assert (draws["ceiling"] <= 1).all()
    assert (draws["exponent"] > 0).all()
    assert (draws["midpoint"] > 0).all()
    values = found.posterior.predictive(last * np.array([0.5, 1.0, 2.0, 50.0]))
    assert values.min() >= 0
    assert values.max() <= 1


def test_power_draws_stay_within_the_bounds(curve: Curve) -> None:
    draws = draws_of(curve(noise=0.01), law="power")
    assert (draws["ceiling"] <= 1).all()
    assert (draws["scale"] >= 0).all()


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_the_draws_lie_near_the_points(curve: Curve, options: dict[str, Any]) -> None:
    """A posterior that does not follow well-measured data is a mistake of arithmetic, whatever the priors."""
    series = curve(points=40, noise=0.003, n=2000)
    if options.get("law") == "power":
        series = series.window(3000.0, None)
    found = fit(series, **options)
    posterior = found.posterior
    drawn = posterior.scale.to_value(np.median(posterior.curve(series.compute), axis=0))
    least_squares = found.value_at(series.compute)
    assert np.abs(drawn - least_squares).max() < 0.02


def test_the_power_law_posterior_can_reach_high_ceilings() -> None:
    """Ceiling .9, .6 now: the gap that is left is larger than the room above the ceiling, and that is no reason."""
    compute = np.linspace(300.0, 10000.0, 40)
    noise = 0.002 * np.random.default_rng(0).standard_normal(40)
    found = fit(Series.of(compute, 0.9 - 0.3 * (10000.0 / compute) ** 0.3 + noise, 5000), law="power")
    low, high = np.quantile(found.posterior.parameter_draws()["ceiling"], [0.05, 0.95])
    assert low <= 0.9 <= high
    (row,) = forecast(found, [4e4], level=0.9)
    assert row.low is not None
    assert row.high is not None
    assert row.low <= 0.9 - 0.3 * 0.25**0.3 <= row.high


@pytest.mark.parametrize("floor", ["measured", "free"])
def test_a_given_ceiling_leaves_the_other_draws_sound(curve: Curve, floor: Any) -> None:
    """A ceiling given to seven digits beside an uncertain floor must not upset the arithmetic."""
    found = refit_with_ceiling(fit(curve(noise=0.003, n=2000), floor=floor), 0.7)
    draws = found.posterior.parameter_draws()
    assert np.median(draws["exponent"]) == pytest.approx(1.5, rel=0.2)
    assert np.median(draws["midpoint"]) == pytest.approx(1000.0, rel=0.2)
    np.testing.assert_allclose(draws["ceiling"], 0.7, atol=1e-3)


@pytest.mark.parametrize("last", [500.0, 3000.0, 20000.0])
def test_many_more_nodes_give_the_same_answer(curve: Curve, monkeypatch: pytest.MonkeyPatch, last: float) -> None:
    few = fit(curve(last=last, noise=0.006, n=1000))
    monkeypatch.setattr(nodes, "NUM_NODES", 2000)
    monkeypatch.setattr(infer, "ENOUGH_NODES", 400.0)
    monkeypatch.setattr(infer, "SEED", 1)
    many = fit(curve(last=last, noise=0.006, n=1000))
    for name, draws in few.posterior.parameter_draws().items():
        here, there = (np.quantile(d, [0.1, 0.5, 0.9]) for d in (draws, many.posterior.parameter_draws()[name]))
        np.testing.assert_allclose(here, there, atol=0.2 * (there[2] - there[0]))


@pytest.mark.parametrize("last", [500.0, 3000.0])
def test_another_start_of_the_draws_gives_the_same_forecast(
    curve: Curve, monkeypatch: pytest.MonkeyPatch, last: float
) -> None:
    series = curve(last=last, points=12, noise=0.006, n=1000)
    found = []
    for start in (1, 2, 3):
        monkeypatch.setattr(infer, "SEED", start)
        found.append(np.quantile(fit(series).posterior.predictive(np.array([4 * last]))[:, 0], [0.1, 0.5, 0.9]))
    assert np.ptp(found, axis=0).max() < 0.08 * (found[0][2] - found[0][0])


def test_inside_the_data_the_predictive_follows_the_data(curve: Curve) -> None:
    """The wobble and the drift of the last point belong there, not to the start of the curve."""
    series = curve(points=40, noise=0.002, n=5000)
    value = series.value.copy()
    value[-8:] += 0.03
    moved = Series.of(series.compute, value, series.n, start=series.start)
    early = series.compute[4:12]
    rows = forecast(fit(moved), early)
    assert np.abs([r.value - v for r, v in zip(rows, moved.value[4:12], strict=True)]).max() < 0.02


def test_noise_is_read_off_second_differences() -> None:
    rng = np.random.default_rng(0)
    smooth = np.linspace(0.2, 0.6, 400)
    assert second_difference_sd(smooth) == pytest.approx(0.0, abs=1e-9)
    assert second_difference_sd(smooth + 0.01 * rng.standard_normal(400)) == pytest.approx(0.01, rel=0.15)


def test_local_slope_of_a_line_is_its_slope() -> None:
    t = np.sort(np.random.default_rng(0).uniform(0.0, 6.0, 200))
    np.testing.assert_allclose(local_slope(t, 0.1 + 0.07 * t), 0.07, rtol=1e-6)
    np.testing.assert_allclose(local_slope(t + np.log(1e24), 0.1 + 0.07 * t), 0.07, rtol=1e-4)


def _well_specified(rng: np.random.Generator) -> tuple[Series, float]:
    """A sigmoid with the noise real curves show (a quarter of the binomial variance, and a wobble); its value at 2x."""
    floor = rng.uniform(0.05, 0.5)
    gain, exponent = rng.uniform(0.1, 0.45), np.exp(rng.normal(np.log(1.3), 0.4))
    midpoint, points, n = 1000.0 / np.exp(rng.uniform(np.log(0.2), np.log(20.0))), int(rng.integers(15, 50)), 500
    compute = 1000.0 * np.arange(1, points + 1) / points

    def truth(at: FloatArray) -> FloatArray:
        return np.asarray(floor + gain / (1 + (midpoint / at) ** exponent))

    wobble = np.zeros(points)
    wobble[0] = rng.standard_normal()
    for i in range(1, points):
        wobble[i] = 0.6 * wobble[i - 1] + 0.8 * rng.standard_normal()
    share = truth(compute)
    value = share + 0.5 * np.sqrt(share * (1 - share) / n) * rng.standard_normal(points) + 0.006 * wobble
    start = StartValue(float(np.clip(floor + 0.01 * rng.standard_normal(), 0, 1)), n)
    return Series.of(compute, np.clip(value, 0, 1), n, start=start), float(truth(np.array([2000.0]))[0])


def test_intervals_hold_about_as_often_as_they_say() -> None:
    """40 well-specified curves, 80 % intervals of the value at 2x; benchmarks/calibration.py has the real figures."""
    rng = np.random.default_rng(11)
    inside = []
    for _ in range(40):
        series, actual = _well_specified(rng)
        (row,) = forecast(fit(series), [2000.0])
        assert row.low is not None
        assert row.high is not None
        inside.append(row.low <= actual <= row.high)
    assert 0.65 <= np.mean(inside) <= 0.97
