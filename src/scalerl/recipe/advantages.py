"""From verdicts to rewards to advantages. Pure functions for the batcher.

    advantage = reward - mean reward of its group, then divided by
      batch    the standard deviation of the advantages of the batch
      prompt   the standard deviation of the rewards of the group
      none     nothing

Choices of ours where the paper is silent: deviations divide by n, not n - 1; a deviation of zero (all advantages equal)
gives advantages of zero, not an error and not a division by a small constant; a rollout that is masked for being
truncated still counts in the mean and deviation of its group, because it is what the policy did; whether the batch
deviation sees the rollouts that filters left out is an option (`std_over`).

Shapes: r = rollouts of the whole batch.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from scalerl.recipe.groups import group_mean

ZERO_STD = 1e-6
"""A deviation below this is rounding error, not a spread of rewards."""


def rewards(correct_r: Tensor, correct: float, wrong: float, penalty_r: Tensor | None = None) -> Tensor:
    """`correct` or `wrong` for each rollout; the length penalty goes to correct rollouts only."""
    reward_r = torch.where(correct_r, float(correct), float(wrong))
    return reward_r if penalty_r is None else reward_r + torch.where(correct_r, penalty_r, 0.0)


def advantages(
    normalisation: Literal["batch", "prompt", "none"],
    *,
    reward_r: Tensor,
    scored_r: Tensor,
    group_r: Tensor,
    spread_r: Tensor,
) -> Tensor:
    """Advantages of all rollouts; 0 for those that were not scored.

    `spread_r` says over which rollouts the batch deviation is taken.
    """
    values_r = reward_r.double()
    centred_r = torch.where(scored_r, values_r - group_mean(values_r, scored_r, group_r), 0.0)
    if normalisation == "none":
        return centred_r.float()
    if normalisation == "prompt":
        std_r = _exact_sqrt(group_mean(centred_r.square(), scored_r, group_r))
    else:
        std_r = _std(centred_r[spread_r & scored_r]).expand_as(centred_r)
    return torch.where(std_r > ZERO_STD, centred_r / std_r.clamp(min=ZERO_STD), 0.0).float()


def _exact_sqrt(values_r: Tensor) -> Tensor:
    """torch takes MKL's root on a CPU, which is off by a digit now and then, on other values on other processors."""
    return torch.tensor([math.sqrt(value) for value in values_r.tolist()], dtype=values_r.dtype, device=values_r.device)


def _std(values: Tensor) -> Tensor:
    return values.std(correction=0) if values.numel() else values.new_zeros(())
