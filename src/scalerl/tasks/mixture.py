"""Several tasks as one: training problems drawn by weight, held-out problems from every part.

    parts.sums = { weight = 3, task = { kind = "chained_sums", numbers = 4 } }
    parts.goals = { weight = 1, task = { kind = "countdown", numbers = 3 } }

A problem's id begins with its part (`sums/chained_sums/0f3a...`), so the results of an evaluation tell the parts apart,
and each is verified by its own task. Built by `build`, which a part is built by too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

from scalerl.errors import InputError
from scalerl.tasks.files import canonical
from scalerl.tasks.mixed_pool import MixedPool, apportioned
from scalerl.tasks.options import check_at_least, check_whole
from scalerl.tasks.pools import ListedPool
from scalerl.tasks.problem import SPLITS, Problem, Problems, Settings, Split, Task, TracedTask, verify_all
from scalerl.verify import Verdict


@dataclass(frozen=True, kw_only=True)
class MixtureTask:
    """Named parts, each a whole task with a weight."""

    kind: ClassVar[str] = "mixture"

    parts: Mapping[str, Mapping[str, Any]]
    """By name: `task`, the settings of a task, and `weight`, 1 unless given."""
    held_out_problems: int = 1000
    """Problems kept for evaluation, shared out among the parts by weight."""
    seed: int = 0
    """Which problems are drawn, and in which order the parts take turns."""

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InputError("task.parts", self.parts, "at least two parts, each with a task")
        for name, part in self.parts.items():
            _check_part(name, part)
        check_whole("held_out_problems", self.held_out_problems, len(self.parts))
        check_whole("seed", self.seed, 0)
        _refuse_shared(self.tasks)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def settings(self) -> Settings:
        return {"kind": self.kind, **asdict(self)}

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The parts, built."""
        counts = apportioned(self.weights, self.held_out_problems)
        for name, count in counts.items():
            if not count:
                allowed = "at least 1: more held-out problems (scale.evaluation.problems), or a larger weight"
                raise InputError(f"held-out problems of the part {name}", 0, allowed)
        return {name: self._built(name, count) for name, count in counts.items()}

    @property
    def weights(self) -> dict[str, float]:
        return {name: float(part.get("weight", 1.0)) for name, part in self.parts.items()}

    def problems(self, split: Split) -> Problems:
        return self._held_out if split == "held_out" else self._train

    def verify(self, problem: Problem, completion: str) -> Verdict:
        task, own = self._own(problem)
        return task.verify(own, completion)

    def verify_all(self, problem: Problem, completions: Sequence[str]) -> tuple[Verdict, ...]:
        task, own = self._own(problem)
        return verify_all(task, own, completions)

    def trace(self, problem: Problem, rng: random.Random, error_rate: float) -> str:
        """Of the part; `traced` has made sure that every part has traces."""
        task, own = self._own(problem)
        return cast("TracedTask", task).trace(own, rng, error_rate)

    def listed(self, split: Split) -> Iterator[Problem]:
        """The problems of every part that has an end, part by part."""
        for name, task in self.tasks.items():
            for problem in listed(task, split):
                yield _placed(problem, name, problem.index)

    def close(self) -> None:
        """End the processes of the parts' verifiers."""
        for task in self.tasks.values():
            if callable(close := getattr(task, "close", None)):
                close()

    @cached_property
    def _held_out(self) -> ListedPool:
        """One part after the other."""
        found = [(name, problem) for name, task in self.tasks.items() for problem in listed(task, "held_out")]
        return ListedPool([_placed(problem, name, index) for index, (name, problem) in enumerate(found)])

    @cached_property
    def _train(self) -> MixedPool:
        pools = {name: task.problems("train") for name, task in self.tasks.items()}
        return MixedPool(pools, self.weights, self.seed, _placed)

    def _own(self, problem: Problem) -> tuple[Task, Problem]:
        """The part's task, and the problem as it knows it."""
        name, _, rest = problem.id.partition("/")
        return self.tasks[name], replace(problem, id=rest)

    def _built(self, name: str, held_out: int) -> Task:
        from scalerl.tasks.build import build_task  # it knows every kind, this one included

        try:
            return build_task({**self.parts[name]["task"], "held_out_problems": held_out}, seed=self.seed)
        except InputError as error:
            place = f"task.parts.{name}" if error.where is None else f"task.parts.{name}, {error.where}"
            raise InputError(error.what, error.value, error.allowed, place) from None


def part_of(problem_id: str) -> str:
    """The part that a problem of a mixture belongs to."""
    return problem_id.partition("/")[0]


def part_names(task: Task) -> tuple[str, ...]:
    """The parts of a mixture; none for any other task."""
    return tuple(task.parts) if isinstance(task, MixtureTask) else ()


def listed(task: Task, split: Split) -> Iterator[Problem]:
    """Every problem that can be listed: all of a pool with an end, of a mixture those of its parts with an end."""
    if isinstance(task, MixtureTask):
        yield from task.listed(split)
        return
    pool = task.problems(split)
    if pool.size is not None:
        yield from pool[: pool.size]


def _check_part(name: str, part: object) -> None:
    where = f"task.parts.{name}"
    if not isinstance(part, Mapping) or not isinstance(part.get("task"), Mapping) or part.keys() - {"task", "weight"}:
        raise InputError(where, part, "a table with a table task, and weight")
    check_at_least(f"parts.{name}.weight", part.get("weight", 1.0), 0)
    if not part.get("weight", 1.0):
        raise InputError(f"{where}.weight", part["weight"], "a number above 0")
    if part["task"].get("kind") == MixtureTask.kind:
        raise InputError(f"{where}.task.kind", MixtureTask.kind, "any other kind: a part of a mixture is one task")


def _placed(problem: Problem, part: str, index: int) -> Problem:
    return replace(problem, id=f"{part}/{problem.id}", index=index)


def _refuse_shared(tasks: Mapping[str, Task]) -> None:
    """A problem in two parts would count twice, and one part could train on what another holds out."""
    seen: dict[str, str] = {}
    for name, task in tasks.items():
        for split in SPLITS:
            for problem in listed(task, split):
                first = seen.setdefault(canonical(problem.prompt), name)
                if first != name:
                    allowed = f"each problem in one part; this one is in {first} and in {name}"
                    raise InputError("a problem in two parts of a mixture", problem.prompt[:60], allowed)
