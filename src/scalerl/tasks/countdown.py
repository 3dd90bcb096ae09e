"""Countdown: reach a target from given numbers with + - *, each number at most once.

    4,5,3->35:  ->  <think>3+4=7;7*5=35</think>(3+4)*5

Any expression that reaches the target is correct, not only the one the problem was made from. The dials are how many
numbers there are, how large they may be, and how large any intermediate value of the solution may be.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from scalerl.tasks.answers import final_answer
from scalerl.tasks.characters import END_THINK, THINK
from scalerl.tasks.expression import OPERATIONS, numbers_in, parse_expression, value_of
from scalerl.tasks.generated import GeneratedTask, check_error_rate
from scalerl.tasks.options import check_whole
from scalerl.tasks.pools import Draft
from scalerl.tasks.problem import Problem
from scalerl.verify import Verdict


@dataclass(frozen=True, kw_only=True)
class Countdown(GeneratedTask):
    """Targets that need all `numbers` numbers from 1 to `largest`, or at least can be reached with them."""

    kind: ClassVar[str] = "countdown"

    numbers: int = 3
    """Numbers given."""
    largest: int = 20
    """Numbers are drawn from 1 to this."""
    largest_target: int | None = None
    """No value on the way to the target, nor the target, is above this; None: five times `largest`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("numbers", self.numbers, 2, 20)
        check_whole("largest", self.largest, 2, 10**6)
        if self.largest_target is not None:
            check_whole("largest_target", self.largest_target, self.largest, 10**9)

    def draw(self, rng: random.Random) -> Draft:
        numbers, operators, target = self._solution(rng)
        given = rng.sample(numbers, len(numbers))
        answer = _written(numbers, operators)[1]
        canonical = f"{self.kind} {sorted(numbers)} {target}"
        metadata = {"numbers": tuple(numbers), "operators": operators, "target": target}
        return Draft(f"{','.join(map(str, given))}->{target}:", answer, canonical, metadata)

    def verify(self, problem: Problem, completion: str) -> Verdict:
        answer = final_answer(completion)
        if isinstance(answer, Verdict):
            return answer
        tree = parse_expression(answer)
        if tree is None:
            return Verdict("unparsable", "the answer is not an expression of whole numbers, + - * and brackets")
        if Counter(numbers_in(tree)) - Counter(problem.metadata["numbers"]):
            return Verdict("wrong", "a number is used that is not given, or too often")
        value = value_of(tree)
        return Verdict("correct") if value == problem.metadata["target"] else Verdict("wrong", f"it makes {value}")

    def trace(self, problem: Problem, rng: random.Random, error_rate: float) -> str:
        """A wrong step uses a wrong operation, calculated rightly: a miscalculation would not change the expression,
        and so not the verdict."""
        check_error_rate(error_rate)
        right: str = problem.metadata["operators"]
        operators = "".join(_other(o, rng) if rng.random() < error_rate else o for o in right)
        numbers: tuple[int, ...] = problem.metadata["numbers"]
        steps, answer, value = _written(numbers, operators)
        if operators != right and value == problem.metadata["target"]:  # by luck: another last operation misses it
            operators = _missing(numbers, operators, problem.metadata["target"])
            steps, answer, _ = _written(numbers, operators)
        return f"{THINK}{steps}{END_THINK}{answer}"

    def _solution(self, rng: random.Random) -> tuple[list[int], str, int]:
        """Numbers in the order in which they are used, the operations between them, and where they lead."""
        highest = 5 * self.largest if self.largest_target is None else self.largest_target
        while True:
            numbers = [rng.randint(1, self.largest) for _ in range(self.numbers)]
            value, operators = numbers[0], ""
            for number in numbers[1:]:
                fitting = [o for o in OPERATIONS if 0 < _apply(o, value, number) <= highest]
                if not fitting:
                    break
                operators += rng.choice(fitting)
                value = _apply(operators[-1], value, number)
            if len(operators) == len(numbers) - 1:
                return numbers, operators, value


def _apply(operation: str, value: int, number: int) -> int:
    """Always the larger minus the smaller: no value on the way is negative."""
    return OPERATIONS[operation](max(value, number), min(value, number))


def _written(numbers: Sequence[int], operators: str) -> tuple[str, str, int]:
    """The steps, the expression, and its value."""
    value, expression = numbers[0], str(numbers[0])
    steps: list[str] = []
    for operation, number in zip(operators, numbers[1:], strict=True):
        bracketed = f"({expression})" if steps else expression
        swapped = operation == "-" and number > value
        first, second = (number, value) if swapped else (value, number)
        expression = f"{number}-{bracketed}" if swapped else f"{bracketed}{operation}{number}"
        value = OPERATIONS[operation](first, second)
        steps.append(f"{first}{operation}{second}={value}")
    return ";".join(steps), expression, value


def _other(operation: str, rng: random.Random) -> str:
    return rng.choice([o for o in OPERATIONS if o != operation])


def _missing(numbers: Sequence[int], operators: str, target: int) -> str:
    """The same operations with another last one, so that the target is missed.

    There always is one: a+b, |a-b| and a*b are all equal only when both a and b are 0, and no target is 0.
    """
    candidates = (operators[:-1] + o for o in OPERATIONS)
    return next(c for c in candidates if _written(numbers, c)[2] != target)
