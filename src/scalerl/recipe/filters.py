"""Which rollouts stay in the loss. Pure functions for the batcher.

Zero variance is judged by correctness, as the paper's objective does (0 < mean accuracy < 1), not by rewards: with a
length penalty the rewards of an all-correct group differ, but it still says nothing about how to be right. A rollout
that was not scored (its verifier failed) is neither right nor wrong: it has no say, and it is never in the loss.

Shapes: r = rollouts of the whole batch.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from scalerl.recipe.groups import group_mean


def mixed_groups(correct_r: Tensor, scored_r: Tensor, group_r: Tensor) -> Tensor:
    """True for the rollouts of groups that have both a correct and a wrong scored rollout."""
    accuracy_r = group_mean(correct_r.double(), scored_r, group_r)
    return (accuracy_r > 0) & (accuracy_r < 1)


def in_loss(
    zero_variance: Literal["drop", "keep"],
    truncated: Literal["keep", "mask"],
    *,
    correct_r: Tensor,
    scored_r: Tensor,
    truncated_r: Tensor,
    group_r: Tensor,
) -> Tensor:
    """True for the rollouts that the loss sees."""
    stays_r = scored_r.clone()
    if zero_variance == "drop":
        stays_r &= mixed_groups(correct_r, scored_r, group_r)
    if truncated == "mask":
        stays_r &= ~truncated_r
    return stays_r
