"""The extrapolation table: fit the first part of each curve, forecast its end, and see what came.

Called by `analyse` with curves that got to the full budget. What came is the mean of the last three evaluations, at the
geometric mean of their compute, because one evaluation is noise; that is the engine's backtest too. A cell with several
seeds is forecast as the race and the status do (`heading`). Pure: curves in, rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.curves import fit, forecast
from scalerl.curves.backtest import TARGET_POINTS
from scalerl.curves.fit import MIN_POINTS
from scalerl.curves.forecast import quantiles
from scalerl.curves.scale import Bounds
from scalerl.series import FloatArray, Series
from scalerl.study.heading import final_draws

REACHED = 0.9
"""Of the full budget: what a curve must have seen for its end to count."""


@dataclass(frozen=True)
class Extrapolated:
    """One forecast and what came."""

    cell: str
    seed: int | None
    """None: all seeds of the cell together."""
    points: int
    """Evaluations that were fitted."""
    compute: float
    value: float
    low: float
    high: float
    actual: float

    @property
    def error(self) -> float:
        return self.value - self.actual

    @property
    def inside(self) -> bool:
        return self.low <= self.actual <= self.high


@dataclass(frozen=True)
class Summary:
    """How good a set of forecasts was; None where there were none."""

    count: int
    coverage: float | None
    mean_absolute_error: float | None


def extrapolate(
    cells: Mapping[str, Mapping[int, Series]], full: Mapping[str, float], share: float, level: float, bounds: Bounds
) -> list[Extrapolated]:
    """Rows of every cell: its seeds, then the cell. Curves that are too short to be split have none."""
    until = {cell: share * full[cell] for cell in cells}
    known = {cell: {seed: one for seed, one in seeds.items() if _usable(one, until[cell], full[cell])}
             for cell, seeds in cells.items()}  # fmt: skip
    own = {cell: [_row(cell, seed, one, until[cell], level, bounds) for seed, one in seeds.items()]
           for cell, seeds in known.items()}  # fmt: skip
    at = {cell: float(np.exp(np.mean([np.log(row.compute) for row in rows]))) for cell, rows in own.items() if rows}
    seen = {cell: [one.window(None, until[cell]) for one in known[cell].values()] for cell in at}
    ahead = final_draws({cell: seeds for cell, seeds in seen.items() if len(seeds) > 1}, at, bounds=bounds)
    rows = []
    for cell, single in own.items():
        rows += [*single, _together(single, at[cell], ahead[cell], level)] if cell in ahead else single
    return rows


def summarise(rows: Sequence[Extrapolated]) -> Summary:
    if not rows:
        return Summary(0, None, None)
    coverage = float(np.mean([row.inside for row in rows]))
    return Summary(len(rows), coverage, float(np.mean([abs(row.error) for row in rows])))


def _usable(one: Series, until: float, full: float) -> bool:
    """Long enough to fit the first part, with its last three points beyond it."""
    if not len(one) or one.compute[-1] < REACHED * full:
        return False
    seen = int(np.count_nonzero(one.compute <= until))
    return seen >= MIN_POINTS and len(one) - seen >= TARGET_POINTS


def _row(cell: str, seed: int, one: Series, until: float, level: float, bounds: Bounds) -> Extrapolated:
    found = fit(one, window=(None, until), level=level, bounds=bounds, name=cell)
    at = float(np.exp(np.mean(np.log(one.compute[-TARGET_POINTS:]))))
    (made,) = forecast(found, [at])
    assert made.low is not None  # our own procedure always has an interval
    assert made.high is not None
    actual = float(one.value[-TARGET_POINTS:].mean())
    return Extrapolated(cell, seed, found.points, at, made.value, made.low, made.high, actual)


def _together(rows: Sequence[Extrapolated], at: float, draws: FloatArray, level: float) -> Extrapolated:
    low, value, high = (float(one[0]) for one in quantiles(draws[:, None], level))
    actual = float(np.mean([row.actual for row in rows]))
    return Extrapolated(rows[0].cell, None, sum(row.points for row in rows), at, value, low, high, actual)
