"""Every option of the recipe, and every option of the scale that is to change the result, changes it, end to end.

Short budgets, so that rollouts are interrupted and cut off: then length control and masking have something to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig
from scalerl.pipeline.session import train

MakeRun = Callable[..., RunConfig]
SHORT = [
    "scale.tokens.thinking=8", "scale.tokens.answer=2", "scale.warm_start.steps=300", "scale.batch.prompts=4",
]  # fmt: skip
TIMES = {"wall_s", "ledger", "generator_idle", "trainer_idle"}

TRAINING: dict[str, list[str]] = {
    "ppo clip": ['recipe.loss.surrogate="ppo_clip"', "recipe.loss.clip_high=1e-6", "recipe.loss.clip_low=1e-6"],
    "gspo": ['recipe.loss.surrogate="gspo"'],
    "reinforce": ['recipe.loss.surrogate="reinforce"'],
    "cap": ["recipe.loss.cap=0.9"],
    "kl": ["recipe.kl_coefficient=1.0"],
    "reward": ["recipe.reward.wrong=-3.0", 'recipe.advantage.normalisation="none"'],
    "sample average": ['recipe.aggregation="sample"'],
    "token average": ['recipe.aggregation="token"'],
    "prompt-level normalisation": ['recipe.advantage.normalisation="prompt"'],
    "no normalisation": ['recipe.advantage.normalisation="none"'],
    "deviation over all": ['recipe.advantage.std_over="all"'],
    "zero variance kept": ['recipe.zero_variance="keep"'],
    "curriculum": ["recipe.curriculum.threshold=0.25", "scale.task.train_problems=12", "recipe.asynchrony.k=0"],
    "no length control": ['recipe.length.kind="none"'],
    "length penalty": ['recipe.length.kind="penalty"', "recipe.length.cache_share=0.5"],
    "interruption window": ["recipe.length.low_share=0.2", "recipe.length.high_share=0.4"],
    "truncated kept": ['recipe.truncated="keep"'],
    "asynchrony": ['recipe.asynchrony.kind="sync"'],
    "decode slowdown": ["scale.launcher.decode_slowdown=30"],
    "sampling temperature": ["scale.sampling.temperature=0.7"],
    "learning rate": ["scale.optimiser.learning_rate=0.01"],
    "betas": ["scale.optimiser.betas=[0.5,0.6]"],
    "eps": ["scale.optimiser.eps=0.1"],
    "weight decay": ["scale.optimiser.weight_decay=10.0"],
    "warm-up": ["scale.optimiser.warmup_steps=0"],
    "gradient clip": ["scale.optimiser.grad_clip=1e-3"],
    "mixed precision": ["scale.trainer.mixed_precision=true"],
    "batch": ["scale.batch.prompts=5"],
    "rollouts": ["scale.batch.rollouts=6"],
}


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def lengths(folder: Path) -> list[Any]:
    return [json.loads(line)["mean_length"] for line in (folder / "evals.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run_with(make_run: MakeRun, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Trains the short run with some keys changed; a run that was asked for before is not repeated."""
    done: dict[tuple[str, ...], Path] = {}

    def start(*overrides: str) -> Path:
        if overrides not in done:
            folder = tmp_path_factory.mktemp("axis") / "run"
            done[overrides] = train(make_run(*SHORT, *overrides), folder, cache=cache).folder
        return done[overrides]

    return start


WITHOUT: dict[str, list[str]] = {
    "reward": ['recipe.advantage.normalisation="none"'],
    "curriculum": ['recipe.curriculum.kind="uniform"', "scale.task.train_problems=12", "recipe.asynchrony.k=0"],
}
"""The run without the change, where it takes another one to show it."""


@pytest.mark.parametrize("name", TRAINING)
def test_the_option_changes_what_is_trained(name: str, run_with: Callable[..., Path]) -> None:
    assert metrics(run_with(*TRAINING[name])) != metrics(run_with(*WITHOUT.get(name, [])))


def test_the_short_run_shows_what_it_must(run_with: Callable[..., Path]) -> None:
    """Otherwise the tests above could pass for a wrong reason."""
    lines = metrics(run_with())
    assert sum(line["effective_prompts"] > 0 for line in lines) >= 3
    assert any(line["zero_variance_groups"] > 0 for line in lines)
    assert any(line["interruption_rate"] > 0 for line in lines)
    assert any(line["truncation_rate"] > 0 for line in lines)


@pytest.mark.parametrize("side", ["trainer", "generator"])
def test_the_fp32_head_has_a_switch_on_each_side(side: str, run_with: Callable[..., Path]) -> None:
    rounded = 'scale.model.dtype="bfloat16"'
    assert metrics(run_with(rounded, f"recipe.precision.fp32_head_{side}=false")) != metrics(run_with(rounded))


def test_the_evaluation_has_its_own_temperature(run_with: Callable[..., Path]) -> None:
    cold = run_with("scale.evaluation.temperature=0.01")
    warm = run_with()
    assert metrics(cold) == metrics(warm)
    assert lengths(cold) != lengths(warm)


@pytest.mark.parametrize(
    "overrides", [["scale.trainer.micro_batch_tokens=40"], ["scale.trainer.gradient_checkpointing=true"]]
)
def test_what_only_saves_memory_changes_nothing_but_rounding(
    overrides: list[str], run_with: Callable[..., Path]
) -> None:
    for line, other in zip(metrics(run_with()), metrics(run_with(*overrides)), strict=True):
        assert line["loss"] == pytest.approx(other["loss"], abs=1e-4)
        assert line["pass_rate"] == other["pass_rate"]
