"""Verdicts from verifiers that do what a verifier never should: nobody is ended by it, and nothing is judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.tasks import Problem, build_task, verify_all
from scalerl.verify import Verdict

PROBLEM = Problem("one", "1+1=", "2")


class Odd:
    """A task that answers with what it was given, in turn."""

    name, settings = "odd", {"kind": "odd"}

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def problems(self, split: str) -> Any:
        raise NotImplementedError

    def verify(self, *_: object) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Together(Odd):
    def verify_all(self, *_: object) -> Any:
        return self.verify()


def statuses(task: Any, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(verdict.status, verdict.detail) for verdict in verify_all(task, PROBLEM, texts)]


def test_what_fails_is_not_judged_and_the_rest_is() -> None:
    task = Odd(Verdict("wrong"), ZeroDivisionError("an accident"), None, Verdict("splendid"), Verdict("correct"))  # type: ignore[arg-type]
    found = statuses(task, "abcde")
    assert [status for status, _ in found] == ["wrong", "error", "error", "error", "correct"]
    assert found[1][1] == "the verifier failed (ZeroDivisionError: an accident)"
    assert found[2][1] == "the verifier said None"


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (RuntimeError("x" * 999), "the verifier failed (RuntimeError: xxx"),
        ([Verdict("correct")], "1 verdicts for 2 answers"),
        (7, "the verifier failed (TypeError"),
    ],
)
def test_all_of_a_group_are_not_judged_together(answer: object, detail: str) -> None:
    found = statuses(Together(answer), "ab")
    assert [status for status, _ in found] == ["error", "error"]
    assert found[0][1].startswith(detail)
    assert len(found[0][1]) <= 200


def test_an_error_on_purpose_is_one() -> None:
    with pytest.raises(InputError, match="no sandbox"):
        verify_all(Odd(InputError("no sandbox")), PROBLEM, "a")


def test_a_task_of_ours_is_asked_as_before() -> None:
    task = build_task("chained_sums")
    problem = task.problems("train")[0]
    found = verify_all(task, problem, [f"<think></think>{problem.answer}", "<think></think>-1", "no end"])
    assert [verdict.status for verdict in found] == ["correct", "wrong", "unparsable"]
