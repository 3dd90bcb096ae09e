"""Chained sums: the format, the dials, and what the verifier accepts."""

import random
from typing import Any

import pytest

from scalerl.tasks import ChainedSums, Problem

SUM = Problem("id", "3+14+7+20=", "44", {"numbers": (3, 14, 7, 20)})


def test_the_trace_shows_running_totals() -> None:
    trace = ChainedSums().trace(SUM, random.Random(0), 0.0)
    assert trace == "<think>3+14=17;17+7=24;24+20=44</think>44"


def test_a_wrong_step_is_carried_on() -> None:
    """Every step starts from the total that the step before it wrote."""
    trace = ChainedSums().trace(SUM, random.Random(0), 1.0)
    steps = trace.removeprefix("<think>").partition("</think>")[0].split(";")
    totals = [step.partition("=")[2] for step in steps]
    assert [step.partition("+")[0] for step in steps[1:]] == totals[:-1]
    assert trace.endswith(f"</think>{totals[-1]}")
    assert all(eval(step.replace("=", "!=")) for step in steps)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("44", "correct"), (" 44\n", "correct"), ("+44", "correct"), ("0044", "correct"),
        ("45", "wrong"), ("-44", "wrong"),
        ("", "unparsable"), ("44.", "unparsable"), ("44 44", "unparsable"), ("4 4", "unparsable"), ("x", "unparsable"),
        ("٤٤", "unparsable"), ("4_4", "unparsable"), ("9" * 5000, "unparsable"),
    ],
)  # fmt: skip
def test_verdicts(judge: Any, answer: str, status: str) -> None:
    assert judge(ChainedSums(), SUM)(answer).status == status


def test_only_what_follows_thinking_counts() -> None:
    task = ChainedSums()
    assert task.verify(SUM, "44").status == "unparsable"
    assert task.verify(SUM, "<think>44").detail == "no </think>"
    assert task.verify(SUM, "44</think>1").status == "wrong"
    assert task.verify(SUM, "1</think>2</think>44").status == "correct"


def test_dials() -> None:
    task = ChainedSums(numbers=6, fewest_numbers=3, largest=9)
    sums = [problem.metadata["numbers"] for problem in task.problems("train")[:300]]
    assert {len(numbers) for numbers in sums} == {3, 4, 5, 6}
    assert {number for numbers in sums for number in numbers} == set(range(1, 10))
    fixed = ChainedSums(numbers=5).problems("train")[:50]
    assert all(problem.prompt.count("+") == 4 for problem in fixed)
