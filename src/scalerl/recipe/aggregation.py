"""How the token terms of a batch are averaged.

Called by the batcher, once for a whole batch. In all three averages every token of a rollout has the same weight, so an
average is one number for each rollout. A micro-batch takes the numbers of its rollouts, and micro-batches add up to the
batch. Knows neither advantages nor losses.

    prompt   1 / (prompts x tokens of the group)      each prompt counts the same (ScaleRL, DAPO)
    sample   1 / (rollouts x tokens of the rollout)   each rollout counts the same (GRPO)
    token    1 / tokens of the batch                  each token counts the same

Only what is in the loss counts: a rollout without tokens (left out, or nothing but injected) has weight zero and is in
no denominator. A kept zero-variance group has tokens, so it counts, though its terms are zero.

Shapes: r = rollouts of the whole batch, g = groups.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["prompt", "sample", "token"]


def rollout_weights(aggregation: Aggregation, tokens_r: Tensor, group_r: Tensor) -> Tensor:
    """The weight of each token of each rollout; over all tokens of the batch the weights sum to one.

    `tokens_r` counts the tokens of a rollout that are in the loss (0 leaves it out), `group_r` names its prompt.
    """
    counts_r = tokens_r.double()
    present_r = counts_r > 0
    if not present_r.any():
        return torch.zeros_like(counts_r, dtype=torch.float32)
    if aggregation == "prompt":
        _, index_r = torch.unique(group_r, return_inverse=True)
        tokens_g = counts_r.new_zeros(int(index_r.max()) + 1).index_add(0, index_r, counts_r)
        denominator_r = (tokens_g > 0).sum() * tokens_g[index_r]
    elif aggregation == "sample":
        denominator_r = present_r.sum() * counts_r
    else:
        denominator_r = counts_r.sum().expand_as(counts_r)
    return torch.where(present_r, 1.0 / denominator_r.clamp(min=1.0), 0.0).float()
