"""What must hold for every curve: units, order of rows, scale of the value, and more data meaning more knowledge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.curves import Estimate, Fit, fit, forecast
from scalerl.series import Series, StartValue

Curve = Callable[..., Series]
AHEAD = (1.0, 2.0, 8.0)
"""Forecast horizons, as multiples of the last compute."""

FEW = settings(deadline=None, max_examples=8)
SEEDS = st.integers(0, 10_000)


@st.composite
def curves(draw: st.DrawFn) -> Series:
    """Sigmoids with noise, bent or not, with and without n and a step-0 value."""
    rng = np.random.default_rng(draw(SEEDS))
    points, last = draw(st.integers(10, 40)), draw(st.sampled_from([0.8, 50.0, 3e4]))
    floor, gain = draw(st.floats(0.05, 0.4)), draw(st.floats(0.15, 0.5))
    midpoint, exponent = last / draw(st.floats(0.5, 20.0)), draw(st.floats(0.7, 2.5))
    compute = last * np.arange(1, points + 1) / points
    value = floor + gain / (1 + (midpoint / compute) ** exponent) + 0.006 * rng.standard_normal(points)
    n = draw(st.sampled_from([None, 400.0]))
    start = draw(st.sampled_from([None, StartValue(floor, n)]))
    return Series.of(compute, np.clip(value, 0.0, 1.0), n, start=start)


def span(estimate: Estimate) -> tuple[float, float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.value, estimate.low, estimate.high


def rows(found: Fit) -> np.ndarray:
    """(horizons, 3): forecast value, low, high."""
    computes = [found.last_compute * k for k in AHEAD]
    return np.array([(r.value, r.low, r.high) for r in forecast(found, computes)], dtype=float)


def assert_close(one: np.ndarray, other: np.ndarray, width: float) -> None:
    """Equal but for rounding, which may send a handful of the draws to a neighbouring node."""
    np.testing.assert_allclose(one, other, atol=max(0.03 * width, 1e-9), rtol=0)


@FEW
@given(series=curves(), unit=st.sampled_from([1 / 3600, 3600.0, 1e15]))
def test_the_unit_of_compute_does_not_matter(series: Series, unit: float) -> None:
    """GPU-hours, seconds or FLOPs: the same ceiling, exponent and forecasts; the midpoint scales with the unit."""
    plain = fit(series)
    scaled = fit(Series.of(series.compute * unit, series.value, series.n, start=series.start))
    for name in ("floor", "ceiling", "exponent", "midpoint"):
        one, other = np.array(span(plain.parameters[name])), np.array(span(scaled.parameters[name]))
        other = other / unit if name == "midpoint" else other
        assert other[0] == pytest.approx(one[0], rel=1e-3)
        assert_close(other[1:], one[1:], one[2] - one[1])
    here, there = rows(plain), rows(scaled)
    assert_close(there, here, float((here[:, 2] - here[:, 1]).max()))
    assert {d.code for d in plain.diagnostics} == {d.code for d in scaled.diagnostics}


@FEW
@given(series=curves(), seed=SEEDS)
def test_the_order_of_rows_does_not_matter(series: Series, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(series))
    n = None if series.n is None else series.n[order]
    shuffled = Series.of(series.compute[order], series.value[order], n, start=series.start)
    assert fit(shuffled) == fit(series)


@FEW
@given(series=curves(), seed=SEEDS)
def test_the_order_of_seeds_does_not_matter_to_the_estimates(series: Series, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = np.clip(series.value + 0.01 * rng.standard_normal(len(series)), 0.0, 1.0)
    other = Series.of(series.compute, value, series.n, start=series.start)
    here, there = fit([series, other]), fit([other, series])
    for name, estimate in here.parameters.items():
        assert there.parameters[name].value == pytest.approx(estimate.value, rel=1e-3)


@FEW
@given(series=curves(), scale=st.sampled_from([0.01, 2.0, 100.0]), shift=st.sampled_from([-5.0, 0.0, 3.0]))
def test_the_scale_of_the_value_does_not_matter(series: Series, scale: float, shift: float) -> None:
    """A reward from -1 to 1 or a score out of 100, with its bounds, is the same curve as a pass rate."""
    plain = fit(series)
    start = None if series.start is None else StartValue(scale * series.start.value + shift, series.start.n)
    mapped = Series.of(series.compute, scale * series.value + shift, series.n, start=start)
    moved = fit(mapped, bounds=(shift, scale + shift))
    for name in ("floor", "ceiling"):
        one, other = np.array(span(plain.parameters[name])), (np.array(span(moved.parameters[name])) - shift) / scale
        assert other[0] == pytest.approx(one[0], abs=1e-3)
        assert_close(other[1:], one[1:], one[2] - one[1])
    assert moved.parameters["exponent"].value == pytest.approx(plain.parameters["exponent"].value, rel=1e-2)
    here, there = rows(plain), (rows(moved) - shift) / scale
    assert_close(there, here, float((here[:, 2] - here[:, 1]).max()))


@FEW
@given(series=curves(), scale=st.sampled_from([0.01, 100.0]), shift=st.sampled_from([-5.0, 3.0]))
def test_the_scale_of_an_unbounded_value_does_not_matter(series: Series, scale: float, shift: float) -> None:
    start = None if series.start is None else StartValue(scale * series.start.value + shift, series.start.n)
    mapped = Series.of(series.compute, scale * series.value + shift, series.n, start=start)
    here, there = rows(fit(series, bounds=None)), (rows(fit(mapped, bounds=None)) - shift) / scale
    assert_close(there, here, float((here[:, 2] - here[:, 1]).max()))


@FEW
@given(series=curves())
def test_json_round_trip(series: Series) -> None:
    found = fit(series)
    back = Fit.from_json(found.to_json())
    assert back == found
    np.testing.assert_array_equal(rows(back), rows(found))


@FEW
@given(series=curves(), levels=st.sampled_from([(0.5, 0.9), (0.8, 0.95), (0.2, 0.5)]))
def test_narrow_intervals_lie_inside_wide_ones(series: Series, levels: tuple[float, float]) -> None:
    narrow, wide = (fit(series, level=level) for level in levels)
    for name, estimate in narrow.parameters.items():
        value, low, high = span(estimate)
        _, outer_low, outer_high = span(wide.parameters[name])
        assert outer_low <= low <= value <= high <= outer_high
    inner, outer = rows(narrow), rows(wide)
    assert (outer[:, 1] <= inner[:, 1]).all()
    assert (inner[:, 2] <= outer[:, 2]).all()


def test_more_points_never_widen_the_ceiling_on_average(curve: Curve) -> None:
    """20 well-specified curves, seen at 20, 40 and 80 evaluations up to the same compute."""
    widths: dict[int, list[float]] = {points: [] for points in (20, 40, 80)}
    for seed in range(20):
        for points, found in widths.items():
            ceiling = fit(curve(points=points, seed=seed, noise=0.012, n=400, last=6000.0)).ceiling
            assert ceiling is not None
            _, low, high = span(ceiling)
            found.append(high - low)
    means = [float(np.mean(widths[points])) for points in (20, 40, 80)]
    assert means[1] <= 1.03 * means[0]
    assert means[2] <= 1.03 * means[1]
    assert means[2] < 0.95 * means[0]


def test_seeing_more_of_the_curve_narrows_the_ceiling(curve: Curve) -> None:
    """The same spacing, further along: before the bend, at it, beyond it."""
    means = []
    for last in (500.0, 2000.0, 8000.0):
        widths = []
        for seed in range(6):
            ceiling = fit(curve(points=int(last / 100), last=last, seed=seed, noise=0.005, n=1000)).ceiling
            assert ceiling is not None
            _, low, high = span(ceiling)
            widths.append(high - low)
        means.append(float(np.mean(widths)))
    assert means[0] > means[1] > means[2]


@pytest.mark.parametrize("points", [300, 600])
def test_averaging_dense_curves_changes_little(curve: Curve, points: int) -> None:
    """Dense series are averaged inside; twice the density must not upset the forecast."""
    one, two = (fit(curve(points=k, n=500, noise=0.01, last=6000.0)) for k in (points, 2 * points))
    here, there = rows(one)[1], rows(two)[1]
    assert there[0] == pytest.approx(here[0], abs=0.02)
    assert (there[2] - there[1]) <= 1.3 * (here[2] - here[1])


def test_a_seed_that_stopped_early_does_not_blur_the_others(curve: Curve) -> None:
    """Its few points tell little about the future; they must not make the forecast wider either."""
    ratios = []
    for seed in range(4):
        whole, short = curve(seed=2 * seed, name="whole"), curve(seed=2 * seed + 1, name="short").head(4)
        alone, together = rows(fit(whole))[1], rows(fit([whole, short]))[1]
        assert together[0] == pytest.approx(alone[0], abs=0.01)
        ratios.append((together[2] - together[1]) / (alone[2] - alone[1]))
    assert np.mean(ratios) <= 1.25
