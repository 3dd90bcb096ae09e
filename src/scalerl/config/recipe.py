"""The recipe: one value on each of several independent axes, and nothing about sizes or machines.

A named recipe is a TOML file of these values (`scalerl/presets/recipes`); leaving one ingredient out is a patch of one
key. Read by `scalerl.recipe.build_recipe`, which turns the values into functions, and by the pipeline.

Lengths are shares of the scale's token budgets, so that one recipe serves every scale: `RunConfig` resolves them.
Where the paper does not state a value, the field says that it is a choice of ours.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from scalerl.config.base import Count, Frozen, Name, NonNegative, Positive, Share, impossible


class Cispo(Frozen):
    """Truncated importance-sampling REINFORCE: sg(min(ratio, cap)) x advantage x log-prob."""

    surrogate: Literal["cispo"]
    """Which surrogate objective is maximised."""
    cap: Positive = 5.0
    """Absolute cap on the importance ratio. The paper: 4, 5 and 8 make no real difference; 5 is our pick."""


class PpoClip(Frozen):
    """min(ratio x advantage, clipped ratio x advantage) for each token, as in GRPO and DAPO."""

    surrogate: Literal["ppo_clip"]
    """Which surrogate objective is maximised."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """The ratio is clipped from below at 1 - clip_low."""
    clip_high: Positive = 0.2
    """The ratio is clipped from above at 1 + clip_high."""


class Gspo(Frozen):
    """As PPO-clip, with one ratio for the whole rollout: the geometric mean of its token ratios."""

    surrogate: Literal["gspo"]
    """Which surrogate objective is maximised."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 3e-3
    """The sequence ratio is clipped from below at 1 - clip_low; the scale of 1e-3 is what works."""
    clip_high: Positive = 4e-3
    """The sequence ratio is clipped from above at 1 + clip_high."""


class Reinforce(Frozen):
    """advantage x log-prob, without any correction for the age of the rollout."""

    surrogate: Literal["reinforce"]
    """Which surrogate objective is maximised."""


class Reward(Frozen):
    """What a verdict is worth. A rollout whose verifier failed has no reward at all."""

    correct: float
    """Reward of a correct answer."""
    wrong: float
    """Reward of a wrong or unparsable answer."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.correct <= self.wrong:
            raise impossible("correct", self.correct, f"more than reward.wrong, {self.wrong:g}", "wrong")
        return self


class Advantage(Frozen):
    """Rewards are always centred on the mean of their group; this says what they are divided by."""

    normalisation: Literal["batch", "prompt", "none"]
    """Standard deviation over the batch (ScaleRL), over the own group (GRPO), or no division (Dr. GRPO)."""
    std_over: Literal["kept", "all"] = "kept"
    """Which rollouts the batch deviation is taken over: those that stay in the loss, or all before filtering.
    Not stated in the paper; `kept` makes the size of an update independent of the share of dropped groups."""


class UniformCurriculum(Frozen):
    """Every problem comes once an epoch, for ever."""

    kind: Literal["uniform"]
    """Which problems later epochs contain."""


class NoPositiveCurriculum(Frozen):
    """A problem that is solved often enough is removed for good (No-Positive-Resampling)."""

    kind: Literal["no_positive"]
    """Which problems later epochs contain."""
    threshold: Share = 0.9
    """A problem is removed once its historical pass rate is at least this."""
    min_history: Count = 1
    """Scored rollouts of a problem before it can be removed (a choice of ours)."""
    history: Literal["latest", "mean"] = "latest"
    """Pass rate of the problem's latest group, or over all its rollouts so far. Not stated in the paper."""


