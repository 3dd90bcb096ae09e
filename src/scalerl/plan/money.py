"""From a simulated step to time, GPU-hours and money; and with a fitted curve, to pass rates at dates.

Called by the command line. A curve says what so much compute buys; the plan says what it costs here and how long it
takes. How the two kinds of compute meet is `curve_per_step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from scalerl import numbers
from scalerl.curves import Fit, forecast, reach
from scalerl.errors import InputError
from scalerl.plan.outcome import Outcome

Unit = Literal["steps", "gpu_hours", "tokens", "flops", "days", "money"]
_CURVE_UNITS = {
    "steps": ("steps", "step", "training_steps", "global_step"),
    "gpu_hours": ("gpu_hours", "gpu-hours", "gpu hours", "gpuhours", "device_hours", "device-hours", "compute_hours"),
    "tokens": ("tokens", "total_tokens"),
    "flops": ("flops", "total_flops"),
}


@dataclass(frozen=True)
class Bill:
    """What so many steps take."""

    steps: float
    days: float
    gpu_hours: float
    cost: float | None
    """None: no price was given."""


@dataclass(frozen=True)
class Milestone:
    """A point of the curve as this plan reaches it."""

    bill: Bill
    date: datetime
    compute: float
    """In the curve's own unit."""
    value: float
    low: float | None
    high: float | None


def bill(outcome: Outcome, steps: float, price: float | None) -> Bill:
    """`price`: of a GPU-hour."""
    gpu_hours = steps * outcome.gpu_hours_per_step
    return Bill(steps, steps * outcome.step_s / 86400, gpu_hours, None if price is None else price * gpu_hours)


def steps_within(unit: Unit, amount: float, outcome: Outcome, price: float | None) -> float:
    """Steps that a budget pays for."""
    if unit == "money":
        if not price:
            raise InputError("a budget in money without --price", allowed="--price, the price of a GPU-hour")
        return amount / (price * outcome.gpu_hours_per_step)
    per_step = {
        "steps": 1.0,
        "gpu_hours": outcome.gpu_hours_per_step,
        "tokens": outcome.tokens_per_step + outcome.trained_tokens_per_step,
        "flops": outcome.flops_per_step,
        "days": outcome.step_s / 86400,
    }[unit]
    if not per_step:
        raise InputError("a budget in FLOPs", amount, "steps, gpu-hours or days: the policy's shape is not known")
    return amount / per_step


def curve_per_step(compute_name: str, outcome: Outcome, gpu_hours_per_step: float | None) -> float:
    """Of the curve's compute, what one step of the plan adds. `gpu_hours_per_step`: of the run that the curve is of;
    without it a GPU-hour there is taken to buy what a GPU-hour buys here."""
    name = compute_name.strip().lower()
    unit = next((unit for unit, names in _CURVE_UNITS.items() if name in names), None)
    if gpu_hours_per_step is not None:
        if unit != "gpu_hours":
            raise InputError("--curve-gpu-hours-per-step with a curve in", compute_name, "a curve in GPU-hours")
        return gpu_hours_per_step
    if unit == "steps":
        return 1.0
    if unit == "gpu_hours":
        return outcome.gpu_hours_per_step
    if unit == "tokens":
        return outcome.tokens_per_step + outcome.trained_tokens_per_step
    if unit == "flops" and outcome.flops_per_step:
        return outcome.flops_per_step
    allowed = "GPU-hours, steps, tokens or FLOPs (--x)"
    raise InputError("compute of the curve", compute_name, allowed)


def milestones(
    fit: Fit, per_step: float, outcome: Outcome, steps: Sequence[float], price: float | None, start: datetime
) -> tuple[Milestone, ...]:
    """What the curve promises after each number of steps, and when and for how much that is."""
    found = forecast(fit, [per_step * one for one in steps])
    bills = [bill(outcome, one, price) for one in steps]
    return tuple(
        Milestone(one, start + timedelta(days=one.days), point.compute, point.value, point.low, point.high)
        for one, point in zip(bills, found, strict=True)
    )


def reach_bill(
    fit: Fit, target: float, per_step: float, outcome: Outcome, price: float | None
) -> tuple[Bill | None, str]:
    """What it takes to reach a value; None and the reason where the curve is not expected to."""
    found = reach(fit, target)
    if found.compute is None:
        return None, found.message
    message = found.message
    if found.compute <= fit.last_compute:  # by the run behind the curve, not by the one that is planned
        message = f"{target:g} at about {numbers.amount(found.compute)} {fit.compute_name} of the curve"
    return bill(outcome, found.compute / per_step, price), message
