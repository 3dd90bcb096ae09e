r"""Numbers in a text, with what stands around them: percent, unit, currency, "million".

Called by the verifiers `number` and `math`. Everything here takes time in proportion to the text; a number that is
longer than `LONGEST` characters is none, because converting it would not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

LONGEST = 60
DOLLAR = "\uff04"
r"""A dollar that is money: `\$`. A plain one is mostly the edge of a formula."""

_CHARACTERS = str.maketrans({
    "\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u2044": "/", "\u00a0": " ",
    "\u2009": " ", "\u202f": " ", "\uff05": "%", "\u00bd": " 1/2", "\u2153": " 1/3", "\u2154": " 2/3",
    "\u00bc": " 1/4", "\u00be": " 3/4", "\u00b2": "^2", "\u00b3": "^3", "\u00ba": "\u00b0",
})  # fmt: skip
_SIMPLE = r"\{\s{0,3}([0-9]+(?:\.[0-9]+)?)\s{0,3}\}"
_LATEX = [  # what stands for what, in this order
    (re.compile(r"\\(?:left|right|displaystyle|!|quad)(?![a-z])"), ""),
    (re.compile(r"(?<=[0-9])(?:\\,|\{,\}|~|\\ |\\;)(?=[0-9]{3})"), ","),
    (re.compile(r"\\[,;: ]|~"), " "),
    (re.compile(r"\^\s{0,3}(?:\{\s{0,3}\\circ\s{0,3}\}|\\circ)|\\degree(?![a-z])"), "\u00b0"),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname|mbox)\s{0,3}\{([^{}]*)\}"), r" \1 "),
    (re.compile(rf"\\[dtc]?frac\s{{0,3}}{_SIMPLE}\s{{0,3}}{_SIMPLE}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s{0,3}([0-9])\s{0,3}([0-9])(?![0-9])"), r" \1/\2"),
    (re.compile(r"([-+])\s{1,3}(?=[0-9]+/)"), r"\1"),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (re.compile(r"\\approx(?![a-z])"), "="),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[()\[\]]|\*\*|__"), " "),
]  # fmt: skip

_REPEATING = re.compile(
    r"(?<![0-9.,])([0-9]{0,9})\.([0-9]{0,9})\s{0,3}\\(?:overline|bar)\s{0,3}\{\s{0,3}([0-9]{1,9})\s{0,3}\}"
)
_NUMBER = re.compile(
    r"(?P<sign>(?<![0-9.)])[-+]\s?)?(?P<currency>[$\uff04\u20ac\u00a3])?\s?(?P<inner>(?<![0-9.)])-(?=[0-9.]))?"
    r"(?:(?P<whole>[0-9]{1,9})\s(?:and\s)?(?=[0-9]{1,9}\s?/\s?[0-9]))?"  # of a mixed number
    r"(?P<top>(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,3}(?:\ [0-9]{3})+(?![0-9]|\s*/)|[0-9]+)"
    r"(?:\.[0-9]+)?)|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[-+]?[0-9]{1,3})(?![0-9]))?"
    r"(?:\s{0,3}/\s{0,3}(?P<bottom>[0-9]+(?:\.[0-9]+)?))?"
    r"(?:\s?\*\s?1e(?P<power>[-+]?[0-9]{1,3}))?"
    r"(?P<percent>\s{0,3}%|\s{1,3}per\s?cent(?:age)?\b)?"
    r"(?:\s{0,3}(?P<scale>thousand|million|billion|trillion)\b)?"
    r"(?:\s{0,3}(?P<unit>[A-Za-z\u00b0\u20ac\u00a3\u00a2]+(?:\^\{?[23]\}?)?(?:/[a-z]+)?))?"
)
_POWER_OF_TEN = re.compile(r"(?<![0-9.])10\s{0,3}\^\s{0,3}\{?\s{0,3}([-+]?[0-9]{1,3})\s{0,3}\}?")
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SAME_UNIT = (
    ("mm", "millimeter", "millimetre"), ("cm", "centimeter", "centimetre"), ("m", "meter", "metre"),
    ("km", "kilometer", "kilometre"), ("in", "inch", "inches"), ("ft", "foot", "feet"), ("yd", "yard"),
    ("mi", "mile"), ("mg", "milligram"), ("g", "gram"), ("kg", "kilogram"), ("lb", "lbs", "pound"), ("oz", "ounce"),
    ("ml", "milliliter", "millilitre"), ("l", "liter", "litre"), ("s", "sec", "second"), ("min", "minute"),
    ("h", "hr", "hour"), ("day",), ("week",), ("month",), ("year",), ("\u00b0", "degree", "deg"),
    ("rad", "radian"), ("dollar", "usd"), ("cent", "\u00a2"), ("euro", "\u20ac"), ("km/h", "kph"), ("m/s",), ("mph",),
)  # fmt: skip
_CURRENCIES = {DOLLAR: "dollar", "\u20ac": "euro"}
"""What stands before a number; pounds are a weight too, and so nothing is known of them."""
_MONEY = re.compile(r"\$(?=\s?-?\.?[0-9])")
_UNITS = {name: names[0] for names in _SAME_UNIT for name in names}


@dataclass(frozen=True)
class Quantity:
    """A number and where it stands."""

    value: Fraction
    percent: bool
    unit: str
    """The name of a known unit, with ^2 or ^3; empty: none, or a word that is no unit."""
    begin: int
    end: int
    places: int | None = None
    """Decimal places that were written, so that the number may be a rounded one; None: it is exact."""

    @property
    def share(self) -> Quantity:
        """A percentage as a share of one."""
        if not self.percent:
            return self
        places = None if self.places is None else self.places + 2
        return replace(self, value=self.value / 100, percent=False, places=places)


def with_money(text: str) -> str:
    r"""With `DOLLAR` for `\$`, and for a plain one that no other closes, before a number."""
    text = text.replace(r"\$", DOLLAR)
    return _MONEY.sub(DOLLAR, text) if text.count("$") == 1 else text


def plain_text(text: str) -> str:
    """Without the LaTeX that changes nothing about a number."""
    text = with_money(text.translate(_CHARACTERS))
    text = _REPEATING.sub(_fraction, text)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split()).replace(" ^", "^")
    return _POWER_OF_TEN.sub(r"1e\1", re.sub(r"^([-+]) (?=[0-9.])", r"\1", text))


def quantities(plain: str) -> list[Quantity]:
    """Every number in a text that has gone through `plain_text`; none, if one of them is too long to convert."""
    return list(_quantities(plain))


def unit_name(word: str) -> str:
    """The usual short name of a unit; empty for any other word."""
    base, power = re.fullmatch(r"(.*?)(?:\^\{?([23])\}?)?", word, re.DOTALL).groups()  # type: ignore[union-attr]
    known = _UNITS.get(base) or _UNITS.get(base.casefold()) or _UNITS.get(base.casefold().removesuffix("s"), "")
    return f"{known}^{power}" if known and power else known


def _fraction(repeating: re.Match[str]) -> str:
    r"""`0.1\overline{6}` is 1/6."""
    once, again = repeating[1] + repeating[2], repeating[3]
    value = Fraction(int(once + again) - int(once or 0), 10 ** len(repeating[2]) * (10 ** len(again) - 1))
    return f" {value.numerator}/{value.denominator}"


def _quantities(plain: str) -> Iterator[Quantity]:
    for found in _NUMBER.finditer(plain):
        value = _value(found)
        if value is not None:
            unit = unit_name(found["unit"] or "") or _CURRENCIES.get(found["currency"] or "", "")
            places = _places(found)
            yield Quantity(value, bool(found["percent"]), unit, found.start(), found.end(), places)


def _value(found: re.Match[str]) -> Fraction | None:
    if len(found[0]) > LONGEST:
        return None
    try:
        value = Fraction(found["top"].replace(",", "").replace(" ", ""))
        if found["bottom"]:
            value /= Fraction(found["bottom"])
    except ZeroDivisionError:
        return None
    value = (value + int(found["whole"] or 0)) * Fraction(10) ** _power(found)
    negative = (found["sign"] or "").strip() == "-" or bool(found["inner"])
    return -value if negative else value


def _places(found: re.Match[str]) -> int | None:
    decimals = found["top"].partition(".")[2]
    return len(decimals) - _power(found) if decimals and not found["bottom"] else None


def _power(found: re.Match[str]) -> int:
    return int(found["exponent"] or 0) + int(found["power"] or 0) + _SCALES.get(found["scale"] or "", 0)
