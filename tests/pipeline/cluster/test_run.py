"""Whole runs on a real Ray cluster of one machine, against the same runs without it."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig, load_run, patch
from scalerl.pipeline.launch.ray.drive import train_on_ray
from scalerl.pipeline.session import TrainResult, train

MakeRun = Callable[..., RunConfig]
Metrics = Callable[[Path], list[dict[str, Any]]]
RAY = 'scale.launcher.kind="ray"'
LEARNING = ("scale.budget.amount=30", "scale.evaluation.every=30")
"""Of the laptop scale: from a quarter to more than a half."""


@pytest.mark.parametrize("transfer", ["store", "direct"])
def test_inline_and_ray_are_the_same_run_at_k_0(
    transfer: str, make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, gone: Any
) -> None:
    sync = "recipe.asynchrony.k=0"
    before = policies()
    inline = train(make_run(sync), tmp_path / "inline", cache=cache)
    watcher = heard()
    run = make_run(sync, RAY, f"scale.launcher.transfer={transfer}")
    ray = train_on_ray(run, tmp_path / "ray", watcher=watcher, cache=cache, address=address)
    assert (ray.reason, ray.step) == (inline.reason, inline.step)
    assert watcher.steps == list(range(1, ray.step + 1))
    assert [(point.step, point.pass_rate) for point in ray.points] == [
        (point.step, point.pass_rate) for point in inline.points
    ]
    for one, two in zip(metrics(inline.folder), metrics(ray.folder), strict=True):
        for key in ("loss", "grad_norm", "entropy", "reward", "pass_rate", "loss_tokens", "age_max"):
            assert one[key] == two[key], (one["step"], key)
    for side in ("generation", "training"):
        mine, other = getattr(ray.ledger, side), getattr(inline.ledger, side)
        assert (mine.flops, mine.tokens) == (other.flops, other.tokens)
    for name in ("TrainerActor", "PolicyGenerator"):
        assert gone(name)
    assert policies() == before  # the copy that the generator read


def test_generators_answer_the_evaluations_as_the_trainer_would(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any
) -> None:
    """At k = 0 with one generator: the same run, the same seeds, the same answers."""
    longer = "scale.evaluation.downstream.longer={task={largest=12}, problems=6, tokens={thinking=20}}"
    sync = 'recipe.asynchrony.kind="sync"'
    mine = train(make_run(sync, longer), tmp_path / "inline", cache=cache)
    run = make_run(sync, longer, RAY, 'scale.evaluation.by="generators"')
    ray = train_on_ray(run, tmp_path / "ray", watcher=heard(), cache=cache, address=address)
    for one, two in zip(mine.points, ray.points, strict=True):
        assert (one.step, one.per_problem) == (two.step, two.per_problem)
        sets = [point.downstream["longer"] for point in (one, two)]
        assert sets[0] is not None
        assert sets[1] is not None
        assert sets[0].per_problem == sets[1].per_problem
    tokens = [(ledger.generation.tokens, ledger.evaluation.tokens) for ledger in (mine.ledger, ray.ledger)]
    assert tokens[0] == tokens[1]


def test_two_generators_learn_like_local(
    cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics
) -> None:
    here = load_run("scalerl", "laptop", overrides=['scale.launcher.kind="local"', *LEARNING]).config
    local = train(here, tmp_path / "local", cache=cache)
    run = patch(here, {"scale.launcher.kind": "ray", "scale.launcher.generators": 2})
    ray = train_on_ray(run, tmp_path / "ray", watcher=heard(), cache=cache, address=address)
    for result in (local, ray):
        assert result.points[-1].pass_rate > result.points[0].pass_rate + 0.2
    assert abs(local.points[-1].pass_rate - ray.points[-1].pass_rate) < max(0.05, 4 * _error(local, ray))
    lines = metrics(ray.folder)
    assert all(0 <= line["age_max"] <= 8 for line in lines)
    assert max(line["age_max"] for line in lines) > 0


def test_two_trainers_are_the_run_of_one(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, gone: Any
) -> None:
    sync = 'recipe.asynchrony.kind="sync"'
    one = train(make_run(sync), tmp_path / "one", cache=cache)
    run = make_run(sync, RAY, "scale.launcher.trainers=2")
    two = train_on_ray(run, tmp_path / "two", watcher=heard(), cache=cache, address=address)
    for mine, other in zip(metrics(two.folder), metrics(one.folder), strict=True):
        for key in ("loss", "grad_norm", "reward"):
            same = other[key] if other[key] is None else pytest.approx(other[key], rel=1e-4, abs=1e-5)
            assert mine[key] == same, (mine["step"], key)
    assert (two.folder / "checkpoints" / "step-000006" / "shards").is_dir()
    assert gone("RankActor")


def test_a_run_is_stopped_and_goes_on(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics
) -> None:
    run = make_run(RAY, "recipe.asynchrony.k=2", "scale.budget.amount=12")
    watcher = heard()
    first = train_on_ray(
        run,
        tmp_path / "run",
        watcher=watcher,
        cache=cache,
        address=address,
        should_stop=lambda: len(watcher.steps) >= 3,
    )
    assert first.reason == "interrupted"
    assert 3 <= first.step < 12
    second = train_on_ray(run, tmp_path / "run", watcher=heard(), cache=cache, address=address, resume=True)
    assert (second.reason, second.step) == ("budget", 12)
    assert [line["step"] for line in metrics(second.folder)] == list(range(1, 13))


def test_a_cluster_of_its_own_has_the_priority_of_the_command(
    make_run: MakeRun, cache: Path, tmp_path: Path, heard: Any, actors: Any
) -> None:
    """As `local` has; Ray would put its actors behind everything else on the machine."""
    found: set[int] = set()

    def look(_: int) -> None:
        for name in ("TrainerActor", "PolicyGenerator"):
            found.update(os.getpriority(os.PRIO_PROCESS, pid) for pid in actors(name))

    train_on_ray(make_run(RAY), tmp_path / "run", watcher=heard(look), cache=cache)
    assert found == {os.getpriority(os.PRIO_PROCESS, 0)}


def policies() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("scalerl-policy-*"))


def _error(one: TrainResult, two: TrainResult) -> float:
    errors = [result.points[-1].standard_error or 0.0 for result in (one, two)]
    return math.hypot(*errors)
