"""What the engine believes before it sees a curve, in one place, with its provenance.

All lengths are on the unit scale of the value (0..1 for pass rates). The figures are what benchmarks/tune.py chose by
its rule "mean of best tenth by limits": the mean of the 13 best of 129 candidates (neutral round figures and a seeded
quasi-random set around them), by 38 real LLM-RL curves of three projects and by simulated runs. They stand as the rule
gave them, to four decimals. Scores on those curves are in-sample; docs/method.md has what the same rule reaches on a
project it did not see. `free_floor_sd`, `white`, `memory`, `decay_size` and `log_white` were not searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from scalerl.curves.noise import NoiseGrid


@dataclass(frozen=True)
class Prior:
    """Means and widths of the priors, and the candidate noise settings."""

    log_exponent: tuple[float, float] = (0.1525, 0.7651)
    """Mean and sd of ln exponent."""
    log_midpoint: tuple[float, float] = (-0.3113, 1.5342)
    """Mean and sd of ln(midpoint / last compute)."""
    near: tuple[float, float, float] = (0.3871, 0.1601, 0.1125)
    """Weight, mean and sd of a ceiling close by: the gap that is left, as a share of the gain made so far."""
    climbing: float = 0.6027
    """Share of that weight which a curve loses that still climbs at its steepest: it is not likely about to end."""
    far: tuple[float, float] = (0.2319, 0.2769)
    """Mean and sd of a ceiling anywhere: the gap that is left, as a share of the room above the present value."""
    floor_sd: float = 0.0205
    """How far the floor of the law may lie from a measured step-0 value, beside that value's own error."""
    free_floor_sd: float = 0.15
    white: tuple[float, ...] = (0.35, 0.8)
    """Candidate factors on the binomial standard deviation."""
    log_white: tuple[float, float] = (-0.7, 0.6)
    wobble: tuple[float, ...] = (0.00341, 0.00853, 0.02133)
    """Candidate standard deviations of the AR(1) part."""
    memory: tuple[float, ...] = (0.5, 0.9)
    drift: tuple[float, ...] = (0.0395, 0.1578, 0.3945)
    """Candidate sizes of the discrepancy, as a share of the local slope, per sqrt(nat of compute)."""
    drift_base: float = 0.0187
    """Slope added to the local one, so that a plateau may drift too."""
    flat: float = 0.1407
    """Chance that the curve stays flat from here."""
    decay: float = 0.0358
    """Chance that it declines from here."""
    decay_size: float = 0.1
    """Mean decline per nat of compute in that case."""

    def noise_grid(self) -> NoiseGrid:
        """Every combination; a wobble of zero needs no memory."""
        wobbles = [(0.0, 0.0), *product(self.wobble, self.memory)]
        rows = [
            (white, wobble, memory, drift, -0.5 * ((np.log(white) - self.log_white[0]) / self.log_white[1]) ** 2)
            for white, (wobble, memory), drift in product(self.white, wobbles, self.drift)
        ]
        return NoiseGrid(*np.array(rows).T)


DEFAULT_PRIOR = Prior()
