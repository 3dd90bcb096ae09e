"""Countdown: the format, the dials, the safe reading of expressions, and what the verifier accepts."""

import random
import time
from typing import Any

import pytest

from scalerl.tasks import Countdown, Problem
from scalerl.tasks.expression import parse_expression, value_of

PROBLEM = Problem("id", "4,5,3->35:", "(3+4)*5", {"numbers": (3, 4, 5), "operators": "+*", "target": 35})


def test_the_trace_ends_in_the_expression() -> None:
    assert Countdown().trace(PROBLEM, random.Random(0), 0.0) == "<think>3+4=7;7*5=35</think>(3+4)*5"


def test_a_wrong_step_is_calculated_rightly_and_misses_the_target() -> None:
    for seed in range(30):
        trace = Countdown().trace(PROBLEM, random.Random(seed), 1.0)
        steps, _, answer = trace.removeprefix("<think>").partition("</think>")
        assert all(eval(step.replace("=", "==")) for step in steps.split(";"))
        assert eval(answer) == int(steps.rpartition("=")[2]) != 35


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("(3+4)*5", "correct"), (" 5 * (4 + 3) ", "correct"), ("5*4+5*3", "wrong"), ("35", "wrong"), ("7*5", "wrong"),
        ("3+4*5", "wrong"), ("3+4", "wrong"), ("3*3", "wrong"), ("(5+2)*5", "wrong"),
        ("", "unparsable"), ("(3+4)*5=35", "unparsable"), ("(3+4*5", "unparsable"), ("3**4", "unparsable"),
        ("3//4", "unparsable"), ("70/2", "unparsable"), ("-3", "unparsable"), ("03+4", "unparsable"),
        ("3(4)", "unparsable"), ("(3,4)", "unparsable"), ("True", "unparsable"), ("__import__('os')", "unparsable"),
        ("(" * 300 + "3" + ")" * 300, "unparsable"), ("(" * 90 + "3" + ")" * 90, "wrong"), ("3\n+4", "unparsable"),
        ("9" * 150, "wrong"),
    ],
)  # fmt: skip
def test_verdicts(judge: Any, answer: str, status: str) -> None:
    assert judge(Countdown(), PROBLEM)(answer).status == status


def test_details_say_why(judge: Any) -> None:
    assert judge(Countdown(), PROBLEM)("3+4").detail == "it makes 7"
    assert "not given" in judge(Countdown(), PROBLEM)("6").detail


def test_a_number_given_twice_may_be_used_twice(judge: Any) -> None:
    twice = Problem("id", "3,3->9:", "3*3", {"numbers": (3, 3), "operators": "*", "target": 9})
    assert judge(Countdown(), twice)("3*3").correct
    assert judge(Countdown(), twice)("3+3+3").status == "wrong"


def test_expressions_are_values() -> None:
    tree = parse_expression("2*(10-4)+1")
    assert tree is not None
    assert value_of(tree) == 13


def test_huge_products_are_never_calculated(judge: Any) -> None:
    started = time.monotonic()
    assert judge(Countdown(), PROBLEM)("*".join(["9" * 20] * 9)).status == "wrong"
    assert time.monotonic() - started < 1


def test_a_wrong_step_that_would_reach_the_target_by_luck_is_made_to_miss_it() -> None:
    """2+2 and 2*2 are both 4: only 2-2 is wrong."""
    lucky = Problem("id", "2,2->4:", "2+2", {"numbers": (2, 2), "operators": "+", "target": 4})
    traces = {Countdown().trace(lucky, random.Random(seed), 1.0) for seed in range(20)}
    assert traces == {"<think>2-2=0</think>2-2"}


def test_the_largest_target_follows_the_largest_number() -> None:
    targets = [problem.metadata["target"] for problem in Countdown(largest=10).problems("train")[:300]]
    assert 40 < max(targets) <= 50


def test_dials() -> None:
    task = Countdown(numbers=5, largest=7, largest_target=30)
    for problem in task.problems("train")[:200]:
        assert len(problem.metadata["numbers"]) == 5
        assert max(problem.metadata["numbers"]) <= 7
        steps = task.trace(problem, random.Random(0), 0.0).partition("</think>")[0]
        assert all(1 <= int(step.rpartition("=")[2]) <= 30 for step in steps.split(";"))
        given = problem.prompt.partition("->")[0].split(",")
        assert sorted(map(int, given)) == sorted(problem.metadata["numbers"])
