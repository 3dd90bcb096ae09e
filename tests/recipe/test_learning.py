"""The sign test: with every preset a toy policy learns what is rewarded, also from rollouts of an older policy.

Shapes: r = rollouts, t = token positions, v = vocabulary.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from scalerl import presets
from scalerl.config import load_run
from scalerl.recipe import LossInputs, Recipe, Rollouts, logprobs_and_entropy, recipe_of

PROMPTS, ROLLOUTS, LENGTH, VOCABULARY = 8, 8, 3, 4
ROWS = PROMPTS * ROLLOUTS


def step(recipe: Recipe, logits_tv: Tensor, old_tv: Tensor, generator: torch.Generator) -> Tensor:
    """The gradient of one batch that the policy `old` wrote; a rollout is correct if it starts with token 0."""
    sampled_rt = torch.multinomial(old_tv.softmax(-1), ROWS, replacement=True, generator=generator).T
    every = torch.ones(ROWS, dtype=torch.bool)
    lengths_r = torch.full((ROWS,), LENGTH)
    plan = recipe.plan(
        Rollouts(
            group_r=torch.arange(PROMPTS).repeat_interleave(ROLLOUTS),
            correct_r=sampled_rt[:, 0] == 0,
            scored_r=every,
            truncated_r=~every,
            length_r=lengths_r,
            own_tokens_r=lengths_r,
        )
    )
    logprob_rt, entropy_rt = logprobs_and_entropy(logits_tv.expand(ROWS, -1, -1), sampled_rt)
    old_rt, _ = logprobs_and_entropy(old_tv.expand(ROWS, -1, -1), sampled_rt)
    outputs = recipe.loss(
        LossInputs(
            logprob_rt=logprob_rt,
            generator_logprob_rt=old_rt,
            mask_rt=every[:, None].expand(-1, LENGTH),
            advantage_r=plan.advantage_r,
            weight_r=plan.weight_r,
            entropy_rt=entropy_rt,
        )
    )
    return torch.autograd.grad(outputs.loss, logits_tv)[0]


@pytest.mark.parametrize("name", presets.names("recipe"))
def test_a_toy_policy_learns(name: str) -> None:
    recipe = recipe_of(load_run(name).config)
    generator = torch.Generator().manual_seed(0)
    logits_tv = torch.zeros(LENGTH, VOCABULARY, requires_grad=True)
    old_tv = logits_tv.detach().clone()
    for number in range(60):
        if number % 2 == 0:  # rollouts are one step old at most
            old_tv = logits_tv.detach().clone()
        gradient_tv = step(recipe, logits_tv, old_tv, generator)
        # a step of fixed length, so that recipes whose gradients differ in size are compared alike
        update_tv = 0.2 * gradient_tv / gradient_tv.norm().clamp(min=1e-8)
        logits_tv = (logits_tv.detach() - update_tv).requires_grad_()
    assert logits_tv.softmax(-1)[0, 0] > 0.9  # from 0.25
