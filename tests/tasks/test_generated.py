"""What holds for every generated task, whatever its dials: traces, verdicts, splits, characters."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError
from scalerl.tasks import END_THINK, TASK_CHARACTERS, THINK, Problem, TracedTask, build_task, traced

SPLITS = st.sampled_from(["train", "held_out"])
MANY = settings(deadline=None, max_examples=25)
FEW = settings(deadline=None, max_examples=10)


@st.composite
def tasks(draw: st.DrawFn) -> TracedTask:
    """Any kind at any difficulty that has enough problems."""
    numbers = st.integers(3, 8)
    dials: dict[str, Any] = {"seed": draw(st.integers(0, 10**9)), "held_out_problems": 5}
    if draw(st.booleans()):
        dials |= {"kind": "chained_sums", "numbers": draw(numbers), "largest": draw(st.integers(5, 200))}
        if draw(st.booleans()):
            dials["fewest_numbers"] = draw(st.integers(3, dials["numbers"]))
    else:
        dials |= {"kind": "countdown", "numbers": draw(numbers), "largest": draw(st.integers(5, 50))}
    return traced(build_task(dials))


def pick(task: TracedTask, split: Any, index: int) -> Problem:
    return task.problems(split)[index]


@MANY
@given(tasks(), SPLITS, st.integers(0, 4), st.integers())
def test_clean_traces_are_correct(task: TracedTask, split: str, index: int, seed: int) -> None:
    problem = pick(task, split, index)
    assert task.verify(problem, task.trace(problem, random.Random(seed), 0.0)).status == "correct"


@MANY
@given(tasks(), SPLITS, st.integers(0, 4), st.integers())
def test_a_trace_of_wrong_steps_is_never_correct(task: TracedTask, split: str, index: int, seed: int) -> None:
    problem = pick(task, split, index)
    assert task.verify(problem, task.trace(problem, random.Random(seed), 1.0)).status == "wrong"


@MANY
@given(tasks(), st.integers(0, 4), st.integers())
def test_noise_decides_the_verdict(task: TracedTask, index: int, seed: int) -> None:
    """A noisy trace is correct exactly if it is a clean one: no wrong step is ever repaired."""
    problem = pick(task, "train", index)
    noisy = task.trace(problem, random.Random(seed), 0.4)
    assert task.verify(problem, noisy).correct == (noisy == task.trace(problem, random.Random(seed), 0.0))


@MANY
@given(tasks(), SPLITS, st.integers(0, 4), st.integers(), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_vocabulary_suffices(task: TracedTask, split: str, index: int, seed: int, error_rate: float) -> None:
    problem = pick(task, split, index)
    text = problem.prompt + task.trace(problem, random.Random(seed), error_rate)
    assert text.count(THINK) == text.count(END_THINK) == 1
    assert set(text.replace(THINK, "").replace(END_THINK, "")) <= set(TASK_CHARACTERS)


@MANY
@given(tasks(), st.integers(0, 4), st.text())
def test_any_text_gets_a_verdict(task: TracedTask, index: int, text: str) -> None:
    problem = pick(task, "train", index)
    assert task.verify(problem, text).status in {"unparsable", "wrong", "correct"}
    assert task.verify(problem, THINK + END_THINK + text).judged


@FEW
@given(tasks())
def test_splits_are_disjoint_whatever_the_seed(task: TracedTask) -> None:
    """Not even the same numbers in another order are in both."""

    def content(problem: Problem) -> tuple[Any, ...]:
        return (sorted(problem.metadata["numbers"]), problem.metadata.get("target"))

    other = traced(build_task({**task.settings, "seed": 12345}))
    held_out = [content(p) for p in task.problems("held_out")[:5]]
    train = [content(p) for p in task.problems("train")[:60] + other.problems("train")[:60]]
    assert not any(problem in train for problem in held_out)


@FEW
@given(tasks(), SPLITS, st.integers(0, 4))
def test_settings_make_an_equal_task(task: TracedTask, split: str, index: int) -> None:
    again = traced(build_task(task.settings))
    assert again == task
    assert pick(again, split, index) == pick(task, split, index)


@pytest.mark.parametrize("kind", ["chained_sums", "countdown"])
@pytest.mark.parametrize("error_rate", [-0.1, 1.1, float("nan")])
def test_error_rate_is_a_share(kind: str, error_rate: float) -> None:
    task = traced(build_task(kind))
    with pytest.raises(InputError, match="wrong steps in a trace"):
        task.trace(task.problems("train")[0], random.Random(0), error_rate)


@pytest.mark.parametrize("kind", ["chained_sums", "countdown"])
def test_the_share_of_wrong_steps_is_the_one_asked_for(kind: str) -> None:
    """A trace with n steps is clean with probability (1 - w)^n: .65^3 = .27 here, as the warm start relies on."""
    task = traced(build_task({"kind": kind, "numbers": 4}))
    rng = random.Random(0)
    problems = task.problems("train")[:2000]
    clean = sum(task.verify(problem, task.trace(problem, rng, 0.35)).correct for problem in problems)
    assert clean / 2000 == pytest.approx(0.65**3, abs=0.03)  # three standard errors
