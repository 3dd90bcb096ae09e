"""One canonical run and siblings that must match it bit for bit: resumed, synchronous, and other sizes of work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from scalerl.config import RunConfig
from scalerl.pipeline.session import TrainResult, train

MakeRun = Callable[..., RunConfig]
TIMES = {"wall_s", "device_s"}
"""What depends on the machine's load, and therefore never on anything else."""


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return value


def lines(folder: Path, name: str) -> list[Any]:
    return [without_times(json.loads(line)) for line in (folder / name).read_text().splitlines()]


def assert_same_run(first: Path, second: Path) -> None:
    for name in ("metrics.jsonl", "evals.jsonl"):
        assert lines(first, name) == lines(second, name)
    ends = [max((folder / "checkpoints").iterdir()) for folder in (first, second)]
    assert ends[0].name == ends[1].name
    for file in ("model.safetensors", "parts/trainer.safetensors", "parts/feed.safetensors"):
        tensors, others = (load_file(end / file) for end in ends)
        assert tensors.keys() == others.keys()
        # caches and rows may hold anything beyond the end of what is written
        compared = [name for name in tensors if ".slots." not in name and not name.endswith("_rt")]
        assert all(tensors[name].equal(others[name]) for name in compared)
    states = [without_times(json.loads((end / "state.json").read_text())) for end in ends]
    assert (
        states[0]["parts"]["feed"] == states[1]["parts"]["feed"]
    )  # where every rollout in flight stands, the curriculum, the cursor


def stop_after(steps: int) -> Callable[[], bool]:
    calls = iter(range(steps))
    return lambda: next(calls, None) is None


RECIPES = {
    "pipeline": ["recipe.asynchrony.k=2"],
    "off policy": ['recipe.asynchrony.kind="ppo_off_policy"', "recipe.asynchrony.k=3"],
    "sync": ['recipe.asynchrony.kind="sync"'],
}


@pytest.fixture
def run_to(tmp_path: Path, cache: Path) -> Callable[..., TrainResult]:
    def start(run: RunConfig, name: str, **options: Any) -> TrainResult:
        return train(run, tmp_path / name, cache=cache, **options)

    return start


@pytest.mark.parametrize("overrides", RECIPES.values(), ids=RECIPES)
def test_a_resumed_run_equals_the_uninterrupted_one(
    overrides: list[str], make_run: MakeRun, run_to: Callable[..., TrainResult]
) -> None:
    run = make_run(*overrides)
    whole = run_to(run, "whole")
    assert whole.reason == "budget"
    assert whole.step == 6
    assert sum(line["effective_prompts"] > 0 for line in lines(whole.folder, "metrics.jsonl")) >= 4
    first = run_to(run, "parts", should_stop=stop_after(2))
    assert (first.reason, first.step) == ("interrupted", 2)
    second = run_to(run, "parts", resume=True, should_stop=stop_after(2))
    assert (second.reason, second.step) == ("interrupted", 4)
    third = run_to(run, "parts", resume=True)
    assert third.reason == "budget"
    assert_same_run(whole.folder, third.folder)
    assert [point.pass_rate for point in third.points] == [point.pass_rate for point in whole.points]


def test_what_was_logged_after_the_last_checkpoint_happens_again(
    make_run: MakeRun, run_to: Callable[..., TrainResult]
) -> None:
    """As after kill -9 between two checkpoints: the log is ahead, with a torn last line."""
    run = make_run()
    whole = run_to(run, "whole")
    part = run_to(run, "killed", should_stop=stop_after(3))
    with (part.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "wall_s": 1.0}\n{"step": 5, "wa')
    assert_same_run(whole.folder, run_to(run, "killed", resume=True).folder)


def test_a_larger_budget_goes_on_as_if_it_had_been_there_from_the_start(
    make_run: MakeRun, run_to: Callable[..., TrainResult]
) -> None:
    """But for the evaluation at the old end, which is one point more and is booked apart."""
    whole = run_to(make_run("scale.budget.amount=7"), "whole").folder
    run_to(make_run("scale.budget.amount=5"), "longer")
    longer = run_to(make_run("scale.budget.amount=7"), "longer", resume=True).folder
    steps = [lines(folder, "metrics.jsonl") for folder in (whole, longer)]
    points = [lines(folder, "evals.jsonl") for folder in (whole, longer)]
    assert [point["step"] for point in points[1]] == [0, 2, 4, 5, 6, 7]
    points[1] = [point for point in points[1] if point["step"] != 5]
    for line in (line for record in (*steps, *points) for line in record):
        del line["ledger"]["evaluation"]
    assert steps[0] == steps[1]
    assert points[0] == points[1]
    ends = [load_file(max((folder / "checkpoints").iterdir()) / "model.safetensors") for folder in (whole, longer)]
    assert all(tensor.equal(ends[1][name]) for name, tensor in ends[0].items())


def test_a_pipeline_of_k_zero_is_synchronous(make_run: MakeRun, run_to: Callable[..., TrainResult]) -> None:
    pipeline = run_to(make_run("recipe.asynchrony.k=0"), "pipeline")
    for name, kind in (("sync", '"sync"'), ("off", '"ppo_off_policy"')):
        extra = ["recipe.asynchrony.k=1"] if name == "off" else []
        sync = run_to(make_run(f"recipe.asynchrony.kind={kind}", *extra), name)
        assert_same_run(pipeline.folder, sync.folder)
    assert {line["age_max"] for line in lines(pipeline.folder, "metrics.jsonl")} == {0}


def test_the_asynchrony_has_an_effect(make_run: MakeRun, run_to: Callable[..., TrainResult]) -> None:
    """Ages reach the bound of each kind, and the weights that come out differ."""
    ages, losses = {}, {}
    for name, overrides in RECIPES.items():
        folder = run_to(make_run(*overrides), name.replace(" ", "_")).folder
        ages[name] = max(line["age_max"] for line in lines(folder, "metrics.jsonl"))
        losses[name] = [line["loss"] for line in lines(folder, "metrics.jsonl")]
    assert ages == {"pipeline": 2, "off policy": 2, "sync": 0}
    assert losses["pipeline"] != losses["sync"] != losses["off policy"]


def test_another_seed_is_another_run(make_run: MakeRun, run_to: Callable[..., TrainResult]) -> None:
    first, second = (run_to(make_run(f"seed={seed}"), f"seed{seed}") for seed in (0, 1))
    assert lines(first.folder, "metrics.jsonl") != lines(second.folder, "metrics.jsonl")
