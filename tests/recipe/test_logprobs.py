"""Log-probs and entropy against torch's own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from scalerl.recipe import logprobs_and_entropy, token_logprobs

LOGITS = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
TOKENS = torch.tensor([[0, 4, 2], [1, 1, 3]])


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_against_torch(temperature: float) -> None:
    wanted: Any = torch.distributions.Categorical(logits=LOGITS / temperature)
    torch.testing.assert_close(token_logprobs(LOGITS, TOKENS, temperature), wanted.log_prob(TOKENS))
    logprob, entropy = logprobs_and_entropy(LOGITS, TOKENS, temperature)
    torch.testing.assert_close(logprob, wanted.log_prob(TOKENS))
    torch.testing.assert_close(entropy, wanted.entropy())


def test_by_hand() -> None:
    # probabilities 1/2, 1/4, 1/4: entropy = 1/2 ln 2 + 2 x 1/4 ln 4 = 3/2 ln 2
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    logprob, entropy = logprobs_and_entropy(logits, torch.tensor([1]))
    assert logprob.item() == pytest.approx(math.log(1 / 4))
    assert entropy.item() == pytest.approx(1.5 * math.log(2))


def test_a_forbidden_token_adds_nothing_to_the_entropy() -> None:
    logits = torch.tensor([[0.0, 0.0, -torch.inf]])
    _, entropy = logprobs_and_entropy(logits, torch.tensor([0]))
    assert entropy.item() == pytest.approx(math.log(2))


def test_bfloat16_logits_are_summed_in_float32_and_only_log_probs_carry_a_gradient() -> None:
    logits = LOGITS.bfloat16().requires_grad_()
    logprob, entropy = logprobs_and_entropy(logits, TOKENS)
    assert logprob.dtype == torch.float32
    assert logprob.requires_grad
    assert not entropy.requires_grad
    torch.testing.assert_close(logprob, token_logprobs(logits.float(), TOKENS))
