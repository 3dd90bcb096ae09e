"""A whole file as held-out problems: for sets that are only measured.

Built by `build` for settings with `whole`. A file task deals its problems into two pools; here both are one, in an
order that depends on nothing but the problems. There is nothing to train on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalerl.errors import InputError
from scalerl.tasks.files import FileTask
from scalerl.tasks.pools import ListedPool
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split
from scalerl.verify import Verdict

_SHARES = tuple((2 * i + 1) / 2**level for level in range(1, 9) for i in range(2 ** (level - 1)))
"""1/2, 1/4, 3/4, 1/8, ...: tried one after the other, because a file task wants something in both its pools. With more
than a handful of problems the first does."""
_NOT_OF_A_WHOLE = {"kind", "whole", "train_problems", "held_out_problems", "held_out_share"}
"""How many are taken is the evaluation's choice."""


class WholeFile:
    """Every problem of a file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = {key: value for key, value in settings.items() if key not in _NOT_OF_A_WHOLE}
        self._task = _dealt(self._settings)
        found = [problem for split in SPLITS for problem in _every(self._task.problems(split))]
        found.sort(key=lambda problem: problem.id)
        placed = [replace(problem, split="held_out", index=index) for index, problem in enumerate(found)]
        self._pool = ListedPool(placed)

    @property
    def name(self) -> str:
        return self._task.name

    @property
    def settings(self) -> Settings:
        return {"kind": self._task.kind, "whole": True, **self._settings}

    def problems(self, split: Split) -> ListedPool:
        return self._pool if split == "held_out" else ListedPool([])

    def verify(self, problem: Problem, completion: str) -> Verdict:
        return self._task.verify(problem, completion)

    def verify_all(self, problem: Problem, completions: Sequence[str]) -> tuple[Verdict, ...]:
        return self._task.verify_all(problem, completions)

    def close(self) -> None:
        """End the processes of the verifier."""
        self._task.close()


def _every(pool: Problems) -> list[Problem]:
    return pool[: pool.size]


def _dealt(settings: Settings) -> FileTask:
    """The file, in any two pools."""
    for share in _SHARES:
        try:
            return FileTask(**{**settings, "held_out_share": share})
        except InputError as error:
            if not error.what.startswith("too few"):
                raise
    raise InputError("too few problems to measure on", 1, "at least two", str(settings.get("path")))
