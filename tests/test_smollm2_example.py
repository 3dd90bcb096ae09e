"""examples/smollm2: its data are what the commands take, and its scale is one of ours with that data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalerl.cli.settings import Asked, resolve
from scalerl.config import load_run
from scalerl.pipeline.downstream import downstream_tasks
from scalerl.tasks import build_task

EXAMPLE = Path(__file__).parents[1] / "examples" / "smollm2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    wanted = ["--out", "smollm2", "--problems", "400", "--traces", "50", "--wrong", "0"]
    subprocess.run([sys.executable, str(EXAMPLE / "word_problems.py"), *wanted], cwd=folder, check=True)
    return folder


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_scale_reads_the_problems(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    overrides = ["scale.evaluation.problems=20", "recipe.asynchrony.k=4"]
    run = load_run("scalerl", str(EXAMPLE / "scale.toml"), overrides=overrides).config
    task = build_task(run.scale.task_settings)
    problem = task.problems("train")[0]
    assert task.verify(problem, f"<think>by heart</think>{problem.answer}").correct
    assert not task.verify(problem, "<think>by heart</think>-1").correct
    assert run.scale.chat.template == "model"


def test_the_suite_measures_other_problems(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all forms, none of which is trained on."""
    monkeypatch.chdir(folder)
    overrides = ["scale.evaluation.problems=20", "scale.evaluation.downstream.longer.problems=7"]
    asked = Asked(scale=str(EXAMPLE / "scale.toml"), suites=(str(EXAMPLE / "suite.toml"),), sets=tuple(overrides))
    run = resolve(asked).config
    sets = downstream_tasks(run, build_task(run.scale.task_settings))  # refuses one that is trained on
    trained = {row["prompt"] for row in rows(folder / "smollm2" / "problems.jsonl")}
    wanted = {"retold": 60, "longer": 7, "shared": 60}
    assert sets.keys() == wanted.keys()
    for name, count in wanted.items():
        task = sets[name]
        assert task.problems("held_out").size == 100
        assert run.downstream(name).scale.evaluation.problems == count
        for problem in task.problems("held_out")[:]:
            assert problem.prompt not in trained
            assert task.verify(problem, f"<think>by heart</think>{problem.answer}").correct
            assert str(solved(problem.prompt)) == problem.answer
    assert run.scale.set_tokens("longer").thinking > run.scale.tokens.thinking


def solved(story: str) -> int:
    """By reading the story once more."""
    first, *others = (int(number) for number in re.findall(r"[0-9]+", story))
    if "together" in story:
        return 2 * first + (others[0] if "more than" in story else -others[0])
    losses = [int(number) for number in re.findall(r"(?:loses|gives away|sells) ([0-9]+)", story)]
    losses += [int(number) for number in re.findall(r"([0-9]+) are taken out", story)]
    return first + sum(others) - 2 * sum(losses)


def test_traces_without_wrong_steps_are_right_and_none_is_a_problem(folder: Path) -> None:
    problems = {row["prompt"]: row["answer"] for row in rows(folder / "smollm2" / "problems.jsonl")}
    traces = rows(folder / "smollm2" / "traces.jsonl")
    assert (len(problems), len(traces)) == (400, 50)
    for trace in traces:
        asked, told = (message["content"] for message in trace["messages"])
        assert asked not in problems
        thinking, _, answer = told.removeprefix("<think>").partition("</think>")
        for step in thinking.rstrip(".").split(". "):
            left, _, right = step.partition(" = ")
            first, sign, second = left.split()
            assert int(right) == int(first) + (int(second) if sign == "+" else -int(second))
        assert answer == thinking.rstrip(".").rpartition("= ")[2]
