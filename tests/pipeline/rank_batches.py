"""Batches for ranks to share: groups of uneven sizes, some of them with nothing to learn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.tasks import Status, Verdict


def rollout(rng: np.random.Generator, length: int, version: int) -> Rollout:
    """Log-probs about those of a policy that knows nothing; every third one has injected tokens."""
    own = np.ones(length, bool)
    if length > 3 and rng.integers(3) == 0:
        own[1:3] = False
    logprobs = np.where(own, -3.0 + 0.3 * rng.normal(size=length), 0.0).astype(np.float32)
    tokens = rng.integers(2, 14, length)
    return Rollout(tokens, logprobs, np.full(length, version, np.int32), own, truncated=False, interrupted=False)


def group(rng: np.random.Generator, index: int, lengths: Sequence[int], version: int, *, mixed: bool = True) -> Group:
    prompt = tuple(rng.integers(2, 14, 1 + index % 4).tolist())
    seeds = tuple(range(len(lengths)))
    request = GroupRequest(index, "train", index, f"p{index}", prompt, seeds, (None,) * len(seeds))
    statuses: list[Status] = ["correct" if i % 3 == 0 and mixed else "wrong" for i in range(len(lengths))]
    rollouts = tuple(rollout(rng, length, version) for length in lengths)
    return Group(request, rollouts, tuple(map(Verdict, statuses)))


def batch(step: int, seed: int = 0) -> list[Group]:
    """Most are five groups of four; every fifth has one group for two ranks, every seventh nothing in the loss, every
    sixth a group that is far longer than all others."""
    rng = np.random.default_rng([seed, step])
    if step % 5 == 4:
        return [group(rng, 0, (5, 9, 4), step), group(rng, 1, (5, 5), step, mixed=False)]
    if step % 7 == 6:
        return [group(rng, i, (3, 4), step, mixed=False) for i in range(2)]
    if step % 6 == 5:
        return [group(rng, 0, [19] * 16, step), group(rng, 1, (2, 3), step)]
    return [group(rng, i, rng.integers(3, 18, 4).tolist(), step) for i in range(5)]
