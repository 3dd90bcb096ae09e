"""Least squares against certified numbers, known parameters, an independent optimiser, and the paper's procedure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from scalerl.curves import Fit, fit
from scalerl.curves.laws import power, sigmoid
from scalerl.curves.least_squares import Problem, solve
from scalerl.series import FloatArray, Series

Curve = Callable[..., Series]
COMPUTE = np.geomspace(30.0, 10000.0, 25)


def problem(compute: FloatArray, value: FloatArray, *, floor: float | None = None, ceiling: float | None = None,
            bounds: tuple[float, float] | None = (0.0, 1.0)) -> Problem:  # fmt: skip
    return Problem.of([Series.of(compute, value)], bounds, floor, ceiling)


def test_nist_rat42_to_six_digits() -> None:
    """NIST StRD Rat42, b1 / (1 + exp(b2 - b3 x)): our sigmoid in C = exp(x) with floor 0. Certified values."""
    x = np.array([9, 14, 21, 28, 42, 57, 63, 70, 79], dtype=float)
    y = [8.930, 10.800, 18.590, 22.330, 39.350, 56.110, 61.730, 64.620, 67.080]
    found = fit(Series.of(np.exp(x), y), floor=0.0, bounds=None)
    b1, b2, b3 = 7.2462237576e01, 2.6180768402e00, 6.7359200066e-02
    p = {name: estimate.value for name, estimate in found.parameters.items()}
    assert p["ceiling"] == pytest.approx(b1, rel=1e-6)
    assert p["exponent"] == pytest.approx(b3, rel=1e-6)
    assert p["exponent"] * np.log(p["midpoint"]) == pytest.approx(b2, rel=1e-6)
    assert found.sse == pytest.approx(8.0565229338e00, rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    floor=st.floats(0.02, 0.4),
    gain=st.floats(0.1, 0.55),
    exponent=st.floats(0.6, 3.0),
    midpoint=st.floats(100.0, 3000.0),
)
def test_recovers_a_noise_free_sigmoid(floor: float, gain: float, exponent: float, midpoint: float) -> None:
    truth = {"floor": floor, "ceiling": floor + gain, "exponent": exponent, "midpoint": midpoint}
    solution = solve("sigmoid", problem(COMPUTE, sigmoid(COMPUTE, **truth)))
    assert solution.parameters == pytest.approx(truth, rel=1e-6)
    assert solution.sse < 1e-18


@settings(deadline=None, max_examples=25)
@given(ceiling=st.floats(0.3, 0.95), share=st.floats(0.3, 0.99), exponent=st.floats(0.15, 1.5))
def test_recovers_a_noise_free_power_law(ceiling: float, share: float, exponent: float) -> None:
    truth = {"ceiling": ceiling, "scale": share * ceiling * COMPUTE[0] ** exponent, "exponent": exponent}
    solution = solve("power", problem(COMPUTE, power(COMPUTE, **truth)))
    assert solution.parameters == pytest.approx(truth, rel=1e-6)


def test_recovers_through_the_public_door_with_thousands_of_points() -> None:
    """Beyond a few hundred points the grid search sees bin means; the answer must not."""
    compute = np.linspace(10.0, 10000.0, 1200)
    truth = {"floor": 0.2, "ceiling": 0.7, "exponent": 1.4, "midpoint": 900.0}
    solution = solve("sigmoid", problem(compute, sigmoid(compute, **truth)))
    assert solution.parameters == pytest.approx(truth, rel=1e-6)


def test_the_straight_line_and_the_mean() -> None:
    value = 0.2 + 0.05 * np.log(COMPUTE)
    line = fit(Series.of(COMPUTE, value), law="loglinear")
    assert line.parameters["intercept"].value == pytest.approx(0.2, rel=1e-9)
    assert line.parameters["slope"].value == pytest.approx(0.05, rel=1e-9)
    assert fit(Series.of(COMPUTE, value), law="flat").parameters["level"].value == pytest.approx(value.mean())


def test_fixed_floor_and_ceiling_are_kept_exactly(curve: Curve) -> None:
    series = curve(start=False, noise=0.01)
    fixed = fit(series, floor=0.25, ceiling=0.72)
    assert fixed.floor is not None
    assert fixed.ceiling is not None
    assert (fixed.floor.value, fixed.ceiling.value) == (0.25, 0.72)
    assert fixed.sse >= fit(series, floor="free").sse


def test_measured_floor_is_the_step_0_value(curve: Curve) -> None:
    series = curve()
    assert series.start is not None
    for floor in ("measured", None):
        found = fit(series, floor=floor)
        assert found.floor is not None
        assert found.floor.value == series.start.value
    free = fit(series, floor="free")
    assert free.floor is not None
    assert free.floor.value != series.start.value


def test_never_leaves_the_bounds_on_data_that_rise_to_one() -> None:
    compute = np.arange(1.0, 31.0)
    value = np.clip(1.2 * compute / (compute + 12.0), 0.0, 1.0)
    inside = fit(Series.of(compute, value), floor=0.0)
    outside = fit(Series.of(compute, value), floor=0.0, bounds=None)
    assert inside.ceiling is not None
    assert outside.ceiling is not None
    assert outside.ceiling.value > 1.0  # otherwise this test would test nothing
    assert inside.ceiling.value <= 1.0
    assert inside.ceiling.high is not None
    assert inside.ceiling.high <= 1.0
    assert inside.value_at([1e9])[0] <= 1.0


@pytest.mark.parametrize(("many_where", "direction"), [("late", 1), ("early", -1)])
def test_points_with_more_answers_pull_harder(curve: Curve, many_where: str, direction: int) -> None:
    series = curve(start=False, noise=0.0)
    late = series.compute > 0.6 * series.compute[-1]
    value = series.value + np.where(late, 0.03, 0.0)
    n = np.where(late == (many_where == "late"), 1000.0, 10.0)
    plain, weighted = (fit(Series.of(series.compute, value, size), floor=0.3) for size in (None, n))
    assert direction * (weighted.value_at([1e4])[0] - plain.value_at([1e4])[0]) > 0.001


def test_equal_numbers_of_answers_change_nothing(curve: Curve) -> None:
    plain, weighted = (fit(curve(n=n), floor=0.3) for n in (None, 64))
    for name, estimate in plain.parameters.items():
        assert weighted.parameters[name].value == pytest.approx(estimate.value, rel=1e-9)


def _rival_sse(p: Problem, floor: float | None, truth: dict[str, float]) -> float:
    """The best of a few starts of scipy's trust-region solver in the same box of linear parameters."""

    def residual(z: FloatArray) -> FloatArray:
        low = z[0] if floor is None else floor
        return sigmoid(p.compute, low, z[1], np.exp(z[3]), np.exp(z[2])) - p.value

    middle, last = np.log(truth["midpoint"]), np.log(p.compute.max())
    starts = [(truth["floor"], truth["ceiling"], middle, np.log(truth["exponent"])), (0.1, 0.7, last, 0.0),
              (0.01, 0.9, last + 1, -0.5), (0.05, 0.6, middle, -0.3)]  # fmt: skip
    box = ([0.0, floor or 0.0, middle - 30, -6.0], [1.0, 1.0, middle + 30, 6.0])
    found = (least_squares(residual, z, bounds=box, xtol=1e-12, ftol=1e-12, gtol=1e-12) for z in starts)
    return min(2 * float(r.cost) for r in found)


