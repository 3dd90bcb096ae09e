"""What the verifier makes of the reference answers: which it objects to, which do not verify against themselves.

Used by `survey`. Every row is asked for an objection, which is cheap. Verifying is not: a random sample is given back
to the verifier as a model would write it. Unit tests are read and nothing is run: there is no program to run.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from scalerl.errors import InputError, MissingDependencyError
from scalerl.tasks.seeds import seeded
from scalerl.verify import Kind, Verdict, Verifier, build_verifier
from scalerl.verify.symbolic import MathVerifier
from scalerl.verify.unit_tests import read_tests

SHOWN = 5
SHORT, CACHED = 60, 1 << 14
"""Characters of an answer that is remembered, and how many of them are."""
Item = TypeVar("Item")


class Sample(Generic[Item]):
    """A few of many, each with the same probability, the same few for the same rows."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._seen = 0
        self._rng: random.Random = seeded("sample", name)
        self._items: list[tuple[int, Item]] = []

    def offer(self, item: Item) -> None:
        self._seen += 1
        if len(self._items) < self._size:
            self._items.append((self._seen, item))
            return
        place = int(self._rng.random() * self._seen)
        if place < self._size:
            self._items[place] = (self._seen, item)

    def items(self) -> list[Item]:
        """In their order."""
        return [item for _, item in sorted(self._items, key=lambda pair: pair[0])]


@dataclass
class Judged:
    """How the sample did."""

    verifier: Kind
    checked: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Answers that did not verify."""
    note: str | None = None
    """Why nothing was verified."""


class ReferenceCheck:
    """One verifier and the references it meets."""

    def __init__(self, kind: Kind, sample: int) -> None:
        self.kind = kind
        self._sample: Sample[tuple[int, str]] = Sample(sample, "references")
        self._verifier, self._missing = _verifier(kind)
        self._remembered = lru_cache(CACHED)(self._asked)

    def objection(self, answer: str) -> str | None:
        """Why nothing can be compared with this answer. Small numbers come again and again, and reading one takes most
        of the time of a row."""
        return self._remembered(answer) if len(answer) <= SHORT else self._asked(answer)

    def _asked(self, answer: str) -> str | None:
        if self.kind == "code":
            try:
                read_tests(answer)
            except InputError as error:
                return error.what
            return None
        return None if self._verifier is None else self._verifier.objection(answer)

    def offer(self, number: int, answer: str) -> None:
        if self._verifier is not None:
            self._sample.offer((number, answer))

    def judged(self) -> Judged:
        result = Judged(self.kind, note=self._missing)
        if self._verifier is None:
            return result
        items = self._sample.items()
        try:
            verdicts = _verdicts(self._verifier, [answer for _, answer in items])
        finally:
            self._verifier.close()
        for (number, answer), verdict in zip(items, verdicts, strict=True):
            result.checked += 1
            result.statuses[verdict.status] += 1
            if not verdict.correct and len(result.examples) < SHOWN:
                example = {"row": number, "answer": answer[:200], "status": verdict.status, "detail": verdict.detail}
                result.examples.append(example)
        return result


def _verifier(kind: Kind) -> tuple[Verifier | None, str | None]:
    if kind == "code":
        return None, "unit tests were read, not run"
    try:
        return build_verifier(kind), None
    except MissingDependencyError as error:
        return None, str(error)


def _verdicts(verifier: Verifier, answers: list[str]) -> list[Verdict]:
    if isinstance(verifier, MathVerifier):  # all of them together: its processes work side by side
        return verifier.verify_pairs([(_as_written(answer), answer) for answer in answers])
    return [verifier.verify(answer, answer) for answer in answers]


def _as_written(answer: str) -> str:
    """By a model that was asked to box its answer."""
    return answer if r"\boxed" in answer else rf"\boxed{{{answer}}}"
