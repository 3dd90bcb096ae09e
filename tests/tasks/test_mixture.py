"""Mixtures: every part has its share, its problems, its verifier; the same index is the same problem for ever."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.tasks import (
    MixtureTask,
    ProblemStream,
    build_task,
    listed,
    part_names,
    part_of,
    seeded,
    traced,
    verify_all,
)
from scalerl.tasks.mixed_pool import BLOCK, apportioned

SUMS = {"kind": "chained_sums", "numbers": 3, "largest": 9}
GOALS = {"kind": "countdown", "numbers": 3, "largest": 9}


def mixture(weights: tuple[float, float] = (3.0, 1.0), **options: Any) -> MixtureTask:
    parts = {"sums": {"weight": weights[0], "task": SUMS}, "goals": {"weight": weights[1], "task": GOALS}}
    task = build_task({"kind": "mixture", "parts": parts, "held_out_problems": 40, **options})
    assert isinstance(task, MixtureTask)
    return task


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    rows = [{"prompt": f"Question {i}?", "answer": str(i)} for i in range(30)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_every_part_has_its_share_of_both_pools() -> None:
    task = mixture()
    held_out = Counter(part_of(problem.id) for problem in task.problems("held_out")[:40])
    trained = Counter(part_of(problem.id) for problem in task.problems("train")[: 2 * BLOCK])
    assert held_out == {"sums": 30, "goals": 10}
    assert trained == {"sums": 1500, "goals": 500}
    assert part_names(task) == ("sums", "goals")
    assert {problem.split for problem in task.problems("train")[:50]} == {"train"}


def test_a_problem_is_found_again_by_its_place_whatever_was_asked_before() -> None:
    task, other = mixture(), mixture()
    places = [0, 7, 999, 1000, 4321, 7]
    found = [task.problems("train")[place] for place in places]
    assert [problem.index for problem in found] == places
    assert [other.problems("train")[place] for place in reversed(places)] == found[::-1]
    assert build_task(task.settings).problems("train")[4321] == found[4]
    assert task.problems("held_out")[33] == other.problems("held_out")[33]
    assert task.problems("held_out")[33].index == 33


def test_another_seed_takes_other_turns() -> None:
    turns = [[part_of(problem.id) for problem in mixture(seed=seed).problems("train")[:60]] for seed in (0, 1)]
    assert turns[0] != turns[1]


def test_a_part_with_an_end_comes_through_whole_in_each_epoch(questions: Path) -> None:
    parts = {"sums": {"task": SUMS}, "file": {"task": {"kind": "file", "path": str(questions)}}}
    task = build_task({"kind": "mixture", "parts": parts, "held_out_problems": 4})
    own = [problem.id for problem in task.problems("train")[:BLOCK] if part_of(problem.id) == "file"]
    size = len({problem.id for problem in listed(task, "train")})
    assert 20 <= size <= 29
    first, second = own[:size], own[size : 2 * size]
    assert len(set(first)) == len(set(second)) == size
    assert set(first) == set(second)
    assert first != second  # shuffled anew


def test_verification_goes_to_the_part(questions: Path) -> None:
    file = {"kind": "file", "path": str(questions), "verifier": "number", "thinking": False}
    task = build_task(
        {"kind": "mixture", "parts": {"sums": {"task": SUMS}, "file": {"task": file}}, "held_out_problems": 8}
    )
    for problem in task.problems("held_out")[:8]:
        right = problem.answer if part_of(problem.id) == "file" else f"<think></think>{problem.answer}"
        verdicts = verify_all(task, problem, [right, "<think></think>-1"])
        assert [verdict.status for verdict in verdicts] == ["correct", "wrong"]
        assert task.verify(problem, right).correct


def test_a_mixture_of_traced_tasks_has_traces() -> None:
    task = traced(mixture())
    for problem in task.problems("train")[:20]:
        assert task.verify(problem, task.trace(problem, seeded("trace"), 0.0)).correct
    assert not any(task.verify(p, task.trace(p, seeded("trace"), 1.0)).correct for p in task.problems("train")[:20])


def test_a_mixture_with_a_file_has_none(questions: Path) -> None:
    parts = {"sums": {"task": SUMS}, "file": {"task": {"kind": "file", "path": str(questions)}}}
    with pytest.raises(InputError, match="the task has no solution traces: got 'file'"):
        traced(build_task({"kind": "mixture", "parts": parts, "held_out_problems": 8}))


def test_a_stream_goes_on_where_it_was() -> None:
    stream = ProblemStream(mixture().problems("train"), 5)
    for _ in range(30):
        stream.draw()
    other = ProblemStream(mixture().problems("train"), 5)
    other.restore(stream.state())
    assert [other.draw() for _ in range(5)] == [stream.draw() for _ in range(5)]


def test_shares_are_whole_and_add_up() -> None:
    assert apportioned({"a": 1, "b": 1, "c": 1}, 100) == {"a": 34, "b": 33, "c": 33}
    assert apportioned({"a": 0.999, "b": 0.001}, 10) == {"a": 10, "b": 0}
    for total in range(1, 60):
        assert sum(apportioned({"a": 0.3, "b": 1.7, "c": 0.9}, total).values()) == total


def refuse(parts: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        build_task({"kind": "mixture", "parts": parts, **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_a_mixture_is_refused() -> None:
    part = {"task": SUMS}
    assert "at least two parts" in refuse({"a": part})
    assert "task.parts.b: got 3; allowed: a table with a table task" in refuse({"a": part, "b": 3})
    assert "task.parts.b" in refuse({"a": part, "b": {"task": GOALS, "wieght": 2}})
    assert "task.parts.b.weight: got 0; allowed: a number above 0" in refuse(
        {"a": part, "b": {"task": GOALS, "weight": 0}}
    )
    assert "task.parts.b.weight: got -1" in refuse({"a": part, "b": {"task": GOALS, "weight": -1}})
    nested = {"kind": "mixture", "parts": {"a": part, "b": part}}
    assert "a part of a mixture is one task" in refuse({"a": part, "b": {"task": nested}})
    assert "task.parts.b" in refuse({"a": part, "b": {"task": {"kind": "sums"}}}, held_out_problems=8)
    assert "too few distinct held-out problems" in refuse(
        {"a": {"task": {"kind": "chained_sums", "numbers": 2, "largest": 3}}, "b": {"task": GOALS}},
        held_out_problems=400,
    )


def test_a_part_without_held_out_problems_or_without_a_turn_is_refused() -> None:
    rare = {"a": {"task": SUMS, "weight": 1000}, "b": {"task": GOALS, "weight": 1}}
    assert "held-out problems of the part b: got 0" in refuse(rare, held_out_problems=40)
    rarer = {"a": {"task": SUMS | {"largest": 99}, "weight": 1e5}, "b": {"task": GOALS, "weight": 45}}
    assert "task.parts.b.weight" in refuse(rarer, held_out_problems=1200)


def test_a_problem_in_two_parts_is_refused(questions: Path) -> None:
    twin = questions.with_name("twin.jsonl")
    twin.write_text('{"prompt": "question  7?", "answer": "7"}\n' + "".join(
        json.dumps({"prompt": f"Other {i}?", "answer": str(i)}) + "\n" for i in range(20)
    ))  # fmt: skip
    parts = {name: {"task": {"kind": "file", "path": str(path)}} for name, path in (("one", questions), ("two", twin))}
    words = refuse(parts, held_out_problems=2)
    assert "a problem in two parts of a mixture: got 'question  7?'" in words
    assert "one and in two" in words
