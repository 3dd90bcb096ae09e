"""A run with vLLM generating learns what the same run learns with the embedded engine, and leaves nothing behind."""

from __future__ import annotations

import json
import math
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.config import RunConfig
from scalerl.pipeline.session import TrainResult, train
from scalerl.pipeline.types import EvalPoint

pytestmark = pytest.mark.vllm

K = 2
STEPS = 20  # where the curve is steepest, and repeated runs are within .02 of each other; later they drift apart
LAPTOP_LIKE = [
    "scale.model.width=64", "scale.model.heads=2", "scale.model.feed_forward=192",  # heads of 32 numbers
    "scale.warm_start.steps=700", "scale.warm_start.learning_rate=0.004", "scale.warm_start.wrong_steps=0.4",
    "scale.task.numbers=3", "scale.task.train_problems=0", "scale.task.held_out_share=0.25",
    "scale.batch.prompts=16", "scale.batch.rollouts=8", "scale.generator.rows=128",
    "scale.tokens.prompt=8", "scale.tokens.thinking=22", "scale.trainer.micro_batch_tokens=8192",
    "scale.optimiser.learning_rate=0.0006", "scale.optimiser.warmup_steps=5",
    "scale.evaluation.problems=128", "scale.evaluation.samples=4", f"scale.evaluation.every={STEPS}",
    "scale.launcher.kind=local", f"recipe.asynchrony.k={K}", f"scale.budget.amount={STEPS}",
    f"scale.checkpoint_every={STEPS}",
]  # fmt: skip


def noise(*points: EvalPoint) -> float:
    """Three standard errors of a difference."""
    return 3 * math.hypot(*(point.standard_error or math.nan for point in points))


def test_it_reaches_what_the_embedded_engine_reaches(
    make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path, vllm_processes: Callable[[], set[int]]
) -> None:
    own = make_run(*LAPTOP_LIKE)
    other = make_run(*LAPTOP_LIKE, "scale.generator.engine=vllm", "scale.generator.vllm.cpu_cache_gb=0.1")
    children = set(multiprocessing.active_children())  # the server of other tests
    expected = train(own, tmp_path / "embedded", cache=cache)
    found = train(other, tmp_path / "vllm", cache=cache)
    assert not vllm_processes()
    assert set(multiprocessing.active_children()) == children
    assert found.points[0].per_problem == expected.points[0].per_problem  # the same policy, measured the same way
    for result in (expected, found):
        _check_learnt(result)
    first, second = expected.points[-1], found.points[-1]
    assert abs(second.pass_rate - first.pass_rate) < noise(first, second)


def _check_learnt(result: TrainResult) -> None:
    assert (result.reason, result.step) == ("budget", STEPS)
    start, end = result.points
    assert end.pass_rate > start.pass_rate + noise(start, end)
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == STEPS
    assert all(0 <= line["age_max"] <= K for line in lines)
    assert max(line["age_max"] for line in lines) > 0  # nobody waited for the other
    # at first the generator's log-probs are those of the policy that the trainer has
    assert lines[0]["ratio_max"] == pytest.approx(1.0, abs=1e-3)
    assert result.ledger.generation.tokens > 0
