"""What goes into a loss and what comes out: one signature for every algorithm, so that the trainer knows none of them.

Used by `losses`, filled by the trainer, one micro-batch at a time. A micro-batch is any set of whole rollouts of a
batch; the weights carry the denominators of the whole batch, so that losses and gradients of micro-batches add up.

Shapes: r = rollouts of the micro-batch (rows), t = token positions of the response, padded on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossInputs:
    """One micro-batch. Values at positions outside the mask are ignored, whatever they are (NaN included)."""

    logprob_rt: Tensor
    """Log-prob of each token under the policy in training; carries the gradient."""
    generator_logprob_rt: Tensor
    """Log-prob of each token under the generator when it sampled it: the denominator of the ratio."""
    mask_rt: Tensor
    """True where the policy chose the token: not padding, not an injected interruption phrase."""
    advantage_r: Tensor
    """Advantage of each rollout."""
    weight_r: Tensor
    """Weight of each token of a rollout in the whole batch (`aggregation.rollout_weights`); zero leaves it out."""
    reference_logprob_rt: Tensor | None = None
    """Log-prob under the reference policy; needed only for a KL term."""
    entropy_rt: Tensor | None = None
    """Entropy of the policy at each position (`logprobs.logprobs_and_entropy`); only reported."""


@dataclass(frozen=True)
class LossStats:
    """Sums over the tokens of one or several micro-batches. Sums can be merged; means cannot."""

    tokens: Tensor
    """Tokens in the loss: inside the mask, of a rollout with a weight."""
    effective_tokens: Tensor
    """Those whose advantage is not zero: only they teach something."""
    ratio_sum: Tensor
    ratio_max: Tensor
    """Largest ratio; -inf when there was no token."""
    clipped_tokens: Tensor
    """Tokens whose ratio was capped, or whose gradient the clip removed."""
    entropy_sum: Tensor | None = None
    kl_sum: Tensor | None = None

    @property
    def ratio_mean(self) -> float | None:
        return self._mean(self.ratio_sum)

    @property
    def clipped_fraction(self) -> float | None:
        return self._mean(self.clipped_tokens)

    @property
    def entropy(self) -> float | None:
        return self._mean(self.entropy_sum)

    @property
    def kl(self) -> float | None:
        return self._mean(self.kl_sum)

    def merge(self, other: LossStats) -> LossStats:
        """Both together, as if they had been one micro-batch."""
        return LossStats(
            tokens=self.tokens + other.tokens,
            effective_tokens=self.effective_tokens + other.effective_tokens,
            ratio_sum=self.ratio_sum + other.ratio_sum,
            ratio_max=torch.maximum(self.ratio_max, other.ratio_max),
            clipped_tokens=self.clipped_tokens + other.clipped_tokens,
            entropy_sum=_add(self.entropy_sum, other.entropy_sum),
            kl_sum=_add(self.kl_sum, other.kl_sum),
        )

    def to_dict(self) -> dict[str, float | None]:
        """For metrics: plain numbers, None where there is nothing to say."""
        return {
            "tokens": float(self.tokens),
            "effective_tokens": float(self.effective_tokens),
            "ratio_mean": self.ratio_mean,
            "ratio_max": float(self.ratio_max) if self.tokens > 0 else None,
            "clipped_fraction": self.clipped_fraction,
            "entropy": self.entropy,
            "kl": self.kl,
        }

    def _mean(self, total: Tensor | None) -> float | None:
        return None if total is None or self.tokens == 0 else float(total / self.tokens)


@dataclass(frozen=True)
class LossOutputs:
    """The share of one micro-batch in the loss of its batch, to be minimised, and statistics about it."""

    loss: Tensor
    """Scalar with a gradient; the losses of all micro-batches add up to the loss of the batch."""
    stats: LossStats


Loss = Callable[[LossInputs], LossOutputs]


def _add(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else first + second
