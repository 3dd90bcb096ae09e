"""Recipes in the words of TRL and verl: every preset, every variant of every axis, only fields that exist."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from scalerl import presets
from scalerl.config import RunConfig, load_run
from scalerl.config.recipe import RecipeConfig
from scalerl.interop import TARGETS, Exported, Target, export
from scalerl.interop.exported import flat_keys

HERE = Path(__file__).parent
FREE = (
    "actor_rollout_ref.rollout.engine_kwargs.vllm.",
    "actor_rollout_ref.actor.optim.override_optimizer_config.",
    "reward.reward_kwargs.",
    "hydra.",
    "defaults",
)
"""Tables of verl that take any key: what is in them goes to vLLM, to AdamW, to the reward manager, to hydra."""
VARIANTS = [
    'recipe.loss={surrogate="cispo", cap=8.0}',
    'recipe.loss={surrogate="ppo_clip", clip_low=0.1, clip_high=0.3}',
    'recipe.loss={surrogate="gspo"}',
    'recipe.loss={surrogate="reinforce"}',
    "recipe.kl_coefficient=0.01",
    *(f"recipe.aggregation={kind}" for kind in ("prompt", "sample", "token")),
    *(f"recipe.advantage.normalisation={kind}" for kind in ("batch", "prompt", "none")),
    *(f"recipe.zero_variance={kind}" for kind in ("drop", "keep")),
    *(f'recipe.curriculum={{kind="{kind}"}}' for kind in ("uniform", "no_positive")),
    *(f'recipe.length={{kind="{kind}"}}' for kind in ("interruption", "penalty", "none")),
    *(f"recipe.truncated={kind}" for kind in ("keep", "mask")),
    "recipe.precision.fp32_head_trainer=false",
    "recipe.precision.fp32_head_generator=false",
    'recipe.asynchrony={kind="pipeline", k=4}',
    'recipe.asynchrony={kind="pipeline", k=0}',
    'recipe.asynchrony={kind="ppo_off_policy", k=3}',
    'recipe.asynchrony={kind="sync"}',
    "scale.lora.rank=8",
    "scale.generator.engine=vllm",
]


def names(file: str) -> set[str]:
    lines = (HERE / file).read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def run(recipe: str = "scalerl", *sets: str, scale: str = "paper_8b") -> RunConfig:
    return load_run(recipe, scale, overrides=sets).config


def check(exported: Exported) -> dict[str, Any]:
    """What must hold for every export; the parsed file."""
    assert [axis.name for axis in exported.axes] == list(RecipeConfig.model_fields)
    for axis in exported.axes:
        assert (axis.fidelity == "exact") == (not axis.reason), axis
        assert axis.ours in exported.text.replace("\n#     ", " "), axis
    if exported.target == "trl":
        from transformers import TrainingArguments

        known = names("trl_fields.txt") | {field.name for field in fields(TrainingArguments)}
        assert set(exported.settings) <= known
    else:
        keys = {key for key in flat_keys(exported.settings) if not key.startswith(FREE)}
        assert keys <= names("verl_keys.txt")
    assert exported.version in exported.text
    assert max(map(len, exported.text.splitlines())) <= 120
    loaded: dict[str, Any] = yaml.safe_load(exported.text)
    return loaded


def fidelity(exported: Exported) -> dict[str, str]:
    return {axis.name: axis.fidelity for axis in exported.axes}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scale", presets.names("scale"))
@pytest.mark.parametrize("recipe", presets.names("recipe"))
def test_every_preset(recipe: str, scale: str, target: Target) -> None:
    exported = export(target, run(recipe, scale=scale))
    loaded = check(exported)
    for key, value in exported.settings.items():
        place: Any = loaded
        for part in key.split("."):
            place = place[part]
        assert place == (list(value) if isinstance(value, tuple) else value), key  # 1e-15 is a number, n is no false


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("change", VARIANTS)
def test_every_variant(change: str, target: Target) -> None:
    check(export(target, run("scalerl", change)))
    check(export(target, run("base", change)))


def test_scalerl_in_trl() -> None:
    exported = export("trl", run())
    settings = exported.settings
    assert (settings["loss_type"], settings["epsilon_high"], settings["scale_rewards"]) == ("cispo", 5.0, "batch")
    assert (settings["num_generations"], settings["gradient_accumulation_steps"]) == (16, 48)
    assert settings["steps_per_generation"] == 9 * 48
    assert (settings["adam_epsilon"], settings["max_completion_length"]) == (1e-15, 14336)
    assert fidelity(exported) == {
        "loss": "exact", "kl_coefficient": "exact", "reward": "nearest", "aggregation": "nearest",
        "advantage": "nearest", "zero_variance": "nearest", "curriculum": "missing", "length": "missing",
        "truncated": "exact", "precision": "nearest", "asynchrony": "nearest",
    }  # fmt: skip


def test_scalerl_in_verl() -> None:
    exported = export("verl", run())
    settings = exported.settings
    assert settings["actor_rollout_ref.actor.policy_loss.loss_mode"] == "cispo"
    assert settings["actor_rollout_ref.actor.clip_ratio_low"] == 1.0  # 1 - 1 = 0: no lower clip
    assert settings["actor_rollout_ref.actor.clip_ratio_high"] == 4.0  # 1 + 4 = the cap
    assert settings["trainer.v1.sampler.max_off_policy_threshold"] == 9
    assert settings["actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides.head_dtype"] == "float32"
    assert {name for name, kind in fidelity(exported).items() if kind == "missing"} == {
        "curriculum", "length", "truncated",
    }  # fmt: skip


def test_grpo_is_exact_where_it_should_be() -> None:
    changes = ('recipe.length={kind="none"}', "recipe.truncated=keep", "recipe.advantage.normalisation=none")
    for target in TARGETS:
        found = fidelity(export(target, run("deepseek_grpo", *changes)))
        assert {name for name, kind in found.items() if kind != "exact"} == {"reward"}


def test_the_token_average_of_trl_is_exact_only_where_one_step_is_generated_at_once() -> None:
    """TRL divides by the tokens of everything that was generated together, shared out equally over its steps."""
    found = [
        fidelity(export("trl", run("dr_grpo", f'recipe.asynchrony={{kind="{kind}"}}')))["aggregation"]
        for kind in ("sync", "ppo_off_policy")
    ]
    assert found == ["exact", "nearest"]


def test_a_budget_of_steps_has_a_field_and_others_a_note() -> None:
    by_steps = run("base", 'scale.budget={unit="steps", amount=300}')
    assert export("trl", by_steps).settings["max_steps"] == 300
    assert export("verl", by_steps).settings["trainer.total_training_steps"] == 300
    for target in TARGETS:
        exported = export(target, run())
        assert any("100000 device_hours" in note for note in exported.notes)
        assert not {"max_steps", "trainer.total_training_steps"} & exported.settings.keys()


def test_the_trl_installed_knows_the_fields() -> None:
    if find_spec("trl") is None:
        pytest.skip("TRL is not installed here; trl_fields.txt is that of its source")
    trl = import_module("trl")
    own = {field.name for kind in (trl.GRPOConfig, trl.ModelConfig) for field in fields(kind)}
    script = {"dataset_name", "reward_funcs"}
    for recipe in presets.names("recipe"):
        assert set(export("trl", run(recipe)).settings) <= own | script
