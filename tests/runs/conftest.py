"""A config, records as the pipeline writes them, and a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from scalerl.config import RunConfig, load_run, patch

FullDisk = Callable[[int], AbstractContextManager[None]]
Point = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def config() -> RunConfig:
    budget = {"scale.budget.unit": "steps", "scale.budget.amount": 100.0, "scale.checkpoint_every": 10}
    return patch(load_run("scalerl", "laptop").config, budget)


@pytest.fixture
def full_disk() -> FullDisk:
    """No file can grow beyond so many bytes: like a full disk, the system refuses in the middle of a write."""

    @contextmanager
    def limit(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


@pytest.fixture
def point() -> Point:
    """A line of evals.jsonl: 10 GFLOPs and 1000 tokens a step for each role."""

    def line(step: int, pass_rate: float | None, **values: Any) -> dict[str, Any]:
        used = {"device_s": 2.0 * step, "flops": 1e10 * step, "tokens": 1000 * step}
        ledger = {"generation": used, "training": used, "evaluation": {"device_s": 1.0, "flops": 5e9, "tokens": 500}}
        record = {"step": step, "pass_rate": pass_rate, "num_problems": 50, "num_samples": 4, "num_judged": 200}
        rest = {"standard_error": 0.02, "truncation_rate": 0.1, "mean_length": 30.5}
        return {**record, **rest, "ledger": ledger, "wall_s": 3.0 * step, **values}

    return line
