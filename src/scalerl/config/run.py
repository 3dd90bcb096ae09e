"""A run: one recipe at one scale with one seed, the checks that need both, and lengths resolved into tokens.

This is what `config.json` of a run directory holds and what every worker receives. Built by `load`; knows no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from scalerl.config.base import Frozen, impossible
from scalerl.config.downstream import changed_task, refuse_trained, refuse_trained_parts
from scalerl.config.recipe import Interruption, LengthControl, LengthPenalty, RecipeConfig
from scalerl.config.scale import ScaleConfig, Tokens
from scalerl.config.task import SingleTask


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

    @property
    def uses_bfloat16(self) -> bool:
        """Whether anything is multiplied in bfloat16: weights, or the trainer's mixed precision."""
        return self.scale.model.dtype == "bfloat16" or self.scale.trainer.mixed_precision

    @model_validator(mode="after")
    def _thinking_can_be_interrupted(self) -> Self:
        if isinstance(self.recipe.length, Interruption) and not getattr(self.scale.task, "thinking", True):
            allowed = "penalty or none, because the policy does not think (scale.task.thinking)"
            raise impossible("recipe.length.kind", "interruption", allowed, "scale.task.thinking")
        return self

    @model_validator(mode="after")
    def _length_fits(self) -> Self:
        _check_length(self.recipe.length, self.scale.tokens, "scale.tokens")
        return self

    @model_validator(mode="after")
    def _nothing_held_out_is_trained_on(self) -> Self:
        refuse_trained_parts(self.scale.task)
        return self

    @model_validator(mode="after")
    def _downstream_sets_work(self) -> Self:
        for name in self.scale.evaluation.downstream:
            run = self.downstream(name)
            refuse_trained(self.scale.task, self.set_task(name), f"{set_key(name)}.task")
            _check_length(self.recipe.length, run.scale.tokens, f"{set_key(name)}.tokens")
        return self

    def downstream(self, name: str) -> Self:
        """This run, with the task and the sizes of one of its downstream sets in the place of its own: whatever
        measures the one measures the other."""
        scale, found = self.scale, self.scale.evaluation.downstream[name]
        own = {"problems": found.problems, "samples": found.samples, "temperature": found.temperature}
        update: dict[str, Any] = {key: value for key, value in own.items() if value} | {"downstream": {}}
        if found.whole:
            update["problems"] = found.problems  # 0: all of them
        evaluation = scale.evaluation.model_copy(update=update)
        task, tokens = self.set_task(name), scale.set_tokens(name)
        changed = scale.model_copy(update={"task": task, "tokens": tokens, "evaluation": evaluation})
        return self.model_copy(update={"scale": changed})

    def set_task(self, name: str) -> SingleTask:
        """The task of one of the downstream sets."""
        found = self.scale.evaluation.downstream[name]
        return changed_task(self.scale.task, found.task, f"{set_key(name)}.task", whole=found.whole)


def set_key(name: str) -> str:
    """The dotted key of a downstream set."""
    return f"scale.evaluation.downstream.{name}"


def _check_length(length: LengthControl, tokens: Tokens, key: str) -> None:
    """A share of a small budget can round to nothing. `key`: of the budgets."""
    limits = resolve_length(length, tokens)
    if isinstance(length, Interruption) and isinstance(limits, InterruptionWindow) and limits.low_tokens < 1:
        allowed = _at_least_one(f"{key}.thinking", tokens.thinking)
        raise impossible("recipe.length.low_share", length.low_share, allowed, f"{key}.thinking")
    if isinstance(length, LengthPenalty) and isinstance(limits, PenaltyRange) and limits.cache_tokens < 1:
        allowed = _at_least_one(f"{key}.thinking + {key}.answer", tokens.response)
        raise impossible("recipe.length.cache_share", length.cache_share, allowed, key)


def _at_least_one(budget: str, tokens: int) -> str:
    return f"a share that leaves at least one token of {budget}, {tokens}"
