"""The state of a run, from its files alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalerl.cli import main
from scalerl.config import RunConfig, load_run, patch
from scalerl.errors import InputError
from scalerl.runs import Records, RunDirectory, list_runs, summarise

from .conftest import Point


def trained(path: Path, config: RunConfig, point: Point, reason: str | None = "budget") -> RunDirectory:
    with RunDirectory.hold(path, config) as run:
        for step, rate in ((0, 0.2), (20, 0.5), (40, 0.7), (50, 0.6)):
            run.evals.append(point(step, rate))
            run.metrics.append(point(step, None))
        if reason is not None:
            run.finish(reason, 50)
    return run


@pytest.mark.parametrize(
    ("reason", "state"),
    [("budget", "finished"), ("exhausted", "finished"), ("interrupted", "interrupted"), (None, "crashed")],
)
def test_states(tmp_path: Path, config: RunConfig, point: Point, reason: str | None, state: str) -> None:
    trained(tmp_path, config, point, reason)
    found = summarise(tmp_path)
    assert (found.state, found.reason, found.pid) == (state, reason, None)


def test_new_and_running(tmp_path: Path, config: RunConfig, point: Point) -> None:
    RunDirectory.create(tmp_path, config)
    assert summarise(tmp_path).state == "new"
    with RunDirectory.hold(tmp_path, config):
        found = summarise(tmp_path)
        assert (found.state, found.pid) == ("running", os.getpid())
    trained(tmp_path, config, point, "budget")
    with RunDirectory.hold(tmp_path, config):
        assert summarise(tmp_path).state == "running"
    assert summarise(tmp_path).state == "crashed"  # the second session has not said how it ended
    assert summarise(tmp_path).num_sessions == 4


def test_a_killed_process_is_a_crash(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path, config)
    code = (
        "import sys, time; from scalerl.runs import RunDirectory; run = RunDirectory.open(sys.argv[1])\n"
        "with RunDirectory.hold(run.path, run.config) as run:\n"
        "    run.metrics.append({'step': 1, 'wall_s': 1.0, 'ledger': __import__('scalerl.compute').compute.Ledger()"
        ".to_dict()})\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    running = summarise(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert (running.state, running.pid) == ("running", process.pid)
    assert summarise(tmp_path).state == "crashed"


def test_the_figures(tmp_path: Path, config: RunConfig, point: Point) -> None:
    run = trained(tmp_path / "first", config, point)
    for name in ("step-000020", "step-000040", "step-000050.abc.partial", "step-000050"):
        (run.checkpoints / name).mkdir(parents=True)
    for name in ("step-000020", "step-000040", "step-000050.abc.partial"):  # the last one has no marker
        (run.checkpoints / name / "complete.json").write_text("{}")
    found = summarise(tmp_path / "first")
    assert (found.name, found.recipe, found.scale, found.seed) == ("first", "scalerl", "laptop", 0)
    assert (found.step, found.budget_unit, found.budget_amount, found.budget_share) == (50, "steps", 100.0, 0.5)
    rates = (found.first_pass_rate, found.last_pass_rate, found.best_pass_rate, found.best_step)
    assert rates == (0.2, 0.6, 0.7, 40)
    assert found.ledger.total.flops == 1e12
    assert found.ledger.evaluation.tokens == 500
    assert (found.wall_s, found.num_evals, found.checkpoints) == (150.0, 4, (20, 40))
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["compute"]["flops"], document["path"]) == (1e12, str(tmp_path / "first"))


@pytest.mark.parametrize(("unit", "share"), [("flops", 0.5), ("tokens", 0.25), ("device_hours", 1 / 9)])
def test_the_share_of_every_kind_of_budget(
    tmp_path: Path, config: RunConfig, point: Point, unit: str, share: float
) -> None:
    """50 steps: 1e12 FLOPs, 100k tokens, 200 device-seconds of generation and training."""
    amount = {"flops": 2e12, "tokens": 4e5, "device_hours": 0.5}[unit]
    trained(tmp_path, patch(config, {"scale.budget.unit": unit, "scale.budget.amount": amount}), point)
    assert summarise(tmp_path).budget_share == pytest.approx(share)


def test_the_nearest_recipe_is_named(tmp_path: Path) -> None:
    changed = load_run("qwen_dapo", "laptop", overrides=["recipe.loss.clip_high=0.3", "seed=3"]).config
    RunDirectory.create(tmp_path, changed)
    found = summarise(tmp_path)
    assert (found.recipe, found.scale, found.seed) == ("qwen_dapo +1", "laptop", 3)


def test_a_list_of_runs(tmp_path: Path, config: RunConfig, point: Point) -> None:
    for name in ("b/second", "a", ".hidden", "1/2/3/4/too-deep"):
        trained(tmp_path / name, config, point)
    RunDirectory.create(tmp_path / "a" / "evals" / "inside", config)
    RunDirectory.create(tmp_path / "broken", config)
    (tmp_path / "broken" / "evals.jsonl").write_text("{}\nnonsense\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list_runs(tmp_path)
    assert [run.path.relative_to(tmp_path).as_posix() for run in found] == ["a", "b/second", "broken"]
    assert [run.state for run in found] == ["finished", "finished", "broken"]
    assert "evals.jsonl, line 2" in str(found[2].problem)
    assert [run.name for run in list_runs(tmp_path / "a")] == ["a"]
    assert list_runs(tmp_path / "other") == []
    with pytest.raises(InputError, match="no such folder"):
        list_runs(tmp_path / "nowhere")


def test_records_of_somebody_else_are_an_error(tmp_path: Path, config: RunConfig) -> None:
    RunDirectory.create(tmp_path, config).metrics.append({"loss": 1.0})
    with pytest.raises(InputError, match=r"metrics.jsonl, the last line: step: got 'nothing'; allowed: a whole number"):
        summarise(tmp_path)


DEEP = "[" * 100_000
STEPS: tuple[Any, ...] = ("1", 1.5, True, None, [1], -1)
RATES: tuple[Any, ...] = ("x", [1], {}, True, 10**400)
DAMAGED: list[tuple[str, dict[str, Any], str]] = [
    *(("evals.jsonl", {"step": step}, "line 1: step: got") for step in STEPS),
    *(("metrics.jsonl", {"step": step}, "the last line: step: got") for step in STEPS),
    *(("evals.jsonl", {"pass_rate": rate}, "pass_rate: got") for rate in RATES),
    ("evals.jsonl", {"standard_error": "x"}, "standard_error: got 'x'; allowed: a number, or null"),
    ("evals.jsonl", {"downstream/<b>": "x"}, "downstream/<b>: got 'x'"),
    ("evals.jsonl", {"part/a/num_judged": [10**400]}, "part/a/num_judged: got '[1000000"),
    ("evals.jsonl", {"ledger": []}, "no ledger in this line"),
    ("evals.jsonl", {"ledger": {"generation": {}, "training": [], "evaluation": {}}}, "no usage of a role: []"),
    ("metrics.jsonl", {"wall_s": 10**400}, "wall_s: got '1000000"),
    ("metrics.jsonl", {"wall_s": "x"}, "wall_s: got 'x'"),
]


@pytest.mark.parametrize(("file", "change", "words"), DAMAGED, ids=[f"{file} {words}" for file, _, words in DAMAGED])
def test_a_line_that_nobody_can_count_with_is_one_line(
    tmp_path: Path, config: RunConfig, point: Point, file: str, change: dict[str, Any], words: str
) -> None:
    """In the list it is a broken run, and to show it is refused."""
    run = trained(tmp_path / "run", config, point)
    Records(run.path / file).truncate(0)
    (run.path / file).write_text(json.dumps(point(0, 0.2) | change) + "\n")
    (found,) = list_runs(tmp_path)
    assert found.state == "broken"
    assert words in str(found.problem)
    assert main(["runs", "show", str(run.path)]) == 2
    assert main(["runs", "list", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["provenance.json", "stopped.json"])
@pytest.mark.parametrize("content", [DEEP, "5", '{"sessions": [1]}', '{"sessions": "abc"}', "a folder"], ids=repr)
def test_a_small_file_that_is_damaged_is_one_line(
    tmp_path: Path, config: RunConfig, point: Point, name: str, content: str
) -> None:
    run = trained(tmp_path, config, point)
    (run.path / name).unlink()
    if content == "a folder":
        (run.path / name).mkdir()
    else:
        (run.path / name).write_text(content)
    (found,) = list_runs(tmp_path)
    assert (found.state, name in str(found.problem)) == ("broken", True)


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder is no run directory"):
        summarise(tmp_path)
