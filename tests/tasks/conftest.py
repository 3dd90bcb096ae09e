"""Fixtures of the task tests."""

import pytest

from scalerl.tasks import Problem, Task, Verdict


class Judge:
    """Verifies an answer after some thinking, to keep tests short."""

    def __init__(self, task: Task, problem: Problem) -> None:
        self._task = task
        self._problem = problem

    def __call__(self, answer: str) -> Verdict:
        return self._task.verify(self._problem, f"<think>hm</think>{answer}")


@pytest.fixture
def judge() -> type[Judge]:
    return Judge
