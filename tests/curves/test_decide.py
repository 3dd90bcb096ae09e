"""Decisions: the four answers, each on a curve that calls for it, and the numbers that go with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalerl.curves import decide, fit, marginal_gains
from scalerl.curves.decide import SCALE_AT, STOP_AT
from scalerl.errors import InputError
from scalerl.series import Series

Curve = Callable[..., Series]


def test_scale_on_a_steep_unfinished_curve(curve: Curve) -> None:
    decision = decide(fit(curve(floor=0.1, ceiling=0.9, exponent=2.0, last=900.0, noise=0.004)))
    assert decision.action == "SCALE"
    assert decision.probability is not None
    assert decision.probability >= SCALE_AT
    assert decision.expected_gain is not None
    assert decision.expected_gain > 0.1
    assert decision.extra_compute is None


def test_stop_on_a_saturated_curve(curve: Curve) -> None:
    decision = decide(fit(curve(last=40000.0, noise=0.003)))
    assert decision.action == "STOP"
    assert decision.probability is not None
    assert decision.probability <= STOP_AT
    assert decision.now == pytest.approx(0.7, abs=0.02)
    assert decision.expected_gain == pytest.approx(0.0, abs=0.02)


def test_need_more_data_with_few_points(curve: Curve) -> None:
    decision = decide(fit(curve(points=6, last=900.0)))
    assert decision.action == "NEED MORE DATA"
    assert "6" in decision.reason
    assert decision.extra_compute is not None
    assert decision.extra_compute > 0


def test_need_more_data_for_the_ceiling_before_the_bend(curve: Curve) -> None:
    found = fit(curve(floor=0.1, ceiling=0.9, exponent=2.0, last=600.0))
    decision = decide(found, question="ceiling")
    assert decision.action == "NEED MORE DATA"
    assert "ceiling" in decision.reason
    assert decision.extra_compute is not None
    (needed,) = [d.compute for d in found.diagnostics if d.code == "ceiling_not_identified"]
    assert needed is not None
    assert decision.extra_compute == pytest.approx(needed - 600.0)


def test_the_ceiling_can_be_decided_upon_after_the_bend(curve: Curve) -> None:
    assert decide(fit(curve(last=40000.0, noise=0.003)), question="ceiling").action == "STOP"


@pytest.mark.parametrize("question", ["value", "ceiling"])
def test_unstable_on_a_collapse(curve: Curve, question: Any) -> None:
    series = curve(last=8000.0)
    value = series.value.copy()
    value[-6:] = [0.6, 0.5, 0.4, 0.35, 0.3, 0.3]
    decision = decide(fit(Series.of(series.compute, value, start=0.3)), question=question)
    assert decision.action == "UNSTABLE"
    assert "below the best" in decision.reason


@pytest.mark.parametrize("bend", [0.3, 1.0, 2.0, 4.0, 8.0, 20.0])
def test_the_answer_follows_from_the_probability(curve: Curve, bend: float) -> None:
    decision = decide(fit(curve(last=1000.0 * bend, noise=0.006, n=500, seed=3)))
    assert decision.probability is not None
    expected = (
        "SCALE" if decision.probability >= SCALE_AT else "STOP" if decision.probability <= STOP_AT else "NEED MORE DATA"
    )
    assert decision.action == expected
    assert "gain" in decision.reason
    if decision.extra_compute is not None:
        assert decision.action == "NEED MORE DATA"
        assert 0 < decision.extra_compute < 1000.0 * bend


@pytest.mark.parametrize("last", [900.0, 3000.0, 20000.0])
def test_the_expected_gain_is_that_of_one_doubling(curve: Curve, last: float) -> None:
    found = fit(curve(last=last))
    ((_, gain),) = marginal_gains(found, 1)
    assert decide(found).expected_gain == pytest.approx(gain.value, abs=1e-12)
    beyond = [decide(found, delta=max(gain.value, 0.001) * factor).probability or 0.0 for factor in (0.9, 1.1)]
    assert beyond[0] >= beyond[1]
    assert beyond[1] <= 0.5


def test_the_default_budget_is_twice_the_last_compute(curve: Curve) -> None:
    found = fit(curve())
    assert decide(found).budget == 20000.0
    assert decide(found) == decide(found, 20000.0)


def test_more_is_asked_with_a_larger_delta_and_more_is_had_with_a_larger_budget(curve: Curve) -> None:
    found = fit(curve(last=2000.0, noise=0.005))
    by_delta = [decide(found, delta=delta).probability or 0.0 for delta in (0.005, 0.03, 0.1, 0.3)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_delta[0] > by_delta[-1]
    small, large = (decide(found, budget).expected_gain or 0.0 for budget in (2200.0, 16000.0))
    assert large > small


def test_what_was_asked_is_repeated_in_the_answer(curve: Curve) -> None:
    decision = decide(fit(curve(last=40000.0)), 60000.0, delta=0.05)
    assert (decision.budget, decision.delta) == (60000.0, 0.05)
    assert "0.05" in decision.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 10000.0}, "already spent"),
        ({"budget": 1.0}, "already spent"),
        ({"budget": 0.0}, "unusable budget"),
        ({"budget": -5.0}, "unusable budget"),
        ({"budget": np.nan}, "unusable budget"),
        ({"budget": np.inf}, "unusable budget"),
        ({"delta": 0.0}, "unusable delta"),
        ({"delta": np.nan}, "unusable delta"),
        ({"question": "why"}, "unknown question"),
    ],
)
def test_refuses_what_cannot_be_asked(curve: Curve, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        decide(fit(curve()), **options)


def test_the_default_gain_follows_the_range_of_the_value() -> None:
    compute = np.linspace(500.0, 40_000.0, 40)
    value = 0.28 + 0.34 / (1 + (6000 / compute) ** 1.4) + 0.004 * np.sin(np.arange(40.0))
    share = decide(fit(Series.of(compute, value, start=0.28)))
    percent = decide(fit(Series.of(compute, 100 * value, start=28.0), bounds=(0.0, 100.0)))
    assert (share.delta, percent.delta) == pytest.approx((0.03, 3.0))
    assert percent.action == share.action
    assert percent.probability == pytest.approx(share.probability, abs=0.02)


def test_a_collapse_that_makes_its_own_noise_is_unstable() -> None:
    value = [0.508, 0.562, 0.548, 0.458, 0.322, 0.35, 0.094, 0.284, 0.296, 0.176, 0.35]
    found = fit(Series.of(50.0 * np.arange(1, 12), value))
    assert decide(found).action == "UNSTABLE"
    assert not found.identified
    assert "ceiling_not_identified" not in {d.code for d in found.diagnostics}
