"""Sampling one token for each row: counter-based uniforms, inverse CDF, log-prob in float32.

Called by the embedded engine at each step. Knows nothing of rows, caches or models.

The uniform of a token is a pure function of (seed of the rollout, position in the response). So neither the row that a
rollout lands in, nor its neighbours, nor a resume changes what it draws, and there is no generator state to save.

Shapes: n = rows, v = vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalerl.recipe.logprobs import token_logprobs

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SEED_MASK = 2**64 - 1


def seed_bits(seed: int) -> int:
    """Any whole number as 64 bits, so that it fits the arrays."""
    return seed & _SEED_MASK


def uniforms(seed_n: NDArray[np.uint64], position_n: NDArray[np.int64]) -> NDArray[np.float64]:
    """One number in [0, 1) for each pair. Seeds and positions that lie side by side give unrelated numbers."""
    state_n = _mix(seed_n) + (position_n.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    # 52 bits, not 53: then u * total < total in floating point too, and the inverse CDF always finds a token.
    return (_mix(state_n) >> np.uint64(12)).astype(np.float64) * 2.0**-52


def sample(logits_nv: Tensor, uniform_n: NDArray[np.float64], temperature: float | Tensor) -> tuple[Tensor, Tensor]:
    """Token of each row, from the full distribution at the temperature, and its log-prob at that temperature; one for
    all, or [n, 1]."""
    probability_nv = (logits_nv.float() / temperature).softmax(-1)
    # In float64: over a vocabulary of 100,000 tokens the rounding of a float32 sum would favour some of them.
    cumulative_nv = probability_nv.cumsum(-1, dtype=torch.float64)
    threshold_n1 = torch.from_numpy(uniform_n).to(logits_nv.device).unsqueeze(-1) * cumulative_nv[:, -1:]
    token_n = torch.searchsorted(cumulative_nv, threshold_n1, right=True).squeeze(-1)
    # Only logits that are not numbers get past the end; their log-prob tells the engine.
    token_n = token_n.clamp_(max=logits_nv.shape[-1] - 1)
    return token_n, token_logprobs(logits_nv, token_n, temperature)


def _mix(state_n: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every input bit changes every output bit with probability one half."""
    mixed_n = (state_n ^ (state_n >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed_n = (mixed_n ^ (mixed_n >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed_n ^ (mixed_n >> np.uint64(31))
