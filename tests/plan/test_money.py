"""Steps, days, GPU-hours, money, and a curve in its own compute."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from scalerl.curves import Fit, fit
from scalerl.errors import InputError
from scalerl.plan import Outcome
from scalerl.plan.money import bill, curve_per_step, milestones, reach_bill, steps_within
from scalerl.series import Series

IDLE = {"writing": 1.0, "reading": 0.0, "loading": 0.0, "tail": 0.0, "waiting": 0.0}
ONE = Outcome(
    generating=60, training=20, generators=60, gpus_per_generator=1, rows=100, kind="pipeline", k=8, steps=50,
    stands_for=1.0, step_s=90.0, tokens_per_step=6e6, trained_tokens_per_step=7e6, flops_per_step=1e18, mean_rows=50.0,
    mean_length=8000.0, generator=IDLE, trainer={"training": 1.0, "sending": 0.0, "evaluating": 0.0, "waiting": 0.0},
    ages=(0.5, 0.5), max_age=1,
)  # fmt: skip


def curve(name: str = "gpu_hours") -> Fit:
    compute = np.geomspace(50, 6000, 24)
    value = 0.2 + 0.5 / (1 + (600 / compute) ** 1.3) + np.random.default_rng(0).normal(0, 0.004, 24)
    return fit(Series.of([0.0, *compute], [0.2, *value], compute_name=name, value_name="pass_rate", name="one"))


def test_a_bill() -> None:
    found = bill(ONE, 1000, 2.5)
    assert found.steps == 1000
    assert found.gpu_hours == pytest.approx(2000)
    assert found.cost == pytest.approx(5000)
    assert found.days == pytest.approx(90_000 / 86_400)
    assert bill(ONE, 1000, None).cost is None


@pytest.mark.parametrize(
    ("unit", "amount", "steps"),
    [
        ("steps", 10, 10),
        ("gpu_hours", 20, 10),
        ("tokens", 1.3e8, 10),
        ("flops", 1e19, 10),
        ("days", 1, 960),
        ("money", 50, 10),
    ],
)
def test_budgets(unit: str, amount: float, steps: float) -> None:
    assert steps_within(unit, amount, ONE, 2.5) == pytest.approx(steps)  # type: ignore[arg-type]


def test_money_needs_a_price() -> None:
    with pytest.raises(InputError, match="--price"):
        steps_within("money", 1.0, ONE, None)


@pytest.mark.parametrize(
    ("name", "hours", "per_step"),
    [
        ("gpu_hours", None, 2.0),
        ("GPU-hours", 13.5, 13.5),
        ("steps", None, 1.0),
        ("tokens", None, 1.3e7),
        ("flops", None, 1e18),
    ],
)
def test_a_step_in_the_curve_s_compute(name: str, hours: float | None, per_step: float) -> None:
    assert curve_per_step(name, ONE, hours) == per_step


def test_compute_that_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="compute of the curve: got 'epochs'"):
        curve_per_step("epochs", ONE, None)
    with pytest.raises(InputError, match="a curve in GPU-hours"):
        curve_per_step("steps", ONE, 13.5)


def test_pass_rate_against_date_and_money() -> None:
    law = curve()
    points = milestones(law, 2.0, ONE, [500, 5000], 2.5, datetime(2027, 1, 1, tzinfo=UTC))
    assert [point.compute for point in points] == [1000, 10000]
    assert points[1].date.date().isoformat() == "2027-01-06"  # 5,000 x 90 s
    assert points[1].bill.cost == pytest.approx(25_000)
    assert points[0].value == pytest.approx(float(law.value_at(np.array([1000.0]))[0]), abs=0.02)
    assert points[1].low is not None
    assert points[1].low < points[1].value
    needed, message = reach_bill(law, 0.6, 2.0, ONE, None)
    assert needed is not None
    assert message.startswith("0.6 at about ")  # the curve has been there, the planned run has not
    assert law.value_at(np.array([2.0 * needed.steps]))[0] == pytest.approx(0.6, abs=0.02)
    assert reach_bill(law, 0.95, 2.0, ONE, None)[0] is None
