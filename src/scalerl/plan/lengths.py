"""How long responses are: lognormal with a part that belongs to the prompt, cut off by a budget, or interrupted.

Drawn from by the simulation, built by `question` and `likeness`. Lengths of one prompt are alike, which matters here: a
batch waits for its longest group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scalerl.errors import InputError

IntArray = NDArray[np.int64]
_QUANTILES = np.array([NormalDist().inv_cdf((i + 0.5) / 4096) for i in range(4096)])
"""Of the standard normal distribution: expectations without drawing."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of response lengths in tokens."""

    median: float
    """Before anything is cut off."""
    spread: float
    """Standard deviation of ln length; 0: all are of one length."""
    longest: int
    """The token budget of a response: longer ones are cut off there."""
    interruption: tuple[int, int] | None = None
    """Thinking is interrupted at a random point between these; the answer follows."""
    answer: int = 0
    """Tokens that are written after an interruption."""
    group_share: float = 0.5
    """Share of the variance of ln length that lies between prompts; the rest lies between rollouts of one prompt."""

    def draw(self, rng: np.random.Generator, num_rollouts: int) -> IntArray:
        """Lengths of the rollouts of one prompt."""
        own = rng.standard_normal(num_rollouts)
        z = math.sqrt(self.group_share) * rng.standard_normal() + math.sqrt(1 - self.group_share) * own
        return self._cut(np.exp(math.log(self.median) + self.spread * z), rng)

    def mean(self) -> float:
        """Of what is written, after cutting and interrupting."""
        return float(self._cut(np.exp(math.log(self.median) + self.spread * _QUANTILES), None).mean())

    def cut_share(self) -> float:
        """Share of the responses that are interrupted or cut off."""
        limit = self.longest if self.interruption is None else sum(self.interruption) / 2
        return float(np.mean(np.exp(math.log(self.median) + self.spread * _QUANTILES) >= limit))

    def _cut(self, free: NDArray[np.float64], rng: np.random.Generator | None) -> IntArray:
        if self.interruption is not None:
            low, high = self.interruption
            point = rng.uniform(low, high, free.shape) if rng is not None else np.full(free.shape, (low + high) / 2)
            free = np.where(free > point, point + self.answer, free)
        return np.clip(np.rint(free), 1, self.longest).astype(np.int64)


def lengths_with_mean(mean: float, shape: Lengths) -> Lengths:
    """The same shape with the median that gives this mean after cutting."""
    low, high = math.log(1e-3 * mean), math.log(1e3 * mean)
    for _ in range(80):
        middle = (low + high) / 2
        below = replace(shape, median=math.exp(middle)).mean() < mean
        low, high = (middle, high) if below else (low, middle)
    found = replace(shape, median=math.exp(low))
    if abs(found.mean() - mean) > 0.02 * mean:
        reachable = replace(shape, median=1e3 * mean).mean()
        raise InputError("mean length", f"{mean:g}", f"below {reachable:.0f}, what is left when all are cut off")
    return found
