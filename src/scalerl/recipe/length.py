"""Length control: where thinking is interrupted, and what a long answer costs. Pure functions.

The generator asks `interruption_point` when it admits a rollout; the batcher asks `length_penalty`. How the phrase gets
into the sequence and into the mask is the generator's work.

Shapes: r = rollouts.
"""

from __future__ import annotations

import hashlib

from torch import Tensor


def interruption_point(low_tokens: int, high_tokens: int, seed: int) -> int:
    """Thinking tokens after which a rollout is interrupted: uniform on low..high, both included.

    A function of the rollout's own seed and of nothing else, so that neither the order in which rows are refilled nor a
    resume changes it, and it is independent of what the same seed samples.
    """
    draw = int.from_bytes(hashlib.sha256(f"interruption {seed}".encode()).digest()[:8])
    return low_tokens + draw % (high_tokens - low_tokens + 1)


def length_penalty(tokens_r: Tensor, max_tokens: int, cache_tokens: int) -> Tensor:
    """clip((max - tokens) / cache - 1, -1, 0): zero up to max - cache, then falling to -1 at max.

    The paper adds it to CORRECT rollouts only: see `advantages.rewards`.
    """
    return ((max_tokens - tokens_r.float()) / cache_tokens - 1.0).clamp(-1.0, 0.0)
