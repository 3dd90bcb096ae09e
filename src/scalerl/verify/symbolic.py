r"""The same mathematics: fractions, roots, polynomials, sets, intervals, tuples, equations, units, words.

Made by `build`. What a text gives as its answer is found here (`latex_answer`); plain numbers and words are compared
here too, which is most of the work and takes no time. Everything else goes to math-verify in a pool of processes,
because sympy may run for ever on what a model wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

from scalerl.errors import MissingDependencyError
from scalerl.verify.latex import (
    base_of,
    both_cases_apart,
    latex_answer,
    name_of,
    shape,
    single_number,
    unit_of,
    without_spaces,
    without_unit,
    words,
)
from scalerl.verify.number import same_value
from scalerl.verify.pool import Pool
from scalerl.verify.process import Conversation, NoReplyError, guarded
from scalerl.verify.verdict import Verdict, Verifier, judged

START_S = 120.0
"""Importing sympy takes seconds, on a busy machine many."""
WALL_FACTOR = 10.0
"""On the clock an answer may take so many times its processor time: other processes want the cores too."""
MEMORY_MB = 2048

_HANDLER = Path(__file__).with_name("math_worker.py")

Pair = tuple[str, str]
"""Answer and reference, in LaTeX."""


@dataclass(frozen=True)
class MathVerifier(Verifier):
    """Expression against expression."""

    timeout_s: float = 5.0
    """Processor time for one answer."""
    workers: int = 0
    """Processes; 0: one for each core, up to eight."""

    def __post_init__(self) -> None:
        if find_spec("math_verify") is None:
            raise MissingDependencyError("math-verify", "train")

    def verify(self, text: str, reference: str) -> Verdict:
        return self.verify_all([text], reference)[0]

    def verify_all(self, texts: Sequence[str], reference: str) -> list[Verdict]:
        return self.verify_pairs([(text, reference) for text in texts])

    def verify_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Texts with a reference each, in their order."""
        latex = [(latex_answer(text), latex_answer(reference)) for text, reference in pairs]
        found = [_compared(answer, wanted) for answer, wanted in latex]
        hard = [i for i, verdict in enumerate(found) if verdict is None]
        bare = [both_cases_apart(without_unit(latex[i][0]), without_unit(latex[i][1])) for i in hard]
        slow = dict(zip(hard, self._pool.verdicts(bare), strict=True))
        return [slow[i] if verdict is None else verdict for i, verdict in enumerate(found)]

    def close(self) -> None:
        self._pool.close()

    @cached_property
    def _pool(self) -> Pool[Pair]:
        return Pool(partial(_MathJudge, self.timeout_s), self.workers)


class _MathJudge:
    """One process, which starts with the first pair and again after it was killed."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._worker: Conversation | None = None
        self._asked = 0

    def judge(self, item: Pair) -> Verdict:
        answer, reference = item
        self._asked += 1
        question = {"id": self._asked, "cpu_s": self._timeout_s, "answer": answer, "reference": reference}
        try:
            if self._worker is None or not self._worker.running:
                self._worker, _ = guarded(_HANDLER, {"memory_mb": MEMORY_MB}, START_S)
            reply = self._worker.exchange(question, WALL_FACTOR * self._timeout_s)
        except NoReplyError as silence:
            return Verdict("timeout" if silence.late else "error", str(silence))
        if reply.get("unread") == "answer":
            return Verdict("unparsable", "no mathematics")
        if "same" in reply:
            return judged(reply["same"] is True)
        return Verdict("error", str(reply.get("error", "the reference is no mathematics")))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.end()


def _compared(answer: str, reference: str) -> Verdict | None:
    """The verdict where none of it needs sympy."""
    if not answer:
        return Verdict("unparsable", "no answer")
    if not reference:
        return Verdict("error", "the reference is empty")
    if without_spaces(answer) == without_spaces(reference):
        return Verdict("correct")
    reason = _apart(answer, reference)
    if reason:
        return Verdict("wrong", reason)
    found, wanted = single_number(answer), single_number(reference)
    if found is not None and wanted is not None:
        return judged(same_value(found, wanted))
    said, meant = words(without_unit(answer)), words(without_unit(reference))
    return judged(said == meant) if said or meant else None


def _apart(answer: str, reference: str) -> str:
    """What math-verify would overlook; empty: nothing."""
    for what, look in (("variable", name_of), ("unit", unit_of), ("base", base_of)):
        if len({look(answer), look(reference)} - {""}) == 2:
            return f"another {what}"
    shapes = {shape(answer), shape(reference)}
    return "a set is no tuple" if shapes == {"set", "tuple"} else ""
