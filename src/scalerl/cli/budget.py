"""The budget of a training run as people write it: `500`, `500 steps`, `2e13 flops`, `5M tokens`, `1.5 device-hours`.

Used by `settings` for `--budget` and by the views to say it again. What a budget counts is decided by the pipeline.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from scalerl import numbers
from scalerl.cli.places import number
from scalerl.errors import InputError

Unit = Literal["steps", "flops", "tokens", "device_hours"]

ALLOWED = '"500 steps" (or just 500), "2e13 flops", "5M tokens" or "1.5 device-hours"'
_FORM = re.compile(r"\s*(?P<amount>[^\s]*?\d[kKMGBT]?\.?)\s*(?P<unit>[a-z][a-z_-]*)?\s*")
_UNITS: dict[str | None, Unit] = {
    None: "steps",
    "step": "steps",
    "steps": "steps",
    "flop": "flops",
    "flops": "flops",
    "token": "tokens",
    "tokens": "tokens",
    "device-hour": "device_hours",
    "device-hours": "device_hours",
}


@dataclass(frozen=True)
class GivenBudget:
    """`scale.budget`, as it was given."""

    unit: Unit
    amount: float


def parse_budget(text: str) -> GivenBudget:
    """The values of `scale.budget`; whatever else it is, one line says what is allowed."""
    found = _FORM.fullmatch(text)
    unit = _UNITS.get(found["unit"] and found["unit"].replace("_", "-")) if found else None
    if found is None or unit is None:
        raise InputError("--budget", text, ALLOWED)
    try:
        amount = number("--budget", found["amount"])
    except InputError:
        raise InputError("--budget", text, ALLOWED) from None
    if not 0 < amount < math.inf:
        raise InputError("--budget", text, f"more than zero, such as {ALLOWED}")
    if unit == "steps" and not amount.is_integer():
        raise InputError("--budget", text, "a whole number of steps")
    return GivenBudget(unit, amount)


def budget_words(unit: Unit, amount: float) -> str:
    """`500 steps`, `2e13 FLOPs`, `1.5 device-hours`."""
    names = {"steps": "steps", "flops": "FLOPs", "tokens": "tokens", "device_hours": "device-hours"}
    size = f"{int(amount):,}" if unit == "steps" else numbers.amount(amount)
    return f"{size} {names[unit]}"
