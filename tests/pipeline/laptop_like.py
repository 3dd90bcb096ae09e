"""A run of a size like `laptop`'s that vLLM can load too, and what a run of it must have learnt, whoever generates.

The embedded engine on `local` is what others are held against; it runs once for all tests.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

from scalerl.config import RunConfig
from scalerl.pipeline.session import TrainResult, train
from scalerl.pipeline.types import EvalPoint

K = 2
STEPS = 20  # where the curve is steepest, and repeated runs are within .02 of each other; later they drift apart
OVERRIDES = [
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


class LaptopLike:
    """The runs, and the one that all are compared with."""

    vllm = ("scale.generator.engine=vllm", "scale.generator.vllm.cpu_cache_gb=0.1")

    def __init__(self, make_run: Callable[..., RunConfig], cache: Path, folder: Path) -> None:
        self._make_run, self._folder = make_run, folder
        self.cache = cache

    def run(self, *overrides: str) -> RunConfig:
        return self._make_run(*OVERRIDES, *overrides)

    @cached_property
    def embedded(self) -> TrainResult:
        """Our engine on `local`."""
        return train(self.run(), self._folder / "embedded", cache=self.cache)

    def check(self, found: TrainResult) -> None:
        """It began with the same policy, measured the same way, and has learnt as much, within noise."""
        assert found.points[0].per_problem == self.embedded.points[0].per_problem
        for result in (self.embedded, found):
            _check_learnt(result)
        first, second = self.embedded.points[-1], found.points[-1]
        assert abs(second.pass_rate - first.pass_rate) < noise(first, second)


def noise(*points: EvalPoint) -> float:
    """Three standard errors of a difference."""
    return 3 * math.hypot(*(point.standard_error or math.nan for point in points))


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