@pytest.mark.parametrize("seed", range(24))
def test_no_other_optimiser_finds_a_better_fit(seed: int) -> None:
    """Noisy, short, half-seen curves, where the best node of a grid often touches a bound and the optimum does not."""
    rng = np.random.default_rng(seed)
    points, last = int(rng.integers(10, 60)), 10 ** rng.uniform(1, 5)
    compute = last * np.arange(1, points + 1) / points
    floor = rng.uniform(0.0, 0.3)
    truth = {
        "floor": floor,
        "ceiling": min(floor + rng.uniform(0.2, 0.6), 1.0),
        "exponent": float(np.exp(rng.normal(-0.2, 0.4))),
        "midpoint": last * float(np.exp(rng.uniform(-3, 0))),
    }
    noise = rng.uniform(0.002, 0.02) * rng.standard_normal(points)
    value = np.clip(sigmoid(compute, **truth) + noise, 0.0, 1.0)
    fixed = floor if seed % 3 == 0 else None
    p = problem(compute, value, floor=fixed)
    assert solve("sigmoid", p).sse <= _rival_sse(p, fixed, truth) * (1 + 1e-6)


def test_sum_of_squares_is_no_larger_than_the_papers(eight_b: Series, paper_sigmoid: Fit, paper_power: Fit) -> None:
    assert fit(eight_b, floor=0.40, window=(1500, 50000)).sse <= paper_sigmoid.sse
    assert fit(eight_b, law="power", window=(5000, 50000)).sse <= paper_power.sse


def test_sum_of_squares_is_no_larger_than_the_papers_on_a_simulated_curve(curve: Curve) -> None:
    series = curve(ceiling=0.6, midpoint=5000.0, last=30000.0, points=25, noise=0.006)
    paper = fit(series, method="paper")
    assert fit(series).sse <= paper.sse
    assert paper.ceiling is not None
    assert paper.ceiling.value == pytest.approx(0.6, abs=0.03)
