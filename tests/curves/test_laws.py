"""The laws as plain functions: gradients, limits, stability, and guesses that can be used as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.curves.laws import LAWS, flat, loglinear, power, sigmoid
from scalerl.series import FloatArray

COMPUTE = np.geomspace(0.5, 2000.0, 15)
PARAMETERS = {
    "sigmoid": st.tuples(st.floats(0.0, 0.5), st.floats(0.5, 1.0), st.floats(0.3, 4.0), st.floats(1.0, 1000.0)),
    "power": st.tuples(st.floats(0.3, 1.0), st.floats(0.05, 2.0), st.floats(0.1, 1.5)),
    "loglinear": st.tuples(st.floats(-1.0, 1.0), st.floats(-0.5, 0.5)),
    "flat": st.tuples(st.floats(0.0, 1.0)),
}
CURVES = {
    "rising": np.linspace(0.1, 0.8, 15),
    "falling": np.linspace(0.8, 0.1, 15),
    "constant": np.full(15, 0.4),
    "noisy": 0.5 + 0.2 * np.sin(np.arange(15.0)),
}


@pytest.mark.parametrize("name", LAWS)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_gradient_agrees_with_central_differences(name: str, data: st.DataObject) -> None:
    law = LAWS[name]
    at = np.array(data.draw(PARAMETERS[name]))
    gradient = law.gradient(COMPUTE, *at)
    assert gradient.shape == (COMPUTE.size, len(law.parameters))
    for i in range(at.size):
        step = np.zeros_like(at)
        step[i] = 1e-5 * max(abs(at[i]), 1e-2)
        numeric = (law.function(COMPUTE, *(at + step)) - law.function(COMPUTE, *(at - step))) / (2 * step[i])
        np.testing.assert_allclose(gradient[:, i], numeric, rtol=1e-6, atol=1e-8 * max(1.0, np.abs(numeric).max()))


def test_sigmoid_runs_from_floor_to_ceiling_with_half_of_the_gain_at_the_midpoint() -> None:
    low, middle, high = sigmoid(np.array([1e-300, 250.0, 1e300]), 0.2, 0.7, 1.3, 250.0)
    assert low == pytest.approx(0.2, abs=1e-15)
    assert middle == pytest.approx(0.45, abs=1e-15)
    assert high == pytest.approx(0.7, abs=1e-15)


@pytest.mark.parametrize("exponent", [0.01, 1.0, 50.0, 1e4])
def test_sigmoid_stays_finite_and_within_its_limits_at_any_compute(exponent: float) -> None:
    compute = np.geomspace(1e-300, 1e300, 2001)
    value = sigmoid(compute, 0.2, 0.7, exponent, 1.0)  # warnings are errors: an overflow would fail here
    gradient = LAWS["sigmoid"].gradient(compute, 0.2, 0.7, exponent, 1.0)
    assert np.isfinite(gradient).all()
    assert value.min() >= 0.2 - 1e-15
    assert value.max() <= 0.7 + 1e-15
    assert (np.diff(value) >= -1e-15).all()


def test_sigmoid_is_written_as_in_the_paper() -> None:
    expected = 0.4 + (0.645 - 0.4) / (1 + (10000.0 / COMPUTE) ** 1.7)
    np.testing.assert_allclose(sigmoid(COMPUTE, 0.4, 0.645, 1.7, 10000.0), expected, rtol=1e-13)


def test_power_rises_from_below_to_its_ceiling() -> None:
    tiny, one, huge = power(np.array([1e-300, 1.0, 1e300]), 0.7, 0.3, 0.5)
    assert tiny < -1e100
    assert one == pytest.approx(0.4, abs=1e-15)
    assert huge == pytest.approx(0.7, abs=1e-15)


def test_power_is_the_limit_of_the_sigmoid_far_beyond_the_midpoint() -> None:
    floor, ceiling, exponent, midpoint = 0.2, 0.7, 1.4, 10.0
    far = midpoint * np.array([1e3, 1e4])
    gap_sigmoid = ceiling - sigmoid(far, floor, ceiling, exponent, midpoint)
    gap_power = ceiling - power(far, ceiling, (ceiling - floor) * midpoint**exponent, exponent)
    np.testing.assert_allclose(gap_power, gap_sigmoid, rtol=1e-3)


def test_loglinear_gains_the_same_with_every_doubling_and_flat_gains_nothing() -> None:
    doubling: FloatArray = np.exp2(np.arange(-40.0, 40.0))
    np.testing.assert_allclose(np.diff(loglinear(doubling, 0.3, 0.1)), 0.1 * np.log(2), rtol=1e-9)
    assert loglinear(np.array([1.0]), 0.3, 0.1)[0] == 0.3
    assert (flat(doubling, 0.25) == 0.25).all()


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("value", CURVES.values(), ids=CURVES)
def test_guess_is_finite_in_range_and_usable(name: str, value: FloatArray) -> None:
    law = LAWS[name]
    guess = dict(zip(law.parameters, law.guess(COMPUTE, value), strict=True))
    assert np.isfinite(list(guess.values())).all()
    assert np.isfinite(law.function(COMPUTE, **guess)).all()
    for limit in ("floor", "ceiling", "level"):
        assert value.min() - 1e-12 <= guess.get(limit, value.min()) <= value.max() + 1e-12
    assert COMPUTE[0] <= guess.get("midpoint", COMPUTE[0]) <= COMPUTE[-1]
    assert guess.get("exponent", 1.0) > 0


def test_guesses_find_the_place() -> None:
    truth = sigmoid(COMPUTE, 0.2, 0.7, 1.5, 40.0)
    floor, ceiling, _, midpoint = LAWS["sigmoid"].guess(COMPUTE, truth)
    assert (floor, ceiling) == (truth.min(), truth.max())
    assert 20.0 < midpoint < 80.0
    line = loglinear(COMPUTE, 0.3, 0.05)
    assert LAWS["loglinear"].guess(COMPUTE, line) == pytest.approx((0.3, 0.05))
