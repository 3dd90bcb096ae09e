"""Small batches that the recipe's tests share.

Shapes: r = rollouts, t = token positions.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from scalerl.recipe import LossInputs, Plan, Rollouts

MakeRow = Callable[..., LossInputs]
MakeInputs = Callable[[Rollouts, Plan], LossInputs]


@pytest.fixture
def three_tokens() -> MakeRow:
    """One rollout of three tokens with ratios 1/2, 2 and 8, weight 1/3 each: the case of every hand computation.

    trainer probabilities 0.25 0.5 0.8, generator probabilities 0.5 0.25 0.1
    """

    def make(advantage: float = 2.0, reference: list[float] | None = None) -> LossInputs:
        return LossInputs(
            logprob_rt=torch.tensor([[0.25, 0.5, 0.8]]).log().requires_grad_(),
            generator_logprob_rt=torch.tensor([[0.5, 0.25, 0.1]]).log(),
            mask_rt=torch.ones(1, 3, dtype=torch.bool),
            advantage_r=torch.tensor([advantage]),
            weight_r=torch.tensor([1 / 3]),
            reference_logprob_rt=None if reference is None else torch.tensor([reference]).log(),
        )

    return make


@pytest.fixture
def rollouts() -> Rollouts:
    """Four prompts with four rollouts each, uneven lengths: one all wrong, one all correct, two mixed.

    In group 0 one rollout is truncated, in group 1 one was not scored.
    """
    lengths = [5, 9, 3, 12, 4, 4, 8, 2, 7, 7, 1, 6, 3, 11, 10, 5]
    return Rollouts(
        group_r=torch.arange(4).repeat_interleave(4),
        correct_r=torch.tensor([1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1], dtype=torch.bool),
        scored_r=torch.tensor([1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1], dtype=torch.bool),
        truncated_r=torch.tensor([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], dtype=torch.bool),
        length_r=torch.tensor(lengths),
        own_tokens_r=torch.tensor(lengths),
    )


@pytest.fixture
def micro_batch() -> MakeInputs:
    """Random log-probs for a whole batch, right-padded, with NaN in the padding."""
    return make_inputs


def make_inputs(batch: Rollouts, plan: Plan) -> LossInputs:
    generator = torch.Generator().manual_seed(0)
    rows, width = len(batch.length_r), int(batch.length_r.max())
    mask_rt = torch.arange(width) < batch.own_tokens_r[:, None]
    logprob_rt = -torch.rand(rows, width, generator=generator) * 2
    sampled_rt = logprob_rt + torch.randn(rows, width, generator=generator) * 0.3
    return LossInputs(
        logprob_rt=torch.where(mask_rt, logprob_rt, torch.nan).requires_grad_(),
        generator_logprob_rt=torch.where(mask_rt, sampled_rt, torch.nan),
        mask_rt=mask_rt,
        advantage_r=plan.advantage_r,
        weight_r=plan.weight_r,
        entropy_rt=torch.where(mask_rt, -logprob_rt.detach(), torch.nan),
    )
