"""Forecasts, targets, marginal gains and the straightened plot, on curves whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalerl.curves import Estimate, Fit, Forecast, fit, forecast, log_f, marginal_gains, reach
from scalerl.errors import InputError
from scalerl.series import Series

Curve = Callable[..., Series]


def truth(compute: float) -> float:
    """The law behind the default simulated curve."""
    return float(0.3 + 0.4 / (1 + (1000.0 / compute) ** 1.5))


def ends(row: Forecast | Estimate) -> tuple[float, float]:
    assert row.low is not None
    assert row.high is not None
    return row.low, row.high


def test_one_row_for_each_compute_in_the_order_asked(curve: Curve) -> None:
    rows = forecast(fit(curve()), [4e4, 2e4, 1e4])
    assert [r.compute for r in rows] == [4e4, 2e4, 1e4]
    for row in rows:
        low, high = ends(row)
        assert low <= row.value <= high
        assert low >= 0.0
        assert high <= 1.0


def test_a_bent_curve_is_forecast_to_its_ceiling(curve: Curve) -> None:
    for row in forecast(fit(curve(noise=0.003)), [2e4, 4e4]):
        assert row.value == pytest.approx(truth(row.compute), abs=0.02)


def test_the_present_is_known_better_than_the_future(curve: Curve) -> None:
    found = fit(curve(last=1500.0, noise=0.005))
    widths = [high - low for low, high in map(ends, forecast(found, [1500.0, 3000.0, 12000.0]))]
    assert widths[0] < widths[1] < widths[2]
    assert forecast(found, [1500.0])[0].value == pytest.approx(truth(1500.0), abs=0.02)


def test_half_of_the_mass_lies_inside_nine_tenths_of_it(curve: Curve) -> None:
    found = fit(curve(last=3000.0, noise=0.01))
    for half, most in zip(forecast(found, [3e3, 1e4], level=0.5), forecast(found, [3e3, 1e4], level=0.9), strict=True):
        assert most.low is not None
        assert most.high is not None
        assert most.low < ends(half)[0] < half.value < ends(half)[1] < most.high
        assert most.value == half.value


def test_the_level_of_the_fit_is_the_default(curve: Curve) -> None:
    assert forecast(fit(curve(), level=0.5), [2e4]) == forecast(fit(curve(), level=0.9), [2e4], level=0.5)


def test_the_papers_procedure_forecasts_without_an_interval(paper_sigmoid: Fit) -> None:
    (row,) = forecast(paper_sigmoid, [1e5])
    assert (row.low, row.high) == (None, None)
    assert row.value == paper_sigmoid.value_at(1e5)[0]


@pytest.mark.parametrize("compute", [0.0, -1.0, float("nan"), float("inf")])
def test_a_compute_that_cannot_be_is_refused(curve: Curve, compute: float) -> None:
    with pytest.raises(InputError, match="unusable compute"):
        forecast(fit(curve()), [1e4, compute])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_a_level_that_cannot_be_is_refused(curve: Curve, level: float) -> None:
    found = fit(curve())
    for ask in (lambda: forecast(found, [2e4], level=level), lambda: reach(found, 0.6, level=level),
                lambda: marginal_gains(found, level=level)):  # fmt: skip
        with pytest.raises(InputError, match="level"):
            ask()


def test_reach_a_target_that_lies_ahead(curve: Curve) -> None:
    target = truth(4000.0)
    answer = reach(fit(curve(last=2000.0, noise=0.002)), target)
    assert answer.target == target
    assert answer.compute is not None
    assert 2000.0 < answer.compute < 16000.0
    assert answer.low is not None
    assert answer.low <= answer.compute
    assert answer.high is None or answer.compute <= answer.high
    assert answer.probability is not None
    assert answer.probability > 0.5


def test_reach_a_target_that_lies_behind(curve: Curve) -> None:
    answer = reach(fit(curve(noise=0.002)), truth(1000.0))
    assert answer.compute == pytest.approx(1000.0, rel=0.25)
    assert "already" in answer.message


@pytest.mark.parametrize("target", [0.9, 1.0])
def test_reach_never_above_the_ceiling(curve: Curve, target: float) -> None:
    answer = reach(fit(curve(last=20000.0, noise=0.002)), target)
    assert (answer.compute, answer.high) == (None, None)
    assert answer.probability is not None
    assert answer.probability < 0.05
    assert answer.message.startswith("never")


def test_reach_is_impossible_beyond_the_bounds(curve: Curve) -> None:
    """With bounds 0 to 1 no draw may pass 1, however wide the posterior."""
    answer = reach(fit(curve(ceiling=0.99, last=1500.0, noise=0.01)), 1.001)
    assert answer.probability == 0.0
    assert answer.compute is None


def test_a_higher_target_is_less_likely(curve: Curve) -> None:
    found = fit(curve(last=1500.0, noise=0.01))
    chances = [reach(found, target).probability or 0.0 for target in (0.5, 0.6, 0.7, 0.8, 0.95)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > chances[-1]


def test_reach_by_the_papers_procedure(paper_sigmoid: Fit) -> None:
    p = {name: e.value for name, e in paper_sigmoid.parameters.items()}
    halfway = reach(paper_sigmoid, (p["floor"] + p["ceiling"]) / 2)
    assert halfway.compute == pytest.approx(p["midpoint"], rel=0.01)
    assert (halfway.probability, halfway.low, halfway.high) == (None, None, None)
    assert reach(paper_sigmoid, 0.9).compute is None


def test_a_target_must_be_finite(curve: Curve) -> None:
    with pytest.raises(InputError, match="unusable target"):
        reach(fit(curve()), float("nan"))


def test_each_doubling_of_a_bent_curve_gains_less_than_the_one_before(curve: Curve) -> None:
    rows = marginal_gains(fit(curve(last=3000.0, noise=0.002)), 4)
    assert [c for c, _ in rows] == [6000.0, 12000.0, 24000.0, 48000.0]
    gains = [g.value for _, g in rows]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.01
    for _, gain in rows:
        low, high = ends(gain)
        assert low <= gain.value <= high


def test_gains_of_the_papers_procedure(paper_sigmoid: Fit) -> None:
    (compute, gain), *_ = marginal_gains(paper_sigmoid, 1)
    last = paper_sigmoid.last_compute
    assert compute == 2 * last
    assert gain.value == pytest.approx(float(np.diff(paper_sigmoid.value_at([last, 2 * last]))[0]))
    assert gain.low is None


def test_log_f_is_a_straight_line_whose_slope_is_the_exponent(curve: Curve) -> None:
    found = fit(curve(noise=0.0, points=30, last=5000.0))
    ((compute, f),) = log_f(found)
    assert compute.size == 30
    np.testing.assert_allclose(np.log(f), 1.5 * np.log(compute), rtol=1e-4)


def test_log_f_with_another_ceiling_leaves_out_what_lies_above_it(curve: Curve) -> None:
    found = fit([curve(noise=0.0), curve(noise=0.0, last=3000.0)])
    pairs = log_f(found, ceiling=0.6)
    assert len(pairs) == 2
    for (compute, f), series in zip(pairs, found.series, strict=True):
        assert compute.tolist() == series.compute[series.value < 0.6].tolist()
        assert (f > 0).all()


def test_log_f_needs_a_sigmoid(curve: Curve) -> None:
    with pytest.raises(InputError, match="sigmoid"):
        log_f(fit(curve(), law="power"))
