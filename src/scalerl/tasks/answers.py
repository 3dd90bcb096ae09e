"""The answer inside a completion: what follows `</think>`, as text or as a whole number.

Called by the tasks. A model can write anything here, so nothing in this file raises for odd text, runs it, or takes
long over it.
"""

from __future__ import annotations

import re

from scalerl.tasks.characters import END_THINK
from scalerl.verify import Verdict

LONGEST_NUMBER = 60
"""Characters; no task has an answer beyond this, and converting a huge number takes time."""

_WHOLE = re.compile(r"[-+]?[0-9]+")


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
