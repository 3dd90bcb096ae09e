"""Sums and means over the rollouts of one prompt, for tensors with one row for each rollout.

Used by `advantages` and `filters`. Groups may have any number and order of rows and any integer as their name.

Shapes: r = rollouts of the whole batch, g = groups.
"""

from __future__ import annotations

import torch
from torch import Tensor


def group_mean(values_r: Tensor, member_r: Tensor, group_r: Tensor) -> Tensor:
    """For each rollout the mean over the members of its group; 0 where the group has no member."""
    index_r = torch.unique(group_r, return_inverse=True)[1]
    num_groups = int(index_r.max()) + 1 if index_r.numel() else 0
    chosen_r = torch.where(member_r, values_r, 0.0)
    sum_g = chosen_r.new_zeros(num_groups).index_add(0, index_r, chosen_r)
    count_g = chosen_r.new_zeros(num_groups).index_add(0, index_r, member_r.to(chosen_r.dtype))
    return (sum_g / count_g.clamp(min=1.0))[index_r]


def num_groups(member_r: Tensor, group_r: Tensor) -> int:
    """Groups with at least one member."""
    return int(torch.unique(group_r[member_r]).numel())
