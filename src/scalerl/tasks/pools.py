"""Pools of problems, and the rule that keeps train and held-out problems apart.

Used by the tasks. The rule: a hash of a problem's canonical content decides its split. It does not depend on seed, pool
size or process, so a held-out problem of one run is never a training problem of another, a warm start included. What is
canonical is the task's choice: for sums, the same numbers in another order are the same problem.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from scalerl.errors import InputError
from scalerl.tasks.problem import Problem, Split
from scalerl.tasks.seeds import seeded

_MOST_REJECTED = 20_000
"""Draws in a row without anything new, after which a task is taken to have nothing new."""


@dataclass(frozen=True)
class Draft:
    """A problem before it has a place in a pool."""

    prompt: str
    answer: str
    canonical: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def placed(self, task: str, split: Split, index: int) -> Problem:
        name = f"{task}/{_digest(self.prompt).hexdigest()}"
        return Problem(name, self.prompt, self.answer, self.metadata, split, index)


def split_of(canonical: str, held_out_share: float) -> Split:
    """Where a problem with this content belongs. A larger share adds to the held-out problems, and removes none."""
    position = int.from_bytes(_digest(canonical).digest(), "big") / 2**64
    return "held_out" if position < held_out_share else "train"


class ListedPool(Sequence[Problem]):
    """A finite pool, in memory."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = list(problems)

    @property
    def size(self) -> int:
        return len(self._problems)

    def __len__(self) -> int:
        return len(self._problems)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        return self._problems[index]


class Endless:
    """What pools without an end have in common."""

    @property
    def size(self) -> None:
        return None

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self._at(i) for i in indices(index)]
        if index < 0:
            raise IndexError("a pool without end has no last problem")
        return self._at(index)

    def _at(self, index: int) -> Problem:
        raise NotImplementedError


class EndlessPool(Endless):
    """A pool without end: problem i is drawn with a generator seeded by i, until one falls into the split.

    Nothing is stored, so any problem is found again at once. A small task repeats itself sooner or later.
    """

    def __init__(
        self, task: str, split: Split, draw: Callable[[random.Random], Draft], seed: int, share: float
    ) -> None:
        self._task = task
        self._split = split
        self._draw = draw
        self._seed = seed
        self._share = share

    def _at(self, index: int) -> Problem:
        rng = seeded(self._seed, self._split, index)
        for _ in range(_MOST_REJECTED):
            draft = self._draw(rng)
            if split_of(draft.canonical, self._share) == self._split:
                return draft.placed(self._task, self._split, index)
        raise _too_few(self._task, self._split, 0, None)


def draw_pool(
    task: str, split: Split, draw: Callable[[random.Random], Draft], seed: int, share: float, size: int
) -> ListedPool:
    """`size` distinct problems of one split, or an error when the task does not have so many."""
    rng = seeded(seed, split)
    found: dict[str, Draft] = {}
    rejected = 0
    while len(found) < size:
        draft = draw(rng)
        if draft.prompt not in found and split_of(draft.canonical, share) == split:
            found[draft.prompt] = draft
            rejected = 0
        elif (rejected := rejected + 1) > _MOST_REJECTED:
            raise _too_few(task, split, len(found), size)
    return ListedPool([draft.placed(task, split, i) for i, draft in enumerate(found.values())])


def indices(index: slice) -> range:
    """The places of a slice of a pool without end."""
    if index.stop is None or min(index.start or 0, index.stop) < 0 or (index.step or 1) < 0:
        raise IndexError("a slice of a pool without end needs an end, and counts from the start")
    return range(index.start or 0, index.stop, index.step or 1)


def _digest(text: str) -> hashlib.blake2b:
    return hashlib.blake2b(text.encode(), digest_size=8)


def _too_few(task: str, split: Split, found: int, wanted: int | None) -> InputError:
    asked = "endless" if wanted is None else wanted
    allowed = f"at most the {found} distinct problems found; make the task harder or the pool smaller"
    return InputError(f"the task {task!r} has too few distinct {split.replace('_', '-')} problems", asked, allowed)
