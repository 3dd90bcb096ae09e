"""Downstream against in-distribution: do the cells that end higher on held-out problems end higher elsewhere too?

Called by `results` with the curves of a folder. For each set, each seed's end is the mean of its last three
measurements, and the held-out value is that of the same policy versions. The answer is Spearman's rank correlation over
cells that got to their full budget. Pure: curves in, `Downstream` out; the same for the same curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit
from scipy.stats import rankdata

from scalerl.curves import Estimate, Fit, fit
from scalerl.curves.backtest import TARGET_POINTS
from scalerl.curves.fit import MIN_POINTS
from scalerl.series import FloatArray, Series
from scalerl.study.analyse import Curves, Settings
from scalerl.study.extrapolation import REACHED

FEWEST_TO_RANK = 3
"""Cells; two are always in perfect order or in perfect disorder."""


@dataclass(frozen=True)
class End:
    """Where one seed ended."""

    in_distribution: float
    value: float


@dataclass(frozen=True)
class CellDownstream:
    """One cell on one set."""

    cell: str
    curves: Mapping[int, Series]
    ends: Mapping[int, End]
    in_distribution: Estimate
    """Mean over seeds, with the interval that their spread gives; none with one seed."""
    value: Estimate
    whole: bool
    """Every seed got to the full budget: only then the cell is ranked."""
    joint: Fit | None
    """A law of the set's own curve; None with too few points."""


@dataclass(frozen=True)
class Downstream:
    """One set."""

    name: str
    cells: tuple[CellDownstream, ...]
    correlation: Estimate | None
    ranked: int
    """Cells that the correlation is over."""
    reason: str | None
    """Why there is no correlation."""


def downstream(
    sets: Mapping[str, Curves], curves: Curves, full: Mapping[str, float], settings: Settings
) -> tuple[Downstream, ...]:
    """One result for each set; `curves` are the held-out ones."""
    return tuple(_set(name, found, curves, full, settings) for name, found in sets.items())


def rank_correlation(x: FloatArray, y: FloatArray, level: float) -> Estimate:
    """Spearman's, ties with their mean rank, with the interval of Bonett and Wright (2000): Fisher's transform with
    variance (1 + r^2/2) / (n - 3). Perfect order is taken half a swap back, so that it is not taken for certainty."""
    n = len(x)
    rho = float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])
    if n <= FEWEST_TO_RANK:
        return Estimate(rho, None, None)
    most = 1 - 6 / (n**3 - n)
    inner = min(max(rho, -most), most)
    half = float(ndtri(0.5 + level / 2)) * np.sqrt((1 + inner**2 / 2) / (n - 3))
    low, high = np.tanh(np.arctanh(inner) - half), np.tanh(np.arctanh(inner) + half)
    return Estimate(rho, min(float(low), rho), max(float(high), rho))


def _set(
    name: str, found: Curves, curves: Curves, full: Mapping[str, float], settings: Settings
) -> Downstream:  # fmt: skip
    cells = [_cell(cell, seeds, curves[cell], full.get(cell), settings) for cell, seeds in found.items()]
    known = tuple(cell for cell in cells if cell is not None)
    whole = [cell for cell in known if cell.whole]
    x = np.array([cell.in_distribution.value for cell in whole])
    y = np.array([cell.value.value for cell in whole])
    reason = _reason(x, y)
    return Downstream(
        name, known, None if reason else rank_correlation(x, y, settings.level), len(whole), reason
    )  # fmt: skip


def _reason(x: FloatArray, y: FloatArray) -> str | None:
    if len(x) < FEWEST_TO_RANK:
        return f"{len(x)} of the cells got to the full budget, and ranks need {FEWEST_TO_RANK}"
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return f"all cells end at the same {'held-out' if np.ptp(x) == 0 else 'downstream'} value"
    return None


def _cell(
    cell: str, found: Mapping[int, Series], held_out: Mapping[int, Series], full: float | None, settings: Settings
) -> CellDownstream | None:
    """None while nothing beyond step 0 was measured."""
    known = {seed: one for seed, one in sorted(found.items()) if len(one) and seed in held_out}
    ends = {seed: end for seed, one in known.items() if (end := _end(one, held_out[seed])) is not None}
    if not ends:
        return None
    enough = sum(map(len, known.values())) >= MIN_POINTS
    return CellDownstream(
        cell=cell,
        curves=known,
        ends=ends,
        in_distribution=_mean([end.in_distribution for end in ends.values()], settings.level),
        value=_mean([end.value for end in ends.values()], settings.level),
        whole=full is not None and all(known[seed].compute[-1] >= REACHED * full for seed in ends),
        joint=fit(list(known.values()), level=settings.level, bounds=settings.bounds, name=cell) if enough else None,
    )


def _end(one: Series, held_out: Series) -> End | None:
    """Both values of the last versions that were measured on both."""
    both, own, other = np.intersect1d(one.compute, held_out.compute, return_indices=True)
    if not len(both):
        return None
    last = slice(-TARGET_POINTS, None)
    return End(float(held_out.value[other[last]].mean()), float(one.value[own[last]].mean()))


def _mean(values: Sequence[float], level: float) -> Estimate:
    """Student's interval over seeds."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, None, None)
    half = float(stdtrit(len(values) - 1, 0.5 + level / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)
