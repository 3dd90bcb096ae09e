"""Problems one after the other: shuffled anew in each epoch, and a cursor that can be saved.

Used by whoever feeds prompts to a generator. Knows nothing about rollouts; which problems to leave out (those solved
too often, say) is told at each draw.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from scalerl.errors import InputError
from scalerl.tasks.problem import Problem, Problems
from scalerl.tasks.seeds import seeded

_ENDLESS_PASS = 10_000
"""Problems of an endless pool that are looked at before all of them are taken to be left out."""


class ProblemStream:
    """An endless walk through a pool. A finite pool is shuffled in each epoch, an endless one is taken in its order."""

    def __init__(self, problems: Problems, seed: int) -> None:
        if problems.size == 0:
            raise InputError("the pool of problems is empty", allowed="at least one problem")
        self._problems = problems
        self._seed = seed
        self._position = 0
        self._set_epoch(0)

    @property
    def epoch(self) -> int:
        """Complete passes so far; an endless pool is never through."""
        return self._epoch

    def draw(self, left_out: Container[str] = frozenset()) -> Problem | None:
        """The next problem whose id is not left out; None when a whole pass finds none."""
        # Twice the size: the rest of this epoch and all of the next. A problem can stand before the cursor in this one
        # and near the end of the next.
        for _ in range(2 * (self._problems.size or _ENDLESS_PASS)):
            problem = self._next()
            if problem.id not in left_out:
                return problem
        return None

    def state(self) -> dict[str, Any]:
        """Where the walk stands, as plain JSON."""
        return {"seed": self._seed, "size": self._problems.size, "epoch": self._epoch, "position": self._position}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; the pool and the seed must be the same."""
        for key, own in (("seed", self._seed), ("size", self._problems.size)):
            if state.get(key) != own:
                raise InputError(f"saved problem cursor of another run: its {key}", state.get(key), str(own))
        epoch, position = _count(state, "epoch"), _count(state, "position")
        if self._problems.size is not None and position > self._problems.size:
            raise InputError("broken problem cursor: position", position, f"at most {self._problems.size}")
        self._position = position
        self._set_epoch(epoch)

    def _next(self) -> Problem:
        if self._order is None:
            self._position += 1
            return self._problems[self._position - 1]
        if self._position == len(self._order):
            self._position = 0
            self._set_epoch(self._epoch + 1)
        self._position += 1
        return self._problems[self._order[self._position - 1]]

    def _set_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._order: list[int] | None = None
        if self._problems.size is not None:
            self._order = list(range(self._problems.size))
            seeded(self._seed, "epoch", epoch).shuffle(self._order)


def _count(state: Mapping[str, Any], key: str) -> int:
    value = state.get(key)
    if not isinstance(value, int) or value < 0:
        raise InputError(f"broken problem cursor: {key}", value, "a whole number of at least 0")
    return value
