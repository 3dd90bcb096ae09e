"""What a task is made of: problems, verdicts, and the protocol that every task follows.

Used by every file of this package and by whoever runs a task: warm start, generator, evaluation. Knows nothing about
models, tokens or rewards: a verdict has a status, and what a status is worth is decided by the recipe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, overload, runtime_checkable

from scalerl.errors import ScaleRLError
from scalerl.verify import STATUSES, Verdict

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")

Settings = Mapping[str, Any]
"""Plain values as they stand in a config file; what JSON can hold."""


@dataclass(frozen=True)
class Problem:
    """One question with its reference answer."""

    id: str
    """Made from the content, so that one prompt has one id in every pool, seed and process."""
    prompt: str
    answer: str
    """The reference answer, or one of several; empty where the task has none and only its verifier can tell."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What the verifier needs besides the answer."""
    split: Split = "train"
    index: int = 0
    """With `split`, where the problem is found again: `task.problems(split)[index]`. A checkpoint stores these two."""


class Problems(Protocol):
    """A pool of problems: `pool[3]`, `pool[10:20]`; the same index is the same problem for ever."""

    @property
    def size(self) -> int | None:
        """None: there is no last problem."""

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...


class Task(Protocol):
    """Problems in two disjoint pools, and a verifier."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Settings:
        """Everything that decides which problems there are and how they are verified: `build_task(settings)` is an
        equal task."""

    def problems(self, split: Split) -> Problems: ...

    def verify(self, problem: Problem, completion: str) -> Verdict:
        """Judge the text that followed the prompt. Never raises for anything a model can write."""


@runtime_checkable
class TogetherTask(Protocol):
    """A task that judges the rollouts of a problem faster together than one after the other."""

    def verify_all(self, problem: Problem, completions: Sequence[str]) -> tuple[Verdict, ...]: ...


def verify_all(task: Task, problem: Problem, completions: Sequence[str]) -> tuple[Verdict, ...]:
    """A verdict for each completion, in their order. A verifier that fails where it never should does not end a run:
    what it was asked about is not judged (`error`)."""
    if isinstance(task, TogetherTask):
        return _asked(lambda: task.verify_all(problem, completions), len(completions))
    return tuple(_asked(partial(_one, task, problem, text), 1)[0] for text in completions)


def _one(task: Task, problem: Problem, text: str) -> list[Verdict]:
    return [task.verify(problem, text)]


def _asked(ask: Callable[[], Sequence[object]], wanted: int) -> tuple[Verdict, ...]:
    try:
        found = tuple(ask())
    except ScaleRLError:  # on purpose: there is no sandbox, for example
        raise
    except Exception as error:  # noqa: BLE001  # the boundary to whatever judges
        return (Verdict("error", f"the verifier failed ({type(error).__name__}: {error})"[:200]),) * wanted
    if len(found) != wanted:
        return (Verdict("error", f"{len(found)} verdicts for {wanted} answers"),) * wanted
    return tuple(_known(one) for one in found)


def _known(found: object) -> Verdict:
    if isinstance(found, Verdict) and found.status in STATUSES:
        return found
    return Verdict("error", f"the verifier said {found!r}"[:200])


class TracedTask(Task, Protocol):
    """A task that can also show its work: what a policy is warmed up with."""

    def trace(self, problem: Problem, rng: random.Random, error_rate: float) -> str:
        """A completion whose every step is wrong with probability `error_rate`. A wrong step is carried on, so a trace
        with one or more wrong steps ends in a wrong answer, and one without ends in a correct one."""
