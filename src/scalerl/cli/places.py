"""A compute as people name it: an amount (`50k`), or a share of the curve's last compute (`50%`, `end`).

Used by `checks` to read the options and by the commands to turn a share into an amount, which needs the curve. One
share means another amount for each curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.series import Series

SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


@dataclass(frozen=True)
class OfLast:
    """A share of the last compute of a curve, its held-out points included."""

    share: float


Place = float | OfLast


def number(option: str, text: str) -> float:
    """A number as people write it: 50000, 50_000, 5e4, 50k; `inf` too, but not NaN."""
    digits, factor = (text[:-1], SUFFIXES[text[-1]]) if text[-1:] in SUFFIXES else (text, 1.0)
    try:
        value = float(digits) * factor
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise InputError(option, text, "a number, such as 50000, 5e4 or 50k")
    return value


def place(option: str, text: str) -> Place:
    """An amount, or a share written as a percentage."""
    if not text.endswith("%"):
        return number(option, text)
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise InputError(option, text, "a number such as 50k, or a share of the last compute such as 50%")
    return OfLast(share)


def window(start: str | None, until: str | None) -> tuple[Place | None, Place | None]:
    """The values of --from and --until, each possible and, where both are of one kind, in order."""
    low = None if start is None else place("--from", start)
    high = None if until is None else place("--until", until)
    if low is not None and not 0 <= _size(low) < (1 if isinstance(low, OfLast) else math.inf):
        raise InputError("--from", start, "a compute of zero or more, or a share from 0% to below 100%")
    if high is not None and not 0 < _size(high) <= (1 if isinstance(high, OfLast) else math.inf):
        raise InputError("--until", until, "a compute above zero, a share above 0% and up to 100%, or inf")
    if low is not None and high is not None and type(low) is type(high) and _size(low) >= _size(high):
        raise _upside_down(f"{start} and {until}")
    return low, high


def budget(text: str) -> Place:
    """The value of --budget: where to forecast. `end` is where the curve ends."""
    if text == "end":
        return OfLast(1.0)
    found = place("--budget", text)
    if not 0 < _size(found) < math.inf:
        allowed = "a finite number above zero, a share of the last compute such as 100%, or end"
        raise InputError("--budget", text, allowed)
    return found


def window_of(seeds: Sequence[Series], low: Place | None, high: Place | None) -> tuple[float | None, float | None]:
    """The window in the compute of this curve; infinity, which leaves nothing out, becomes None."""
    last = last_compute(seeds)
    start = None if low is None else amount(low, last)
    until = None if high is None else amount(high, last)
    if start is not None and until is not None and start >= until:
        raise _upside_down(f"{start:g} and {until:g}")
    return start, None if until == math.inf else until


def amounts(places: Iterable[Place], seeds: Sequence[Series]) -> tuple[float, ...]:
    """Every place in the compute of this curve."""
    last = last_compute(seeds)
    return tuple(amount(one, last) for one in places)


def amount(one: Place, last: float) -> float:
    return one.share * last if isinstance(one, OfLast) else one


def last_compute(seeds: Sequence[Series]) -> float:
    """Of all seeds together; 0 for a curve without points, which the fit refuses in its own words."""
    return max((float(series.compute[-1]) for series in seeds if len(series)), default=0.0)


def _size(one: Place) -> float:
    return one.share if isinstance(one, OfLast) else one


def _upside_down(values: str) -> InputError:
    return InputError("--from is not below --until", values, "--from below --until")
