"""A batch of groups as the recipe and the trainer see it: flat rows, and what can be said of it without a model.

Used by the trainer, once a step. Knows neither models nor losses.

Shapes: r = rollouts of the batch, in the order of their groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalerl.errors import TrainingError
from scalerl.pipeline.types import Group, Rollout
from scalerl.recipe import Plan, Rollouts

Values = dict[str, float | int | None]
"""What goes into metrics.jsonl: plain numbers, None where there is nothing to say."""


@dataclass(frozen=True)
class Batch:
    """The rollouts of all groups, one after the other."""

    groups: tuple[Group, ...]
    prompt_ids_r: tuple[tuple[int, ...], ...]
    rollout_r: tuple[Rollout, ...]
    rollouts: Rollouts
    """What the recipe needs to know of them."""


def make_batch(groups: Sequence[Group]) -> Batch:
    """Two groups of one problem stay two groups: each has its own mean."""
    rows = [(number, group, i) for number, group in enumerate(groups) for i in range(len(group.rollouts))]
    rollout_r = tuple(group.rollouts[i] for _, group, i in rows)
    view = Rollouts(
        group_r=torch.tensor([number for number, _, _ in rows]),
        correct_r=_flags(group.verdicts[i].correct for _, group, i in rows),
        scored_r=_flags(group.verdicts[i].judged for _, group, i in rows),
        truncated_r=_flags(rollout.truncated for rollout in rollout_r),
        length_r=torch.tensor([len(rollout) for rollout in rollout_r]),
        own_tokens_r=torch.tensor([int(rollout.own.sum()) for rollout in rollout_r]),
    )
    return Batch(tuple(groups), tuple(group.request.prompt_ids for _, group, _ in rows), rollout_r, view)


def token_ages(batch: Batch, version: int, max_age: int) -> NDArray[np.int64]:
    """The age of every token that a policy wrote. Beyond the bound is an error: the schedule promises it."""
    ages = version - np.concatenate([rollout.versions[rollout.own] for rollout in batch.rollout_r]).astype(np.int64)
    if ages.size and (ages.max() > max_age or ages.min() < 0):
        worst = ages.max() if ages.max() > max_age else ages.min()
        raise TrainingError(f"step {version + 1}: a token of age {worst}, but ages are 0 to {max_age} here")
    return ages


def describe_batch(batch: Batch, plan: Plan, ages: NDArray[np.int64]) -> Values:
    """Everything about the rollouts themselves, whether they are in the loss or not."""
    view = batch.rollouts
    judged = int(view.scored_r.sum())
    own_tokens = ages.size
    return {
        "pass_rate": _mean((view.correct_r & view.scored_r).sum(), judged),
        "reward": _mean(torch.where(view.scored_r, plan.reward_r, 0.0).double().sum(), judged),
        "effective_prompts": plan.num_prompts,
        "effective_rollouts": plan.num_rollouts,
        "zero_variance_groups": sum(group.num_correct in {0, group.num_judged} for group in batch.groups),
        "unjudged_rollouts": len(batch.rollout_r) - judged,
        "truncation_rate": _mean(view.truncated_r.sum(), len(batch.rollout_r)),
        "interruption_rate": _mean(sum(rollout.interrupted for rollout in batch.rollout_r), len(batch.rollout_r)),
        "mean_length": _mean(view.length_r.sum(), len(batch.rollout_r)),
        "max_length": int(view.length_r.max()),
        "age_mean": _mean(int(ages.sum()), own_tokens),
        "age_max": int(ages.max()) if own_tokens else None,
    }


def group_numbers(groups: Iterable[Group]) -> str:
    """`0-15,18`: the admissions of a batch are a few runs of numbers."""
    runs: list[list[int]] = []
    for index in sorted(group.request.index for group in groups):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _flags(values: Iterable[bool]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.bool)


def _mean(total: Tensor | int, count: int) -> float | None:
    return float(total) / count if count else None
