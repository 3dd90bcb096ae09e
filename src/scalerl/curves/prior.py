"""What the engine believes before it sees a curve, in one place, with its provenance.

All lengths are on the unit scale of the value (0..1 for pass rates). All but `far` are neutral: the figures of M5, the
method this engine started from (LOG.md), where it has one, else round numbers. `far` was chosen by benchmarks/tune.py,
by its rule "mean of best": the mean of the best quarter of 20 candidates, by 38 real LLM-RL curves of three projects
and by simulated runs. A later run of the same table, with finer draws, chooses (0.26, 0.13); the wider one stays.
Scores on those curves are in-sample; docs/method.md has what the rule reaches on a project that it did not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from scalerl.curves.noise import NoiseGrid


@dataclass(frozen=True)
class Prior:
    """Means and widths of the priors, and the candidate noise settings."""

    log_exponent: tuple[float, float] = (0.2, 0.6)
    """Mean and sd of ln exponent."""
    log_midpoint: tuple[float, float] = (0.0, 1.5)
    """Mean and sd of ln(midpoint / last compute)."""
    near: tuple[float, float, float] = (0.4, 0.1, 0.1)
    """Weight, mean and sd of a ceiling close by: the gap that is left, as a share of the gain made so far."""
    climbing: float = 0.5
    """Share of that weight which a curve loses that still climbs at its steepest: it is not likely about to end."""
    far: tuple[float, float] = (0.27, 0.16)
    """Mean and sd of a ceiling anywhere: the gap that is left, as a share of the room above the present value."""
    floor_sd: float = 0.02
    """How far the floor of the law may lie from a measured step-0 value, beside that value's own error."""
    free_floor_sd: float = 0.15
    white: tuple[float, ...] = (0.35, 0.8)
    """Candidate factors on the binomial standard deviation."""
    log_white: tuple[float, float] = (-0.7, 0.6)
    wobble: tuple[float, ...] = (0.004, 0.01, 0.025)
    """Candidate standard deviations of the AR(1) part."""
    memory: tuple[float, ...] = (0.5, 0.9)
    drift: tuple[float, ...] = (0.05, 0.2, 0.5)
    """Candidate sizes of the discrepancy, as a share of the local slope, per sqrt(nat of compute)."""
    drift_base: float = 0.02
    """Slope added to the local one, so that a plateau may drift too."""
    flat: float = 0.2
    """Chance that the curve stays flat from here."""
    decay: float = 0.02
    """Chance that it declines from here."""
    decay_size: float = 0.1
    """Mean decline per nat of compute in that case."""
    bending: tuple[float, float, float, float] = (0.0, 0.5, 1.5, 2.0)
    """ln(last compute / midpoint) between which a curve bends: fully between the inner two, not at all outside."""
    bending_width: float = 0.8
    """Width of a forecast's interval there, as a share of what the draws say: the futures above (near or far ceiling,
    flat, drift) are all kept open while a curve bends, and together they are too wide. Chosen by
    benchmarks/tune_width.py on the real curves and the simulated runs, not on our own."""

    def noise_grid(self) -> NoiseGrid:
        """Every combination; a wobble of zero needs no memory."""
        wobbles = [(0.0, 0.0), *product(self.wobble, self.memory)]
        rows = [
            (white, wobble, memory, drift, -0.5 * ((np.log(white) - self.log_white[0]) / self.log_white[1]) ** 2)
            for white, (wobble, memory), drift in product(self.white, wobbles, self.drift)
        ]
        return NoiseGrid(*np.array(rows).T)


DEFAULT_PRIOR = Prior()
