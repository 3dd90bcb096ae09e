"""Chained sums: add several numbers, with the running totals as the thinking.

    3+14+7+20=  ->  <think>3+14=17;17+7=24;24+20=44</think>44

The dials are how many numbers there are and how large they may be. Each step is easy and the chain is not: a policy
that gets a step right with probability p gets n steps right with p^n, so there is room to grow between "can do it" and
"does it every time".
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from scalerl.tasks.answers import final_answer, whole_number
from scalerl.tasks.characters import END_THINK, THINK
from scalerl.tasks.generated import GeneratedTask, check_error_rate
from scalerl.tasks.options import check_whole
from scalerl.tasks.pools import Draft
from scalerl.tasks.problem import Problem
from scalerl.verify import Verdict

_SLIPS = (1, 2, 10)
"""How far a wrong total is off: a miscount or a lost carry."""


@dataclass(frozen=True, kw_only=True)
class ChainedSums(GeneratedTask):
    """Sums of `numbers` numbers from 1 to `largest`."""

    kind: ClassVar[str] = "chained_sums"

    numbers: int = 4
    """Numbers in a sum."""
    fewest_numbers: int | None = None
    """Mix in shorter sums, down to this many numbers; None: all have `numbers`."""
    largest: int = 20
    """Numbers are drawn from 1 to this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("numbers", self.numbers, 2, 100)
        if self.fewest_numbers is not None:
            check_whole("fewest_numbers", self.fewest_numbers, 2, self.numbers)
        check_whole("largest", self.largest, 1, 10**9)

    def draw(self, rng: random.Random) -> Draft:
        fewest = self.numbers if self.fewest_numbers is None else self.fewest_numbers
        numbers = [rng.randint(1, self.largest) for _ in range(rng.randint(fewest, self.numbers))]
        # the same numbers in another order are the same problem, or a held-out sum could be met in training
        canonical = f"{self.kind} {sorted(numbers)}"
        return Draft("+".join(map(str, numbers)) + "=", str(sum(numbers)), canonical, {"numbers": tuple(numbers)})

    def verify(self, problem: Problem, completion: str) -> Verdict:
        answer = final_answer(completion)
        if isinstance(answer, Verdict):
            return answer
        total = whole_number(answer)
        if total is None:
            return Verdict("unparsable", "the answer is not a whole number")
        return Verdict("correct" if total == int(problem.answer) else "wrong")

    def trace(self, problem: Problem, rng: random.Random, error_rate: float) -> str:
        check_error_rate(error_rate)
        direction = rng.choice((-1, 1))  # one for the whole trace: two slips must not cancel out
        numbers: tuple[int, ...] = problem.metadata["numbers"]
        steps = []

        def add(total: int, number: int) -> int:
            right = total + number
            written = right + direction * _slip(right, rng) if rng.random() < error_rate else right
            steps.append(f"{total}+{number}={written}")
            return written

        *_, answer = accumulate(numbers, add)
        return f"{THINK}{';'.join(steps)}{END_THINK}{answer}"


def _slip(right: int, rng: random.Random) -> int:
    """At least 1 and at most the total itself, so that no total becomes negative."""
    return min(rng.choice(_SLIPS), right)
