"""`Recipe`: the functions that a config chose, behind a small surface that the pipeline calls.

The generator asks for `interruption_point`, the batcher for `plan`, the trainer for `loss`, the data source for a fresh
`curriculum`. None of them knows which algorithm it runs.

Shapes: r = rollouts of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from scalerl.config import InterruptionWindow, LengthLimits, PenaltyRange, RecipeConfig, RunConfig, resolve_length
from scalerl.config.scale import Tokens
from scalerl.recipe.advantages import advantages, rewards
from scalerl.recipe.aggregation import rollout_weights
from scalerl.recipe.curriculum import Curriculum, build_curriculum
from scalerl.recipe.filters import in_loss
from scalerl.recipe.groups import num_groups
from scalerl.recipe.inputs import Loss
from scalerl.recipe.length import interruption_point, length_penalty
from scalerl.recipe.losses import build_loss


@dataclass(frozen=True)
class Rollouts:
    """A whole batch as the recipe sees it: one row for each rollout, in any order."""

    group_r: Tensor
    """Integer that is equal for the rollouts of one prompt."""
    correct_r: Tensor
    """True for a correct answer; anything where the rollout was not scored."""
    scored_r: Tensor
    """False where the verifier failed: there is no reward then."""
    truncated_r: Tensor
    """True where the token budget cut the rollout off."""
    length_r: Tensor
    """Tokens of the response, injected ones included."""
    own_tokens_r: Tensor
    """Tokens that the policy chose itself: those inside the loss mask."""


@dataclass(frozen=True)
class Plan:
    """What the trainer needs to know of each rollout, with the denominators of the whole batch inside `weight_r`."""

    reward_r: Tensor
    advantage_r: Tensor
    weight_r: Tensor
    """Weight of each token; 0 for a rollout that is not in the loss."""
    in_loss_r: Tensor
    """The rollouts worth a forward pass."""
    num_prompts: int
    """Effective batch: prompts with a rollout in the loss. With 0 there is nothing to train on."""
    num_rollouts: int
    """Rollouts in the loss."""


@dataclass(frozen=True)
class Recipe:
    """A recipe at one scale, as functions."""

    config: RecipeConfig
    length: LengthLimits
    loss: Loss
    """The loss of one micro-batch; micro-batches add up."""
    curriculum: Callable[[], Curriculum]
    """A fresh curriculum, without any history."""

    def plan(self, batch: Rollouts) -> Plan:
        """Rewards, filters, advantages and weights of a whole batch."""
        reward_r = self._rewards(batch)
        in_loss_r = in_loss(
            self.config.zero_variance, self.config.truncated,
            correct_r=batch.correct_r, scored_r=batch.scored_r, truncated_r=batch.truncated_r, group_r=batch.group_r,
        )  # fmt: skip
        in_loss_r &= batch.own_tokens_r > 0
        advantage = self.config.advantage
        advantage_r = advantages(
            advantage.normalisation,
            reward_r=reward_r,
            scored_r=batch.scored_r,
            group_r=batch.group_r,
            spread_r=in_loss_r if advantage.std_over == "kept" else batch.scored_r,
        )
        weight_r = rollout_weights(self.config.aggregation, batch.own_tokens_r * in_loss_r, batch.group_r)
        prompts, rollouts = num_groups(in_loss_r, batch.group_r), int(in_loss_r.sum())
        return Plan(reward_r, advantage_r, weight_r, in_loss_r, prompts, rollouts)

    def interruption_point(self, seed: int) -> int | None:
        """Thinking tokens after which the rollout with this seed is interrupted; None: never."""
        if not isinstance(self.length, InterruptionWindow):
            return None
        return interruption_point(self.length.low_tokens, self.length.high_tokens, seed)

    def _rewards(self, batch: Rollouts) -> Tensor:
        reward, limits = self.config.reward, self.length
        penalty_r = None
        if isinstance(limits, PenaltyRange):
            penalty_r = length_penalty(batch.length_r, limits.max_tokens, limits.cache_tokens)
        return rewards(batch.correct_r, reward.correct, reward.wrong, penalty_r)


def build_recipe(config: RecipeConfig, tokens: Tokens) -> Recipe:
    """The functions of a recipe; `tokens` turns its shares into lengths."""
    return Recipe(
        config=config,
        length=resolve_length(config.length, tokens),
        loss=build_loss(config.loss, config.kl_coefficient),
        curriculum=partial(build_curriculum, config.curriculum),
    )


def recipe_of(run: RunConfig) -> Recipe:
    """The recipe of a run at its scale."""
    return build_recipe(run.recipe, run.scale.tokens)
