"""Pools and the stream through them: what is found again, what is distinct, what a cursor restores."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError
from scalerl.tasks import ChainedSums, Countdown, ProblemStream, build_task
from scalerl.tasks.pools import ListedPool, split_of


@settings(deadline=None)
@given(st.text(), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_larger_share_only_adds_held_out_problems(content: str, one: float, other: float) -> None:
    if split_of(content, min(one, other)) == "held_out":
        assert split_of(content, max(one, other)) == "held_out"


def test_the_share_is_about_the_one_asked_for() -> None:
    held_out = sum(split_of(f"problem {i}", 0.1) == "held_out" for i in range(20_000))
    assert held_out / 20_000 == pytest.approx(0.1, abs=0.007)


def test_problems_do_not_depend_on_the_process() -> None:
    """Python's own hash of a text does: it must not be used."""
    program = (
        "from scalerl.tasks import ChainedSums; t = ChainedSums(train_problems=5, seed=3);"
        "print([t.problems(s)[i].id for s in ('train', 'held_out') for i in range(5)])"
    )
    task = ChainedSums(train_problems=5, seed=3)
    here = [task.problems("train")[i].id for i in range(5)] + [task.problems("held_out")[i].id for i in range(5)]
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == str(here)


@pytest.mark.parametrize("train_problems", [None, 200])
def test_train_pools(train_problems: int | None) -> None:
    pool = ChainedSums(train_problems=train_problems).problems("train")
    assert pool.size == train_problems
    assert pool[7:10] == [pool[7], pool[8], pool[9]]
    assert pool[0:9:4] == [pool[0], pool[4], pool[8]]
    assert [problem.index for problem in pool[5:8]] == [5, 6, 7]
    assert {problem.split for problem in pool[:20]} == {"train"}
    assert ChainedSums(train_problems=train_problems, seed=1).problems("train")[0] != pool[0]


def test_finite_pools_are_distinct_and_disjoint() -> None:
    task = ChainedSums(train_problems=3000, held_out_problems=500)
    train, held_out = task.problems("train")[:], task.problems("held_out")[:]
    assert len({problem.prompt for problem in train}) == len({problem.id for problem in train}) == 3000
    assert len({problem.prompt for problem in held_out}) == 500
    assert not {problem.id for problem in train} & {problem.id for problem in held_out}
    assert [problem.index for problem in held_out] == list(range(500))


def test_a_pool_without_end_needs_one_to_slice() -> None:
    pool = ChainedSums().problems("train")
    for impossible in (slice(3, None), slice(-2, 5), slice(0, -1), slice(9, 3, -1)):
        with pytest.raises(IndexError, match="without end"):
            pool[impossible]
    with pytest.raises(IndexError, match="without end"):
        pool[-1]


def test_a_task_with_too_few_problems_says_so() -> None:
    with pytest.raises(
        InputError, match=r"'chained_sums' has too few distinct train problems: got 7; allowed: at most"
    ):
        ChainedSums(numbers=2, largest=2, train_problems=7).problems("train")
    with pytest.raises(
        InputError, match=r"too few distinct held-out problems: got 1000; allowed: at most the \d+ dist"
    ):
        ChainedSums(numbers=2, largest=9).problems("held_out")
    only = split_of("chained_sums [1, 1]", 0.1)
    assert only == "train"
    with pytest.raises(InputError, match="too few distinct train problems: got 'endless'"):
        ChainedSums(numbers=2, largest=1, held_out_share=0.9999).problems("train")[0]


def test_the_same_prompt_has_the_same_id_everywhere() -> None:
    task = ChainedSums(numbers=2, largest=4)
    pool = task.problems("train")[:200]
    ids = {problem.prompt: problem.id for problem in pool}
    assert len(ids) < 200
    assert all(ids[problem.prompt] == problem.id for problem in pool)


def walk(stream: ProblemStream, count: int) -> list[str]:
    found = [stream.draw() for _ in range(count)]
    return [problem.prompt for problem in found if problem is not None]


def test_every_epoch_is_another_shuffle_of_the_whole_pool() -> None:
    pool = ChainedSums(train_problems=30).problems("train")
    stream = ProblemStream(pool, seed=0)
    first = walk(stream, 30)
    assert stream.epoch == 0
    second = walk(stream, 30)
    assert stream.epoch == 1
    assert sorted(first) == sorted(second) == sorted(problem.prompt for problem in pool[:])
    assert first != second
    assert first != walk(ProblemStream(pool, seed=1), 30)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([1, 7, 30, None]), st.integers(0, 70), st.integers(0, 5))
def test_a_restored_stream_goes_on_like_the_uninterrupted_one(size: int | None, before: int, seed: int) -> None:
    pool = Countdown(train_problems=size).problems("train")
    uninterrupted = ProblemStream(pool, seed)
    walk(uninterrupted, before)
    resumed = ProblemStream(pool, seed)
    resumed.restore(json.loads(json.dumps(uninterrupted.state())))
    assert walk(resumed, 40) == walk(uninterrupted, 40)
    assert resumed.state() == uninterrupted.state()


def test_problems_can_be_left_out() -> None:
    pool = ChainedSums(train_problems=10).problems("train")
    stream = ProblemStream(pool, seed=0)
    left_out = {problem.id for problem in pool[:7]}
    drawn = [stream.draw(left_out) for _ in range(12)]
    assert {problem.id for problem in drawn if problem} == {problem.id for problem in pool[7:]}
    assert stream.draw({problem.id for problem in pool[:]}) is None
    last = pool[3]
    almost_all = {problem.id for problem in pool[:]} - {last.id}
    assert [stream.draw(almost_all) for _ in range(30)] == [last] * 30  # wherever it stands in the next epoch
    endless = ProblemStream(ChainedSums(numbers=2, largest=2).problems("train"), seed=0)
    everything = {problem.id for problem in ChainedSums(numbers=2, largest=2).problems("train")[:200]}
    assert endless.draw(everything) is None


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"size": 11}, {"epoch": -1}, {"epoch": "0"}, {"position": 11}, {"position": None}],
    ids=str,
)
def test_a_cursor_of_another_run_is_refused(change: dict[str, Any]) -> None:
    stream = ProblemStream(ChainedSums(train_problems=10).problems("train"), seed=0)
    walk(stream, 3)
    before = stream.state()
    with pytest.raises(InputError, match="problem cursor"):
        stream.restore({**before, **change})
    assert stream.state() == before


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(InputError, match="the pool of problems is empty"):
        ProblemStream(ListedPool([]), seed=0)


def test_the_seed_of_the_run_is_used_unless_the_task_has_one() -> None:
    assert build_task("countdown", seed=5) == Countdown(seed=5)
    assert build_task({"kind": "countdown", "seed": 2}, seed=5) == Countdown(seed=2)
