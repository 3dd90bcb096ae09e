"""The laptop scale with heads that vLLM can load, and what a run of it must have learnt, whoever generates.

The embedded engine on `local` is what others are held against; it runs once for all tests.
"""

from __future__ import annotations

import json
import math
from functools import cached_property
from pathlib import Path

import pytest

from scalerl.config import RunConfig, load_run
from scalerl.pipeline.session import TrainResult, train
from scalerl.pipeline.types import EvalPoint

STEPS = 30
"""From a quarter to more than a half; later, repeated runs drift apart."""
OVERRIDES = [
    "scale.model.heads=2",  # of 32 numbers, vLLM's smallest; the preset has four of 16
    'scale.launcher.kind="local"', f"scale.budget.amount={STEPS}", f"scale.evaluation.every={STEPS}",
]  # fmt: skip


class LaptopLike:
    """The runs, and the one that all are compared with."""

    vllm = ("scale.generator.engine=vllm", "scale.generator.vllm.cpu_cache_gb=0.1")

    def __init__(self, cache: Path, folder: Path) -> None:
        self.cache, self._folder = cache, folder

    def run(self, *overrides: str) -> RunConfig:
        return load_run("scalerl", "laptop", overrides=[*OVERRIDES, *overrides]).config

    @cached_property
    def embedded(self) -> TrainResult:
        """Our engine on `local`."""
        return train(self.run(), self._folder / "embedded", cache=self.cache)

    def check(self, found: TrainResult) -> None:
        """It began with the same policy, measured the same way, and has learnt as much, within noise."""
        assert found.points[0].per_problem == self.embedded.points[0].per_problem
        self.check_values(found)

    def check_values(self, found: TrainResult) -> None:
        """The same, measured in another way: both points within noise."""
        for result in (self.embedded, found):
            _check_learnt(result)
        for first, second in zip(self.embedded.points, found.points, strict=True):
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
    assert all(0 <= line["age_max"] <= 8 for line in lines)
    assert max(line["age_max"] for line in lines) > 0  # nobody waited for the other
    # at first the generator's log-probs are those of the policy that the trainer has
    assert lines[0]["ratio_max"] == pytest.approx(1.0, abs=1e-3)
    assert result.ledger.generation.tokens > 0
