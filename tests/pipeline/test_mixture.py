"""Training on a mixture: a held-out curve for each part beside the one of all, the same after a resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig, patch
from scalerl.errors import InputError
from scalerl.pipeline.assemble import task_of
from scalerl.pipeline.downstream import downstream_tasks
from scalerl.pipeline.records import point_from_line, point_line
from scalerl.pipeline.session import train
from scalerl.readers.curves import read_table
from scalerl.tasks import part_of

MakeRun = Callable[..., RunConfig]
PARTS = {
    "two": {
        "weight": 3.0,
        "task": {"kind": "chained_sums", "numbers": 2, "largest": 9, "train_problems": 40, "held_out_share": 0.3},
    },
    "goals": {
        "task": {
            "kind": "countdown", "numbers": 2, "largest": 9, "largest_target": 20, "train_problems": 0,
            "held_out_share": 0.3,
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def mixed(make_run: MakeRun) -> RunConfig:
    changes = {
        "scale.task": {"kind": "mixture", "parts": PARTS},
        "scale.tokens.prompt": 8,
        "scale.tokens.answer": 8,
        "scale.evaluation.problems": 12,
    }
    return patch(make_run(), changes)


@pytest.fixture(scope="module")
def whole(mixed: RunConfig, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(mixed, tmp_path_factory.mktemp("runs") / "whole", cache=cache).folder


def lines(folder: Path) -> list[dict[str, Any]]:
    def without_times(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in pairs if key not in {"wall_s", "device_s"}}

    text = (folder / "evals.jsonl").read_text()
    return [json.loads(line, object_pairs_hook=without_times) for line in text.splitlines()]


def test_every_evaluation_has_a_value_for_each_part_and_they_make_up_the_whole(whole: Path) -> None:
    found = lines(whole)
    assert [line["step"] for line in found] == [0, 2, 4, 6]
    for line in found:
        assert (line["part/two/num_problems"], line["part/goals/num_problems"]) == (9, 3)
        both = (9 * line["part/two"] + 3 * line["part/goals"]) / 12
        assert line["pass_rate"] == pytest.approx(both)
        assert line["part/two/num_judged"] + line["part/goals/num_judged"] == line["num_judged"] == 24
    results = json.loads((whole / "evals/step-000000.json").read_text())["problems"]
    assert [part_of(name) for name in results] == ["two"] * 9 + ["goals"] * 3
    own = [one["correct"] / one["judged"] for name, one in results.items() if part_of(name) == "two"]
    assert found[0]["part/two"] == pytest.approx(sum(own) / 9)


def test_a_part_is_a_curve_of_its_own(whole: Path) -> None:
    (series,) = read_table(whole, y="part/goals")
    assert len(series) == 3
    assert series.n is not None
    assert series.n.tolist() == [6.0] * 3
    with pytest.raises(InputError, match=r"part/math.*part/two.*part/goals"):
        read_table(whole, y="part/math")


def test_a_resumed_run_trains_on_the_same_problems(mixed: RunConfig, cache: Path, tmp_path: Path, whole: Path) -> None:
    calls = iter(range(3))
    stopped = train(mixed, tmp_path / "parts", cache=cache, should_stop=lambda: next(calls, None) is None)
    assert (stopped.reason, stopped.step) == ("interrupted", 3)
    resumed = train(mixed, tmp_path / "parts", cache=cache, resume=True)
    assert lines(resumed.folder) == lines(whole)
    metrics = [
        [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (resumed.folder, whole)
    ]
    assert metrics[0] == metrics[1]
    point = resumed.points[1]
    assert point.parts["two"] is not None
    assert point.parts["two"].num_problems == 9
    assert point_from_line(point_line(point, 1.0)) == point


def test_a_run_without_a_mixture_has_no_parts(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    found = lines(train(make_run("scale.budget.amount=2"), tmp_path / "plain", cache=cache).folder)
    assert not any(key.startswith("part") for line in found for key in line)


def test_a_prompt_that_does_not_fit_is_found_before_the_start_in_any_part(
    mixed: RunConfig, cache: Path, tmp_path: Path
) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": f"{i}+{i}+{i}+{i}=", "answer": str(4 * i)}) + "\n" for i in range(20))
    )
    parts = {**PARTS, "file": {"task": {"kind": "file", "path": str(file), "held_out_share": 0.5}}}
    run = patch(mixed, {"scale.warm_start": {"kind": "none"}, "scale.task": {"kind": "mixture", "parts": parts}})
    with pytest.raises(InputError, match=r"tokens of a prompt: got \d+; allowed: at most scale.tokens.prompt, 8"):
        train(run, tmp_path / "run", cache=cache)
    assert not (tmp_path / "run").exists()


def test_a_set_may_not_hold_problems_that_a_part_trains_on(mixed: RunConfig, tmp_path: Path) -> None:
    trained = task_of(mixed).problems("train")[:200]
    (leak, *_) = [problem for problem in trained if part_of(problem.id) == "two"]
    file = tmp_path / "leaked.jsonl"
    rows = [{"prompt": leak.prompt, "answer": leak.answer}, *({"prompt": f"{i}?", "answer": "1"} for i in range(9))]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = patch(mixed, {"scale.evaluation.downstream.x": {"task": {"path": str(file)}, "whole": True}})
    with pytest.raises(InputError, match=r"downstream.x: a downstream problem is trained on"):
        downstream_tasks(run, task_of(run))