class Interruption(Frozen):
    """Thinking is stopped at a random point of a window, a phrase is appended, and the policy answers."""

    kind: Literal["interruption"]
    """How the length of rollouts is controlled."""
    low_share: Share = 0.8333
    """Start of the window, as a share of the scale's thinking budget."""
    high_share: Share = 1.0
    """End of the window (inclusive), as a share of the scale's thinking budget."""
    phrase: Name = "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"
    """Text that is appended; its tokens are marked as injected and never enter the loss.
    A scale whose vocabulary cannot write it replaces it (`scale.tokens.interruption_phrase`)."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_share > self.high_share:
            raise impossible("low_share", self.low_share, f"at most high_share, {self.high_share:g}", "high_share")
        return self


class LengthPenalty(Frozen):
    """clip((max - tokens) / cache - 1, -1, 0) is added to the reward of correct rollouts."""

    kind: Literal["penalty"]
    """How the length of rollouts is controlled."""
    max_share: Share = 1.0
    """The length at which the penalty reaches -1, as a share of the response budget (thinking and answer)."""
    cache_share: Share = 0.142857
    """The stretch before it over which the penalty grows, as a share of the response budget."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.cache_share > self.max_share:
            raise impossible("cache_share", self.cache_share, f"at most max_share, {self.max_share:g}", "max_share")
        return self


class NoLengthControl(Frozen):
    """Rollouts run until they end or the budget cuts them off."""

    kind: Literal["none"]
    """How the length of rollouts is controlled."""


class Precision(Frozen):
    """Where logits are computed in float32, whatever the dtype of the weights (that is `scale.model.dtype`)."""

    fp32_head_trainer: bool
    """Compute the trainer's LM head in float32."""
    fp32_head_generator: bool
    """Compute the generator's LM head in float32. One side alone helps only partly."""


class Pipeline(Frozen):
    """PipelineRL-k: generation never stops; new weights are swapped in while rollouts are under way."""

    kind: Literal["pipeline"]
    """How generation and training overlap."""
    k: Annotated[int, Field(ge=0)] = 8
    """The trainer is at most this many steps ahead of the policy that wrote a token; 0 equals `sync`."""


class PpoOffPolicy(Frozen):
    """PPO-off-policy-k: k batches are generated with one policy, then k updates are made."""

    kind: Literal["ppo_off_policy"]
    """How generation and training overlap."""
    k: Count = 8
    """Batches generated with one policy; 1 is on-policy."""


class Sync(Frozen):
    """Generate one batch, train on it, and so on."""

    kind: Literal["sync"]
    """How generation and training overlap."""


Loss = Cispo | PpoClip | Gspo | Reinforce
Curriculum = UniformCurriculum | NoPositiveCurriculum
LengthControl = Interruption | LengthPenalty | NoLengthControl
Asynchrony = Pipeline | PpoOffPolicy | Sync


class RecipeConfig(Frozen):
    """A whole recipe. Every axis must be given; parameters of an axis have vetted defaults."""

    loss: Annotated[Loss, Field(discriminator="surrogate")]
    """The surrogate objective and its parameters."""
    kl_coefficient: NonNegative = 0.0
    """Weight of the KL divergence from the starting policy; 0 (the paper) needs no reference model."""
    reward: Reward
    """What a verdict is worth."""
    aggregation: Literal["prompt", "sample", "token"]
    """How token terms are averaged: over all tokens of a prompt's group and then over prompts; over each rollout
    and then over rollouts; or over all tokens of the batch."""
    advantage: Advantage
    """How rewards become advantages."""
    zero_variance: Literal["drop", "keep"]
    """Groups whose answers are all correct or all wrong: leave them out without refill, or let them count."""
    curriculum: Annotated[Curriculum, Field(discriminator="kind")]
    """Which problems later epochs contain."""
    length: Annotated[LengthControl, Field(discriminator="kind")]
    """How the length of rollouts is controlled."""
    truncated: Literal["keep", "mask"]
    """Rollouts cut off by the token budget: train on them, or leave them out of the loss."""
    precision: Precision
    """Where logits are computed in float32."""
    asynchrony: Annotated[Asynchrony, Field(discriminator="kind")]
    """How generation and training overlap."""
