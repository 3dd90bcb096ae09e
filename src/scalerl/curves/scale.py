"""The unit scale: values mapped to 0..1, where the priors live, and back.

Pass rates are already there. Bounded rewards use their bounds. Unbounded ones use the range of the data, widened so
that the curve has room to grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.series import FloatArray, Series

Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class Scale:
    """unit = (value - low) / (high - low); `bounded` says which ends are hard limits."""

    low: float
    high: float
    bounded: tuple[bool, bool]

    @classmethod
    def of(cls, series: Sequence[Series], bounds: Bounds) -> Scale:
        low, high = bounds or (-np.inf, np.inf)
        values = np.concatenate([s.value for s in series] + [[s.start.value] for s in series if s.start])
        smallest, largest = float(values.min()), float(values.max())
        spread = (largest - smallest) or abs(largest) or 1.0
        return cls(
            low if np.isfinite(low) else smallest - spread / 2,
            high if np.isfinite(high) else largest + spread / 2,
            (bool(np.isfinite(low)), bool(np.isfinite(high))),
        )

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def limits(self) -> tuple[float, float]:
        """Hard limits on the unit scale."""
        return (0.0 if self.bounded[0] else -np.inf, 1.0 if self.bounded[1] else np.inf)

    @property
    def binomial(self) -> bool:
        """Bounded on both sides, so that the noise shrinks towards the bounds as for a share."""
        return all(self.bounded)

    def to_unit(self, value: FloatArray | float) -> FloatArray:
        return (np.asarray(value, dtype=np.float64) - self.low) / self.width

    def to_value(self, unit: FloatArray) -> FloatArray:
        return self.low + self.width * unit
