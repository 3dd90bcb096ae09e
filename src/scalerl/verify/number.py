r"""The same number: `42`, `-1,000.5`, `1 1/2`, `\frac{3}{4}`, `2.5e-3`, `2.5 \times 10^{-3}`, `50%`, `12 cm`.

Made by `build`. Runs in the process that asks. Units are not converted: 1 m is not 100 cm, and 12 cm is not 12 m.
Reading is done by `quantity`; here it is decided which number is meant and whether two are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from scalerl.verify.quantity import Quantity, plain_text, quantities
from scalerl.verify.statement import TAIL, Statement, stated
from scalerl.verify.verdict import Verdict, Verifier, judged

_ASIDE = re.compile(r"(?i)\b(?:when|where|because|since|if|for|per|out of|so that)\b")
_BOTH = re.compile(r"(?i) ?[^\W\d]* ?(?:(?:,|;|\bor\b|\band\b|\bto\b|-|\$) ?){0,3}")
"""Between two numbers that are both offered: no answer to a question for one."""

ENOUGH_DIGITS = 6
"""Significant digits of a decimal that may stand for a fraction or for a longer decimal."""

SEVERAL = "several numbers"


@dataclass(frozen=True)
class NumberVerifier(Verifier):
    """Number against number."""

    tolerance: float = 0.0
    """Largest difference, as a share of the reference. Decimals may be rounded anyway: see `same_value`."""
    absolute_tolerance: float = 0.0
    """Largest difference, whatever the reference."""

    def verify(self, text: str, reference: str) -> Verdict:
        found, wanted = read_number(text), read_number(reference)
        if isinstance(wanted, str):
            return Verdict("error", f"the reference has {wanted}")
        if found == SEVERAL:
            return Verdict("wrong", SEVERAL)
        if isinstance(found, str):
            return Verdict("unparsable", found)
        return judged(self.same(found, wanted))

    def objection(self, reference: str) -> str | None:
        found = read_number(reference)
        return found if isinstance(found, str) else None

    def same(self, found: Quantity, wanted: Quantity) -> bool:
        """A percentage equals its share (50% and 0.5), and its own number where a percentage was asked for (50)."""
        return same_value(found, wanted) or _same(found, wanted, self._near)

    def _near(self, found: Quantity, wanted: Quantity) -> bool:
        most = max(Fraction(self.absolute_tolerance), Fraction(self.tolerance) * abs(wanted.value))
        return abs(found.value - wanted.value) <= most


def same_value(found: Quantity, wanted: Quantity) -> bool:
    """Without a tolerance: exact numbers are equal, and a decimal with enough digits may be the other, rounded."""
    return _same(found, wanted, _rounded)


def _same(found: Quantity, wanted: Quantity, near: Callable[[Quantity, Quantity], bool]) -> bool:
    if found.unit and wanted.unit and found.unit != wanted.unit:
        return False
    if found.percent == wanted.percent:
        return near(found, wanted)
    return near(found.share, wanted.share) or (abs(wanted.value) >= 1 and near(found, wanted))


def _rounded(found: Quantity, wanted: Quantity) -> bool:
    if found.value == wanted.value:
        return True
    places = min((q.places for q in (found, wanted) if q.places is not None), default=None)
    if places is None:
        return False
    unit = Fraction(10) ** -places
    return abs(wanted.value) >= 10 ** (ENOUGH_DIGITS - 1) * unit and 2 * abs(found.value - wanted.value) <= unit


def read_number(text: str) -> Quantity | str:
    """The number that a text gives as its answer, or why there is none."""
    statement = stated(text)
    found = _meant(statement)
    if found is None and statement.how == "last":
        lines = [line for line in text[-TAIL:].splitlines() if any(c.isdigit() for c in line)]
        found = _meant(Statement(lines[-1], "last")) if lines else None
    return "no number" if found is None else found


def _meant(statement: Statement) -> Quantity | str | None:
    """In a box there may be only one; after a wording the first counts, elsewhere the last."""
    text = plain_text(statement.usable)
    if statement.how == "marked":
        text = _ASIDE.split(text)[0] or text
    after = re.split(r"[=≈]", text)[-1]
    found = quantities(after) or quantities(text)
    if not found:
        return None
    source = after if quantities(after) else text
    if len(found) == 1:
        return found[0]
    one, other = (found[0], found[1]) if statement.how == "marked" else (found[-2], found[-1])
    if statement.how == "boxed" or _BOTH.fullmatch(source, one.end, other.begin):
        return SEVERAL
    return one if statement.how == "marked" else other
