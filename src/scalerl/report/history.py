"""How a forecast has moved: what the fit said when only the first part of the curve was known.

Called by the report command and by the watch server, which adds a moment whenever points come in. It refits; where the
curve comes from and how the moments are drawn is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalerl.curves import Fit, decide, fit, forecast
from scalerl.curves.fit import MIN_POINTS, Floor
from scalerl.report.thinning import evenly

MOST_MOMENTS = 12


@dataclass(frozen=True)
class Moment:
    """The forecast of one budget as it stood at some compute."""

    compute: float
    """The last compute known then."""
    budget: float
    value: float
    low: float | None
    high: float | None
    action: str


def moment(made: Fit, budget: float, *, doubling: bool = False, delta: float | None = None) -> Moment | None:
    """What this fit says about the budget; None when the curve has passed it already.

    The decision is about the budget too, or about doubling what there was then; `delta` as in `decide`.
    """
    if budget <= made.last_compute:
        return None
    (found,) = forecast(made, [budget])
    decision = decide(made, None if doubling else budget, delta=delta)
    return Moment(made.last_compute, budget, found.value, found.low, found.high, decision.action)


def moments(
    made: Fit, budget: float, most: int = MOST_MOMENTS, *, doubling: bool = False, delta: float | None = None
) -> Iterator[Moment]:
    """The forecasts of `budget` after earlier points, the present one last; at most `most`, spread over the points."""
    if made.method == "paper":  # a grid search for each would take minutes
        return
    computes = np.unique(np.concatenate([series.compute for series in made.fitted]))[MIN_POINTS - 1 :]
    for compute in computes[evenly(computes.size, most)].tolist():
        then = made if compute == made.last_compute else _refit_until(made, compute)
        found = None if then is None else moment(then, budget, doubling=doubling, delta=delta)
        if found is not None:
            yield found


def _refit_until(made: Fit, compute: float) -> Fit | None:
    """The same fit with the window ending at `compute`; None where that leaves too few points."""
    if sum(int(np.sum(series.compute <= compute)) for series in made.fitted) < MIN_POINTS:
        return None
    floor: Floor = "measured" if made.floor_measured else made.fixed_floor
    takes_floor = made.law == "sigmoid"
    return fit(
        made.series, law=made.law, floor=("free" if floor is None else floor) if takes_floor else None,
        ceiling=made.fixed_ceiling, bounds=made.bounds, window=(made.window[0], compute), level=made.level,
        name=made.name,
    )  # fmt: skip
