"""A run that takes seconds: sums of two digits, a policy of ten thousand parameters, and a short warm start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scalerl.config import RunConfig, load_run

from .laptop_like import LaptopLike

torch.set_num_threads(1)  # many small tensors; results must not depend on the machine

TINY = [
    "scale.model.layers=1", "scale.model.width=32", "scale.model.heads=2", "scale.model.feed_forward=64",
    "scale.warm_start.steps=150", "scale.warm_start.batch=32", "scale.warm_start.learning_rate=0.01",
    "scale.warm_start.wrong_steps=0.2",
    "scale.task.numbers=2", "scale.task.largest=9", "scale.task.train_problems=40", "scale.task.held_out_share=0.3",
    "scale.batch.prompts=3", "scale.batch.rollouts=4", "scale.generator.rows=10",
    "scale.tokens.prompt=6", "scale.tokens.thinking=12", "scale.tokens.answer=6",
    "scale.trainer.micro_batch_tokens=128", "scale.optimiser.learning_rate=0.001", "scale.optimiser.warmup_steps=2",
    "scale.evaluation.every=2", "scale.evaluation.problems=8", "scale.evaluation.samples=2",
    "scale.budget.amount=6", "scale.checkpoint_every=3",
]  # fmt: skip

MakeRun = Callable[..., RunConfig]


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """`make_run("recipe.asynchrony.k=2", recipe="base")`: the tiny run with some keys changed."""

    def make(*overrides: str, recipe: str = "scalerl") -> RunConfig:
        return load_run(recipe, "laptop", overrides=[*TINY, *overrides]).config

    return make


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Warm starts are trained once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def laptop_like(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> LaptopLike:
    return LaptopLike(cache, tmp_path_factory.mktemp("laptop-like"))
