"""Measuring after the fact: the same answers as in the run itself, for versions whose policy is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.config import RunConfig, patch
from scalerl.errors import InputError
from scalerl.pipeline.measure import find_versions, measure, policy_of, tasks_to_measure
from scalerl.pipeline.session import train

MakeRun = Callable[..., RunConfig]
KEY = "scale.evaluation.downstream"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "questions.jsonl"
    rows = [{"prompt": f"{a}+{b}+1=", "answer": str(a + b + 1)} for a in range(1, 5) for b in range(1, 4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture(scope="module")
def run(make_run: MakeRun, questions: Path) -> RunConfig:
    one = {"task": {"path": str(questions), "verifier": "number"}, "whole": True, "samples": 3, "tokens": {"prompt": 9}}
    return patch(make_run(), {f"{KEY}.sums": one, f"{KEY}.first": {**one, "problems": 5}})


@pytest.fixture(scope="module")
def trained(run: RunConfig, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(run, tmp_path_factory.mktemp("runs") / "run", cache=cache).folder


def test_a_whole_file_is_measured_while_training(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "evals.jsonl").read_text().splitlines()]
    assert [line["downstream/sums/num_problems"] for line in lines] == [12] * 4
    assert [line["downstream/first/num_judged"] for line in lines] == [15] * 4


@pytest.mark.parametrize("version", ["0", "3", "last"])
def test_a_version_gives_the_same_answers_again(version: str, run: RunConfig, trained: Path, cache: Path) -> None:
    ((step, folder),) = find_versions(trained / "checkpoints", [version]).items()
    seen: list[tuple[str, int, int, int]] = []
    tasks = tasks_to_measure(run, trained=True)
    points = measure(run, policy_of(run, folder, cache), step, tasks, lambda *what: seen.append(what))
    assert set(points) == {"sums", "first"}
    assert seen[-1] == ("first", step, 5, 5)
    if step % 2:  # no evaluation of the run's own at step 3
        return
    saved = json.loads((trained / f"evals/step-{step:06d}.json").read_text())["downstream"]
    for name, point in points.items():
        found = {key: {"correct": one[0], "judged": one[1]} for key, one in point.per_problem.items()}
        assert found == saved[name]["problems"]


def test_versions_come_in_order_and_once(trained: Path) -> None:
    found = find_versions(trained / "checkpoints", ["last", "3", "0", "6"])
    assert list(found) == [0, 3, 6]
    assert found[0] is None
    assert found[6] == trained / "checkpoints" / "step-000006"


@pytest.mark.parametrize(("asked", "words"), [
    ("4", r"no checkpoint of this version: got '4'; allowed: a version whose policy is kept: 0, 3, 6, or last"),
    ("newest", "--versions: got 'newest'; allowed: whole numbers and last"),
    ("-1", "--versions: got '-1'"),
])  # fmt: skip
def test_a_version_that_is_not_kept_is_one_line(asked: str, words: str, trained: Path) -> None:
    with pytest.raises(InputError, match=words):
        find_versions(trained / "checkpoints", [asked])


def test_a_set_with_problems_that_were_trained_on_is_refused_for_a_run_only(
    run: RunConfig, tmp_path: Path, questions: Path
) -> None:
    every = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(1, 10) for b in range(1, 10)]
    file = tmp_path / "all.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in every))
    leaked = patch(run, {KEY: {}})
    leaked = patch(leaked, {f"{KEY}.all": {"task": {"path": str(file)}, "whole": True}})
    with pytest.raises(InputError, match="a downstream problem is trained on"):
        tasks_to_measure(leaked, trained=True)
    assert tasks_to_measure(leaked, trained=False)["all"].problems("held_out").size == 81


def test_more_problems_than_the_file_has_are_refused(run: RunConfig) -> None:
    with pytest.raises(InputError, match=rf"{KEY}.first.problems: got 13; allowed: at most 12"):
        tasks_to_measure(patch(run, {f"{KEY}.first.problems": 13}), trained=False)
