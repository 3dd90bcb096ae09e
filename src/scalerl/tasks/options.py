"""Checks of the options of a task: each returns nothing or raises one line that names the option and what is allowed.

Called by the tasks when they are made, so that a wrong dial fails before anything starts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from scalerl.errors import InputError


def check_whole(option: str, value: Any, low: int, high: int | None = None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool) and low <= value
    if not fits or (high is not None and value > high):
        allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
        raise InputError(f"task.{option}", value, allowed)


def check_optional_whole(option: str, value: object, low: int) -> None:
    if value is not None:
        check_whole(option, value, low)


def check_between(option: str, value: object, low: float, high: float) -> None:
    """Strictly between the two."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
        raise InputError(f"task.{option}", value, f"a number between {low:g} and {high:g}")


def check_at_least(option: str, value: object, low: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < math.inf:
        raise InputError(f"task.{option}", value, f"a number of at least {low:g}")


def check_flag(option: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InputError(f"task.{option}", value, "true or false")


def check_text(option: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InputError(f"task.{option}", value, "a text")


def check_table(option: str, value: object, without: Collection[str]) -> None:
    if not isinstance(value, Mapping) or set(value) & set(without):
        raise InputError(f"task.{option}", value, f"a table of options, without {' and '.join(without)}")


def check_choice(option: str, value: object, allowed: Collection[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"task.{option}", value, " or ".join(allowed))
