"""What the noise model must know about a series: how noisy each evaluation is, and how far apart they are.

Called by `infer` (and `diagnose` and `backtest`, for the noise between evaluations). Values are on the unit scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalerl.curves.noise import Spacing
from scalerl.curves.scale import Scale
from scalerl.series import FloatArray, Series

SHARE_FLOOR = 0.05
"""A share nearer to 0 or 1 is taken as this noisy: the law is no better than that at the very start."""
MAX_POINTS = 400
"""A denser series is averaged over that many cells first."""


@dataclass(frozen=True)
class Prepared:
    """A series as the filter takes it."""

    compute: FloatArray
    unit: FloatArray
    spacing: Spacing


def prepare(series: Series, scale: Scale, drift_base: float) -> Prepared:
    """Unit scale, noise and distances of a series, thinned if it is dense. `drift_base`: see `Prior`."""
    unit = scale.to_unit(series.value)
    compute, unit, sd = _thinned(series.compute, unit, _evaluation_sd(series, unit, scale))
    t = np.log(compute)
    lag, step = np.zeros(t.size), np.zeros(t.size)
    if t.size > 1:
        gaps = np.diff(compute)
        lag[1:] = np.clip(gaps / np.median(gaps), 0.2, 5.0)
        step[1:] = np.sqrt(np.diff(t)) * (drift_base + np.abs(local_slope(t, unit))[1:])
    return Prepared(compute, unit, Spacing(sd, lag, step))


def _thinned(compute: FloatArray, unit: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A dense series as weighted means over cells of equal width in ln compute; the noise candidates then hold
    between cells."""
    if compute.size <= MAX_POINTS:
        return compute, unit, sd
    t = np.log(compute)
    cell = np.minimum(((t - t[0]) / (t[-1] - t[0]) * MAX_POINTS).astype(int), MAX_POINTS - 1)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    weight = sd**-2.0
    total = np.add.reduceat(weight, first)
    means = [np.add.reduceat(weight * column, first) / total for column in (t, unit)]
    return np.exp(means[0]), means[1], total**-0.5


def _evaluation_sd(series: Series, unit: FloatArray, scale: Scale) -> FloatArray:
    """Binomial where n is known; otherwise of the size that second differences show."""
    smooth = np.convolve(np.pad(unit, 1, mode="edge"), np.full(3, 1 / 3), mode="valid")
    share = np.clip(smooth, SHARE_FLOOR, 1 - SHARE_FLOOR)
    root: FloatArray = np.sqrt(share * (1 - share)) if scale.binomial else np.full(unit.size, 0.5)
    if series.n is not None and scale.binomial:
        return root / np.sqrt(series.n)
    return root * max(2 * second_difference_sd(unit) / float(root.mean()), 1e-4)


def second_difference_sd(unit: FloatArray) -> float:
    """Standard deviation of white noise, from how far each point lies off the middle of its neighbours."""
    if unit.size < 5:
        return 0.02
    off = unit[1:-1] - (unit[:-2] + unit[2:]) / 2
    return float(max(1.4826 * np.median(np.abs(off)), 0.5 * off.std()) / np.sqrt(1.5))


def local_slope(t: FloatArray, unit: FloatArray, width: float = 0.5, count: int = 5) -> FloatArray:
    """Slope d value / d ln compute around each point: a straight line through its neighbours within `width` nats,
    at least `count` points on either side; sums over windows come from running totals, so the cost is linear."""
    index = np.arange(t.size)
    low = np.minimum(np.searchsorted(t, t - width), np.maximum(index - count, 0))
    high = np.maximum(np.searchsorted(t, t + width, side="right"), np.minimum(index + count + 1, t.size))
    totals = [np.concatenate([[0.0], np.cumsum(c)]) for c in (np.ones_like(t), t, unit, t * t, t * unit)]
    n, st, su, stt, stu = (total[high] - total[low] for total in totals)
    spread = np.maximum(stt - st**2 / n, 1e-12)
    slope: FloatArray = (stu - st * su / n) / spread
    return slope


def steepness(t: FloatArray, unit: FloatArray) -> float:
    """The slope at the end over the steepest one so far, between 0 and 1."""
    slope = local_slope(t, unit, count=2)
    steepest = float(slope.max())
    return float(np.clip(slope[-1] / steepest, 0.0, 1.0)) if steepest > 0 else 0.0
