"""math-verify as a handler of `guarded`: two LaTeX expressions in, whether they are the same out.

The only file that imports math-verify and sympy, in a process of its own. Imports nothing of scalerl.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

Message = dict[str, Any]

NEAR = 1e-5
"""math-verify compares decimals by their first six places; beside that, they must agree to this share."""

_FIRST = ((r"\frac{1}{2}", "0.5"), (r"x^2-1", "(x-1)(x+1)"), (r"\{1,2\}", "(1,2]"), (r"x=\sqrt{8}", r"2\sqrt{2}"))
"""Compared before anything is asked: the parser is slow the first time."""


def prepare(_: Message) -> Callable[[Message], Message]:
    math_verify: Any = import_module("math_verify")
    latex: Any = math_verify.LatexExtractionConfig()
    # a unit is no product of letters, and 5m is no unit: units are taken off before
    config = [replace(latex, normalization_config=replace(latex.normalization_config, units=False))]

    @lru_cache(maxsize=256)
    def parsed(text: str) -> Any:
        found = math_verify.parse(f"${text}$", config, fallback_mode="no_fallback", parsing_timeout=None)
        return found[0] if found else None

    def same(request: Message) -> Message:
        wanted, found = parsed(request["reference"]), parsed(request["answer"])
        for name, expression in (("reference", wanted), ("answer", found)):
            if expression is None:
                return {"unread": name}
        equal = math_verify.verify(wanted, found, allow_set_relation_comp=True, timeout_seconds=None)
        return {"same": bool(equal) and _near(wanted, found)}

    for reference, answer in _FIRST:
        same({"reference": reference, "answer": answer})
    return same


def _near(wanted: Any, found: Any) -> bool:
    """False when two decimals only agree because they are small."""
    sympy: Any = import_module("sympy")
    if not (isinstance(wanted, sympy.Float) or isinstance(found, sympy.Float)):
        return True
    one, other = (sympy.N(expression) for expression in (wanted, found))
    if not (one.is_Number and other.is_Number):
        return True
    ratios = [abs(one - factor * other) <= NEAR * abs(one) for factor in (1, 100, sympy.Rational(1, 100))]
    return any(ratios)
