"""Log-probs and entropy of tokens, from logits. Always in float32, always at the sampling temperature.

Used by the trainer and by the generator, so that both sides of the ratio are computed by the same lines.

Shapes: any leading dimensions `...`, v = vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_logprobs(logits_v: Tensor, token: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """Log-prob of each token: logits [..., v] and token ids [...] give [...]; one temperature for all, or [..., 1]."""
    scaled_v = logits_v.float() / temperature
    chosen = scaled_v.gather(-1, token.unsqueeze(-1)).squeeze(-1)
    return chosen - scaled_v.logsumexp(-1)


def logprobs_and_entropy(logits_v: Tensor, token: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """As `token_logprobs`, and the entropy of the distribution in nats, without gradient."""
    scaled_v = logits_v.float() / temperature
    chosen = scaled_v.gather(-1, token.unsqueeze(-1)).squeeze(-1)
    logsumexp = scaled_v.logsumexp(-1)
    with torch.no_grad():
        # H = log Z - E[logit]; a token of probability zero has the logit -inf and adds nothing.
        probability_v = (scaled_v - logsumexp.unsqueeze(-1)).exp()
        expected = torch.where(probability_v > 0, probability_v * scaled_v, 0.0).sum(-1)
        entropy = logsumexp - expected
    return chosen - logsumexp, entropy
