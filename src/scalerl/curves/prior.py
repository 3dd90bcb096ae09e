"""What the engine believes before it sees a curve, in one place, with its provenance.

All lengths are on the unit scale of the value (0..1 for pass rates). The figures were chosen on 38 real LLM-RL
curves of three projects and on simulated ones: several hundred settings by random search with the objective of
benchmarks/tune.py, then dozens by hand until every limit of benchmarks/calibration.py held, then rounded. So scores on
those curves are in-sample. What a search reaches on a project it has not seen stands in docs/method.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from scalerl.curves.noise import NoiseGrid


@dataclass(frozen=True)
class Prior:
    """Means and widths of the priors, and the candidate noise settings."""

    log_exponent: tuple[float, float] = (0.0, 0.8)
    """Mean and sd of ln exponent."""
    log_midpoint: tuple[float, float] = (-0.4, 1.4)
    """Mean and sd of ln(midpoint / last compute)."""
    near: tuple[float, float, float] = (0.37, 0.2, 0.08)
    """Weight, mean and sd of a ceiling close by: the gap that is left, as a share of the gain made so far."""
    climbing: float = 0.65
    """Share of that weight which a curve loses that still climbs at its steepest: it is not likely about to end."""
    far: tuple[float, float] = (0.24, 0.24)
    """Mean and sd of a ceiling anywhere: the gap that is left, as a share of the room above the present value."""
    floor_sd: float = 0.03
    """How far the floor of the law may lie from a measured step-0 value, beside that value's own error."""
    free_floor_sd: float = 0.15
    white: tuple[float, ...] = (0.35, 0.8)
    """Candidate factors on the binomial standard deviation."""
    log_white: tuple[float, float] = (-1.2, 0.6)
    wobble: tuple[float, ...] = (0.0028, 0.007, 0.0175)
    """Candidate standard deviations of the AR(1) part."""
    memory: tuple[float, ...] = (0.5, 0.9)
    drift: tuple[float, ...] = (0.05, 0.2, 0.5)
    """Candidate sizes of the discrepancy, as a share of the local slope, per sqrt(nat of compute)."""
    drift_base: float = 0.011
    """Slope added to the local one, so that a plateau may drift too."""
    flat: float = 0.08
    """Chance that the curve stays flat from here."""
    decay: float = 0.05
    """Chance that it declines from here."""
    decay_size: float = 0.075
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
