"""A whole recipe: every axis has an effect, micro-batches add up to the batch, and order does not matter."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from scalerl import presets
from scalerl.config import load_run, patch
from scalerl.recipe import LossInputs, Plan, Recipe, Rollouts, recipe_of

Inputs = Callable[[Rollouts, Plan], LossInputs]

BASE = load_run().config


def take(inputs: LossInputs, rows: Tensor) -> LossInputs:
    """Some rows of a micro-batch."""
    chosen: dict[str, Any] = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return replace(inputs, **{name: value[rows] for name, value in chosen.items() if value is not None})


def shuffled(batch: Rollouts, order: Tensor) -> Rollouts:
    return Rollouts(**{field.name: getattr(batch, field.name)[order] for field in fields(batch)})


def observe(recipe: Recipe, batch: Rollouts, micro_batch: Inputs) -> list[float]:
    """Everything that a recipe computes, as numbers."""
    plan = recipe.plan(batch)
    inputs = micro_batch(batch, plan)
    with_reference = replace(inputs, reference_logprob_rt=inputs.generator_logprob_rt - 0.5)
    outputs = recipe.loss(with_reference)
    points = [recipe.interruption_point(seed) for seed in range(20)]
    curriculum = recipe.curriculum()
    admitted = []
    for correct in (15, 16, 16):
        curriculum.record("problem", correct, 16)
        admitted.append("problem" not in curriculum.left_out)
    return [
        outputs.loss.item(),
        float(outputs.stats.clipped_tokens),
        *plan.reward_r.tolist(),
        *plan.advantage_r.tolist(),
        *plan.weight_r.tolist(),
        *(-1 if point is None else point for point in points),
        *map(float, admitted),
    ]


AXES: list[dict[str, Any]] = [
    {"recipe.loss.cap": 1.1},
    {"recipe.loss.surrogate": "ppo_clip"},
    {"recipe.loss.surrogate": "gspo"},
    {"recipe.loss.surrogate": "reinforce"},
    {"recipe.kl_coefficient": 0.1},
    {"recipe.reward.wrong": 0.0},
    {"recipe.aggregation": "sample"},
    {"recipe.aggregation": "token"},
    {"recipe.advantage.normalisation": "prompt"},
    {"recipe.advantage.normalisation": "none"},
    {"recipe.advantage.std_over": "all"},
    {"recipe.zero_variance": "keep"},
    {"recipe.curriculum.kind": "uniform"},
    {"recipe.curriculum.threshold": 1.0},
    {"recipe.curriculum.min_history": 20},
    {"recipe.length.low_share": 0.5},
    {"recipe.length.high_share": 0.9},
    {"recipe.length.kind": "penalty", "recipe.length.max_share": 0.25},
    {"recipe.length.kind": "none"},
    {"recipe.truncated": "keep"},
]


@pytest.mark.parametrize("change", AXES, ids=str)
def test_every_axis_has_an_effect(change: dict[str, Any], rollouts: Rollouts, micro_batch: Inputs) -> None:
    assert observe(recipe_of(patch(BASE, change)), rollouts, micro_batch) != observe(
        recipe_of(BASE), rollouts, micro_batch
    )


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.2), (0.2, 0.4)])
def test_both_clips_have_an_effect(low: float, high: float, rollouts: Rollouts, micro_batch: Inputs) -> None:
    base = patch(BASE, {"recipe.loss.surrogate": "ppo_clip"})
    changed = patch(base, {"recipe.loss.clip_low": low, "recipe.loss.clip_high": high})
    assert observe(recipe_of(changed), rollouts, micro_batch) != observe(recipe_of(base), rollouts, micro_batch)


def test_history_has_an_effect() -> None:
    removed = []
    for history in ("latest", "mean"):
        curriculum = recipe_of(patch(BASE, {"recipe.curriculum.history": history})).curriculum()
        curriculum.record("problem", 0, 16)
        curriculum.record("problem", 16, 16)
        removed.append("problem" in curriculum.left_out)
    assert removed == [True, False]


def test_plan_by_hand(rollouts: Rollouts) -> None:
    plan = recipe_of(BASE).plan(rollouts)
    # groups 2 and 3 have no variance, 1 is truncated, 7 is not scored
    assert plan.in_loss_r.nonzero().flatten().tolist() == [0, 2, 3, 4, 5, 6]
    assert (plan.num_prompts, plan.num_rollouts) == (2, 6)
    # group 0: 2 of 4 correct, mean 0, centred 1 -1 -1 1 (the truncated rollout 1 counts in the mean)
    # group 1: 1 of 3 scored correct, mean -1/3, centred -2/3 4/3 -2/3
    # batch deviation over the six in the loss: values 1 -1 1 -2/3 4/3 -2/3, mean 1/6,
    # squares 1 + 1 + 1 + 4/9 + 16/9 + 4/9 = 17/3, variance 17/18 - 1/36 = 11/12
    std = (11 / 12) ** 0.5
    assert plan.advantage_r[[0, 2, 3, 4, 5, 6]].tolist() == pytest.approx(
        [1 / std, -1 / std, 1 / std, -2 / 3 / std, 4 / 3 / std, -2 / 3 / std]
    )
    # prompt average: 1 / (2 prompts x (5 + 3 + 12) tokens) and 1 / (2 x (4 + 4 + 8))
    assert plan.weight_r[:7].tolist() == pytest.approx([1 / 40, 0, 1 / 40, 1 / 40, 1 / 32, 1 / 32, 1 / 32])
    assert plan.weight_r[7:].abs().max() == 0


def test_kept_zero_variance_groups_count_in_the_denominator(rollouts: Rollouts) -> None:
    dropped = recipe_of(BASE).plan(rollouts)
    kept = recipe_of(patch(BASE, {"recipe.zero_variance": "keep"})).plan(rollouts)
    assert (dropped.num_prompts, kept.num_prompts) == (2, 4)
    torch.testing.assert_close(kept.weight_r[:7], dropped.weight_r[:7] / 2)
    assert kept.weight_r[12:].min() > 0
    assert kept.advantage_r[8:].abs().max() == 0


def test_a_batch_without_any_signal_has_nothing_to_train_on(rollouts: Rollouts, micro_batch: Inputs) -> None:
    plan = recipe_of(BASE).plan(replace(rollouts, correct_r=torch.ones(16, dtype=torch.bool)))
    assert (plan.num_prompts, plan.num_rollouts) == (0, 0)
    outputs = recipe_of(BASE).loss(micro_batch(rollouts, plan))
    assert outputs.loss.item() == 0.0


def test_a_rollout_with_nothing_of_its_own_is_not_in_the_loss(rollouts: Rollouts) -> None:
    own = rollouts.own_tokens_r.clone()
    own[0] = 0
    plan = recipe_of(BASE).plan(replace(rollouts, own_tokens_r=own))
    assert not plan.in_loss_r[0]
    # the others of its prompt take over its share: 1 / (2 x (3 + 12))
    assert plan.weight_r[2].item() == pytest.approx(1 / 30)


def test_injected_tokens_count_for_the_penalty_but_not_in_the_average(rollouts: Rollouts) -> None:
    config = patch(BASE, {"recipe.length.kind": "penalty"})  # laptop: 48 response tokens, the last 7 are penalised
    recipe = recipe_of(config)
    longer = replace(rollouts, length_r=rollouts.length_r + 40)
    assert recipe.plan(longer).reward_r[0] < recipe.plan(rollouts).reward_r[0]
    torch.testing.assert_close(recipe.plan(longer).weight_r, recipe.plan(rollouts).weight_r)


@pytest.mark.parametrize("name", presets.names("recipe"))
@pytest.mark.parametrize("aggregation", ["prompt", "sample", "token"])
def test_micro_batches_add_up_to_the_batch(
    name: str, aggregation: str, rollouts: Rollouts, micro_batch: Inputs
) -> None:
    config = load_run(name, overrides=[f"recipe.aggregation={aggregation}"]).config
    recipe = recipe_of(config)
    plan = recipe.plan(rollouts)
    inputs = micro_batch(rollouts, plan)
    whole = recipe.loss(inputs)
    (wanted,) = torch.autograd.grad(whole.loss, inputs.logprob_rt)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(5))  # rollouts of a group come apart
    parts = [recipe.loss(take(inputs, rows)) for rows in (order[:1], order[1:6], order[6:13], order[13:])]
    loss = torch.stack([part.loss for part in parts]).sum()
    (found,) = torch.autograd.grad(loss, inputs.logprob_rt)
    torch.testing.assert_close(loss, whole.loss)
    torch.testing.assert_close(found, wanted)
    stats = parts[0].stats
    for part in parts[1:]:
        stats = stats.merge(part.stats)
    assert stats.to_dict() == pytest.approx(whole.stats.to_dict())
    assert wanted.abs().max() > 0


@pytest.mark.parametrize("name", presets.names("recipe"))
def test_the_order_of_rollouts_does_not_matter(name: str, rollouts: Rollouts, micro_batch: Inputs) -> None:
    recipe = recipe_of(load_run(name).config)
    plan = recipe.plan(rollouts)
    inputs = micro_batch(rollouts, plan)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(9))
    mixed = recipe.plan(shuffled(rollouts, order))
    torch.testing.assert_close(mixed.advantage_r, plan.advantage_r[order])
    torch.testing.assert_close(mixed.weight_r, plan.weight_r[order])
    torch.testing.assert_close(recipe.loss(take(inputs, order)).loss, recipe.loss(inputs).loss)


def test_interruption_points_follow_the_window_of_the_scale() -> None:
    points = {recipe_of(BASE).interruption_point(seed) for seed in range(500)}
    assert points == set(range(32, 39))
    assert recipe_of(patch(BASE, {"recipe.length.kind": "none"})).interruption_point(1) is None


def test_a_curriculum_is_fresh_each_time() -> None:
    recipe = recipe_of(BASE)
    recipe.curriculum().record("problem", 16, 16)
    assert "problem" not in recipe.curriculum().left_out


def test_a_recipe_can_go_to_another_process(rollouts: Rollouts, micro_batch: Inputs) -> None:
    recipe = recipe_of(BASE)
    assert observe(pickle.loads(pickle.dumps(recipe)), rollouts, micro_batch) == observe(recipe, rollouts, micro_batch)
