"""The extrapolation table: fit the first part of each curve, forecast its end, and see what came.

Called by `analyse` with curves that got to the full budget. What came is the mean of the last three evaluations, at the
geometric mean of their compute, because one evaluation is noise; that is the engine's backtest too. A cell is forecast
by the mean of its seeds' forecasts, with the mean of their intervals: what the law gets wrong, it gets wrong in the
same way for every seed, so more seeds do not make it narrower (a joint fit believes that they do). Pure: curves in,
rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.curves import fit, forecast
from scalerl.curves.backtest import TARGET_POINTS
from scalerl.curves.fit import MIN_POINTS
from scalerl.curves.scale import Bounds
from scalerl.series import Series

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
    rows = []
    for cell, seeds in cells.items():
        until = share * full[cell]
        known = {seed: one for seed, one in seeds.items() if _usable(one, until, full[cell])}
        own = [_row(cell, seed, one, until, level, bounds) for seed, one in known.items()]
        rows += own if len(own) < 2 else [*own, _together(own)]
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


def _together(rows: Sequence[Extrapolated]) -> Extrapolated:
    at = float(np.exp(np.mean([np.log(row.compute) for row in rows])))
    numbers = np.mean([(row.value, row.low, row.high, row.actual) for row in rows], axis=0).tolist()
    return Extrapolated(rows[0].cell, None, sum(row.points for row in rows), at, *numbers)
