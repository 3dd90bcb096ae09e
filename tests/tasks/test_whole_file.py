"""A whole file as held-out problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.tasks import build_task, verify_all


def written(path: Path, count: int) -> Path:
    rows = [{"question": f"What is {i} + 1?", "result": i + 1} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


SETTINGS = {"kind": "file", "prompt_key": "question", "answer_key": "result", "verifier": "number", "whole": True}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 30])
def test_every_problem_is_held_out_and_none_is_trained_on(count: int, tmp_path: Path) -> None:
    task = build_task({**SETTINGS, "path": str(written(tmp_path / "a.jsonl", count))}, seed=4)
    pool = task.problems("held_out")
    assert pool.size == count
    assert {problem.prompt for problem in pool[:count]} == {f"What is {i} + 1?" for i in range(count)}
    assert [problem.index for problem in pool[:count]] == list(range(count))
    assert {problem.split for problem in pool[:count]} == {"held_out"}
    assert task.problems("train").size == 0
    assert build_task(task.settings).problems("held_out")[:count] == pool[:count]


def test_answers_are_judged_by_the_files_verifier(tmp_path: Path) -> None:
    task = build_task({**SETTINGS, "path": str(written(tmp_path / "a.jsonl", 4))})
    problem = task.problems("held_out")[0]
    found = verify_all(task, problem, [f"<think>x</think>\\boxed{{{problem.answer}}}", "<think></think>77", "no end"])
    assert [verdict.status for verdict in found] == ["correct", "wrong", "unparsable"]
    assert task.verify(problem, f"</think>{problem.answer}").correct


def test_only_so_many_in_the_order_of_the_file(tmp_path: Path) -> None:
    task = build_task({**SETTINGS, "path": str(written(tmp_path / "a.jsonl", 9)), "held_out_problems": 4})
    assert [problem.prompt for problem in task.problems("held_out")[:9]] == [f"What is {i} + 1?" for i in range(4)]


@pytest.mark.parametrize(("option", "value"), [("held_out_path", "b.jsonl"), ("train_problems", 5)])
def test_nothing_to_train_on(option: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"task\.{option}.*none with task\.whole"):
        build_task({**SETTINGS, "path": str(written(tmp_path / "a.jsonl", 9)), option: value})


def test_too_few_and_broken_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few held-out problems: got 9; allowed: at most 3"):
        build_task({**SETTINGS, "path": str(written(tmp_path / "few.jsonl", 3)), "held_out_problems": 9})
    (tmp_path / "bad.jsonl").write_text('{"question": "?", "result": "words"}\n')
    with pytest.raises(InputError, match=r"bad.jsonl.*an answer that the verifier number cannot use"):
        build_task({**SETTINGS, "path": str(tmp_path / "bad.jsonl")})
    with pytest.raises(InputError, match="unknown option of task chained_sums"):
        build_task({"kind": "chained_sums", "whole": True})
