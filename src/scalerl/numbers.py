"""How numbers and names look: in messages, tables and pictures alike.

Everything that turns a number into text for a person does it here, so that sentence, table, figure and web page agree
to the last digit. It knows nothing about laws, tables or plots.

Rounding follows the error: a value with an interval is shown to two significant digits of the interval's width. Compute
is shown in k and M, or in scientific notation outside of that. What is not known is the word "unknown", never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

UNKNOWN = "unknown"


class Ranged(Protocol):
    """Anything with a value and an interval that may be unknown."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


_WIDE = 3.0
"""An interval of compute that spans more than this factor is read on a log scale: each end keeps two digits."""


def number(value: float | None, digits: int = 3, *, signed: bool = False) -> str:
    """A value without an interval, to `digits` significant digits."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if not _plain(value):
        return _scientific(value, digits, signed)
    return _fixed(value, digits - 1 - _magnitude(value), signed)


def estimate(value: Ranged | None, *, compute: bool = False, signed: bool = False) -> str:
    """`0.635 [0.624, 0.649]`, or the value alone when its interval is unknown."""
    if value is None:
        return UNKNOWN
    center, interval = split(value, compute=compute, signed=signed)
    return center if interval == UNKNOWN else f"{center} {interval}"


def split(value: Ranged, *, compute: bool = False, signed: bool = False) -> tuple[str, str]:
    """The value and its interval as two texts, for a table with a column for each."""
    return ranged(value.value, value.low, value.high, compute=compute, signed=signed)


def ranged(
    value: float, low: float | None, high: float | None, *, compute: bool = False, signed: bool = False
) -> tuple[str, str]:
    """`split` for loose numbers; one open end shows as `unknown`."""
    ends = [end for end in (low, high) if end is not None and not math.isnan(end)]
    if not ends:
        return (amount(value) if compute else number(value, signed=signed)), UNKNOWN
    if len(ends) < 2 or (compute and min(ends) > 0 and max(ends) > _WIDE * min(ends)):
        show = _alone(compute=compute, signed=signed)
        return show(value), f"[{show(low)}, {show(high)}]"
    return _shared(value, ends[0], ends[1], compute=compute, signed=signed)


def amount(value: float | None, digits: int = 3) -> str:
    """Compute in any unit: `850`, `12.7k`, `3.2M`, `1.2e21`; no trailing zeros."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    if not math.isfinite(rounded):  # the largest numbers have nothing above them to be rounded to
        return f"{value:g}"
    divisor, suffix = _unit(rounded)
    text = _fixed(rounded / divisor, digits - 1 - _magnitude(rounded / divisor), signed=False)
    return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix


def probability(value: float | None) -> str:
    """Two decimals, and never the certainty that a sample of draws cannot give."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value < 0.005:
        return "<0.01"
    return ">0.99" if value > 0.995 else f"{value:.2f}"


def percent(share: float) -> str:
    """`80 %`, `2.5 %`."""
    return f"{100 * share:.3g} %"


def name(text: str, limit: int = 40) -> str:
    """A name on one line without control characters, cut in the middle when it is long (the ends tell runs apart)."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or "(no name)"
    if len(clean) <= limit:
        return clean
    tail = (limit - 3) // 2
    return f"{clean[: limit - 3 - tail]}...{clean[-tail:]}"


def names(texts: Sequence[str], limit: int = 40) -> list[str]:
    """Names that will stand side by side: the folders that all of them share, in front or behind, are left out."""
    parts = [text.split("/") for text in texts]
    shortest = min((len(part) for part in parts), default=1) - 1
    front = next((i for i in range(shortest) if len({part[i] for part in parts}) > 1), shortest)
    room = shortest - front
    back = next((i for i in range(room) if len({part[-1 - i] for part in parts}) > 1), room)
    if len(parts) < 2:
        return [name(text, limit) for text in texts]
    return [name("/".join(part[front : len(part) - back]), limit) for part in parts]


def _alone(*, compute: bool, signed: bool) -> Callable[[float | None], str]:
    """Each number on its own, two digits: for open intervals and for those read on a log scale."""
    return partial(amount, digits=2) if compute else partial(number, digits=2, signed=signed)


def _shared(value: float, low: float, high: float, *, compute: bool, signed: bool) -> tuple[str, str]:
    """All three in the unit of the value, to two significant digits of the width."""
    width = high - low
    if width <= 0 or not math.isfinite(width):
        show = amount if compute else number
        return show(value), f"[{show(low)}, {show(high)}]"
    largest = max(abs(value), abs(low), abs(high))
    divisor, suffix = (
        _unit(largest if _magnitude(value) < -3 else value) if compute or not _plain(largest) else (1.0, "")
    )
    decimals = 1 - _magnitude(width / divisor)
    texts = [_fixed(v / divisor, decimals, signed) + suffix for v in (value, low, high)]
    return texts[0], f"[{texts[1]}, {texts[2]}]"


def _unit(value: float) -> tuple[float, str]:
    size = abs(value)
    if 1e-3 <= size < 1e3:
        return 1.0, ""
    if 1e3 <= size < 1e6:
        return 1e3, "k"
    if 1e6 <= size < 1e9:
        return 1e6, "M"
    power = max(_magnitude(value), -323)  # the smallest power of ten that is a number
    return 10.0**power, f"e{power}"


def _plain(value: float) -> bool:
    """Readable without an exponent."""
    return value == 0 or 1e-4 <= abs(value) < 1e5


def _magnitude(value: float) -> int:
    """The power of ten of the leading digit; 0 for zero and what is not finite."""
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _fixed(value: float, decimals: int, signed: bool) -> str:
    try:
        rounded = round(value, decimals) + 0.0  # + 0.0 turns -0.0 into 0.0
    except OverflowError:  # the largest numbers have nothing above them to be rounded to
        rounded = value
    return f"{rounded:{'+' if signed else ''}.{max(0, min(decimals, 12))}f}"


def _scientific(value: float, digits: int, signed: bool) -> str:
    if not math.isfinite(value):
        return f"{value:{'+' if signed else ''}g}"
    mantissa, power = f"{value:{'+' if signed else ''}.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(power)}"
