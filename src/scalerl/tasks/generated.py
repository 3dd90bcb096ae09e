"""What all generated tasks share: pools drawn from a rule, with dials for difficulty.

A generated task derives from `GeneratedTask` and says how one problem is drawn, how a completion is verified, and how a
solution trace looks. It needs no file and no other package.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import ClassVar

from scalerl.errors import InputError
from scalerl.tasks.options import check_between, check_optional_whole, check_whole
from scalerl.tasks.pools import Draft, EndlessPool, ListedPool, draw_pool
from scalerl.tasks.problem import Problem, Problems, Settings, Split
from scalerl.verify import Verdict


@dataclass(frozen=True, kw_only=True)
class GeneratedTask(ABC):
    """Problems made by a rule; each dial is a field."""

    kind: ClassVar[str]

    train_problems: int | None = None
    """Distinct problems to train on; None: no end. A few hundred are memorised, thousands are not."""
    held_out_problems: int = 1000
    """Distinct problems kept for evaluation."""
    held_out_share: float = 0.1
    """Share of all possible problems that is never trained on."""
    seed: int = 0
    """Which problems are drawn; whether one is held out does not depend on it."""

    def __post_init__(self) -> None:
        check_optional_whole("train_problems", self.train_problems, 1)
        check_whole("held_out_problems", self.held_out_problems, 1)
        check_between("held_out_share", self.held_out_share, 0, 1)
        check_whole("seed", self.seed, 0)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def settings(self) -> Settings:
        return {"kind": self.kind, **asdict(self)}

    def problems(self, split: Split) -> Problems:
        return self._held_out if split == "held_out" else self._train

    @cached_property
    def _train(self) -> ListedPool | EndlessPool:
        if self.train_problems is None:
            return EndlessPool(self.name, "train", self.draw, self.seed, self.held_out_share)
        return self._listed("train", self.train_problems)

    @cached_property
    def _held_out(self) -> ListedPool:
        return self._listed("held_out", self.held_out_problems)

    def _listed(self, split: Split, size: int) -> ListedPool:
        return draw_pool(self.name, split, self.draw, self.seed, self.held_out_share, size)

    @abstractmethod
    def draw(self, rng: random.Random) -> Draft:
        """Any one problem of this difficulty."""

    @abstractmethod
    def verify(self, problem: Problem, completion: str) -> Verdict: ...

    @abstractmethod
    def trace(self, problem: Problem, rng: random.Random, error_rate: float) -> str: ...


def check_error_rate(error_rate: float) -> None:
    if not 0 <= error_rate <= 1:
        raise InputError("share of wrong steps in a trace", error_rate, "0 to 1")
