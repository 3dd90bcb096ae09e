"""A batch dealt out to the ranks that train on it.

Called by the trainer on rank 0, once a step. The plan was made over the whole batch, so what a rank gets has the
denominators of the whole batch inside, and the gradients of all ranks add up to those of one rank. Which group goes
where depends on the batch alone: the longest group left over goes to the rank with the fewest tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from scalerl.pipeline.batch import Batch, make_batch
from scalerl.pipeline.microbatches import input_length
from scalerl.recipe import Plan


@dataclass(frozen=True)
class Share:
    """What one rank trains on."""

    batch: Batch
    plan: Plan


def deal(batch: Batch, plan: Plan, num_ranks: int) -> list[Share]:
    """A share for each rank, perhaps an empty one. Groups with nothing in the loss go nowhere, unless there is one rank
    only: it keeps the batch as it is."""
    if num_ranks == 1:
        return [Share(batch, plan)]
    tokens_g = [0] * len(batch.groups)
    for row in plan.in_loss_r.nonzero().squeeze(1).tolist():
        tokens_g[int(batch.rollouts.group_r[row])] += input_length(batch, row)
    return [_share(batch, plan, chosen) for chosen in balance(tokens_g, num_ranks)]


def balance(sizes: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Indices of each rank, in their order; sizes of 0 are left out."""
    loads = [0] * num_ranks
    hands: list[list[int]] = [[] for _ in range(num_ranks)]
    for i in sorted((i for i, size in enumerate(sizes) if size), key=lambda i: (-sizes[i], i)):
        rank = loads.index(min(loads))
        loads[rank] += sizes[i]
        hands[rank].append(i)
    return [sorted(hand) for hand in hands]


def _share(batch: Batch, plan: Plan, chosen: Sequence[int]) -> Share:
    kept = set(chosen)
    rows = torch.tensor([r for r, g in enumerate(batch.rollouts.group_r.tolist()) if g in kept], dtype=torch.long)
    part = replace(
        plan,
        reward_r=plan.reward_r[rows],
        advantage_r=plan.advantage_r[rows],
        weight_r=plan.weight_r[rows],
        in_loss_r=plan.in_loss_r[rows],
    )
    return Share(make_batch([batch.groups[g] for g in chosen]), part)
