"""A run: one recipe at one scale with one seed, the checks that need both, and lengths resolved into tokens.

This is what `config.json` of a run directory holds and what every worker receives. Built by `load`; knows no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from scalerl.config.base import Frozen, impossible
from scalerl.config.recipe import Interruption, LengthControl, LengthPenalty, RecipeConfig
from scalerl.config.scale import ScaleConfig, Tokens


@dataclass(frozen=True)
class InterruptionWindow:
    """Forced interruption at one scale."""

    low_tokens: int
    """Earliest interruption: thinking tokens written before the phrase is injected."""
    high_tokens: int
    """Latest interruption, inclusive."""
    phrase: str
    """Text that is injected."""


@dataclass(frozen=True)
class PenaltyRange:
    """The length penalty at one scale: zero up to max_tokens - cache_tokens, -1 from max_tokens on."""

    max_tokens: int
    cache_tokens: int


LengthLimits = InterruptionWindow | PenaltyRange | None


def resolve_length(length: LengthControl, tokens: Tokens) -> LengthLimits:
    """Shares of the budgets as tokens, rounded to the nearest; None where nothing controls the length."""
    if isinstance(length, Interruption):
        return InterruptionWindow(
            low_tokens=round(length.low_share * tokens.thinking),
            high_tokens=round(length.high_share * tokens.thinking),
            phrase=tokens.interruption_phrase or length.phrase,
        )
    if isinstance(length, LengthPenalty):
        return PenaltyRange(
            max_tokens=round(length.max_share * tokens.response),
            cache_tokens=round(length.cache_share * tokens.response),
        )
    return None


class RunConfig(Frozen):
    """Everything that decides what a run computes."""

    recipe: RecipeConfig
    """The algorithm."""
    scale: ScaleConfig
    """Sizes, task and machine."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of everything random: problems, sampling, interruptions, initial weights."""

    @property
    def length(self) -> LengthLimits:
        """The length control of the recipe in tokens of this scale."""
        return resolve_length(self.recipe.length, self.scale.tokens)

    @model_validator(mode="after")
    def _thinking_can_be_interrupted(self) -> Self:
        if isinstance(self.recipe.length, Interruption) and not getattr(self.scale.task, "thinking", True):
            allowed = "penalty or none, because the policy does not think (scale.task.thinking)"
            raise impossible("recipe.length.kind", "interruption", allowed, "scale.task.thinking")
        return self

    @model_validator(mode="after")
    def _length_fits(self) -> Self:
        """A share of a small budget can round to nothing."""
        length, limits, tokens = self.recipe.length, self.length, self.scale.tokens
        if isinstance(length, Interruption) and isinstance(limits, InterruptionWindow) and limits.low_tokens < 1:
            allowed = _at_least_one("scale.tokens.thinking", tokens.thinking)
            raise impossible("recipe.length.low_share", length.low_share, allowed, "scale.tokens.thinking")
        if isinstance(length, LengthPenalty) and isinstance(limits, PenaltyRange) and limits.cache_tokens < 1:
            allowed = _at_least_one("scale.tokens.thinking + scale.tokens.answer", tokens.response)
            raise impossible("recipe.length.cache_share", length.cache_share, allowed, "scale.tokens")
        return self


def _at_least_one(budget: str, tokens: int) -> str:
    return f"a share that leaves at least one token of {budget}, {tokens}"
