"""The answer inside a completion: what follows `</think>`, as text, as a whole number, or as any number.

Called by the verifiers. A model can write anything here, so nothing in this file raises for odd text, runs it, or takes
long over it.
"""

from __future__ import annotations

import re
from fractions import Fraction

from scalerl.tasks.characters import END_THINK
from scalerl.tasks.problem import Verdict

LONGEST_NUMBER = 60
"""Characters; no task has an answer beyond this, and converting a huge number takes time."""

_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(
    r"(?:(?<![0-9])[-+])?"  # in 2-1 the second number is 1
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE][-+]?[0-9]{1,3}(?![0-9])|/[0-9]+)?"
)
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_FRACTION = re.compile(r"\\d?frac\{([0-9]+)\}\{([0-9]+)\}")


def final_answer(completion: str, *, thinking: bool = True) -> str | Verdict:
    """The text after the last `</think>`, or the verdict when there is none.

    `thinking=False`: for policies that do not think; the whole completion is the answer unless it has a `</think>`.
    """
    _, marker, answer = completion.rpartition(END_THINK)
    if not marker and thinking:
        return Verdict("unparsable", f"no {END_THINK}")
    answer = answer.strip()
    return answer or Verdict("unparsable", "no answer")


def whole_number(text: str) -> int | None:
    """The number, if the text is one and nothing else."""
    if len(text) > LONGEST_NUMBER or not _WHOLE.fullmatch(text):
        return None
    return int(text)


def any_number(text: str) -> Fraction | None:
    """The last number in the text: `42`, `-1,000.5`, `3/4`, `1e-3`; in the last `\\boxed{...}` if there is one."""
    found = _NUMBER.findall(_FRACTION.sub(r"\1/\2", boxed(text)))
    return _fraction(found[-1]) if found else None


def boxed(text: str) -> str:
    """What stands in the last `\\boxed{...}`, or else the whole text."""
    found = _BOXED.findall(text)
    return str(found[-1]).strip() if found else text


def _fraction(text: str) -> Fraction | None:
    if len(text) > LONGEST_NUMBER:
        return None
    try:
        return Fraction(text.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
