"""The race: which cells are hopeless at this point, by the engine's forecasts, and which are still undecided.

Called by `execute` at each rung with what every live cell has shown so far, and by `replay` with finished curves cut at
the rungs. Pure: the same curves give the same decisions, so that a study that was killed decides the same again. It
knows no folder, no job and no trainer.

A cell is stopped when the chance that its value at its full budget comes within `delta` of the best cell's (or above)
falls below the threshold. The chance is taken over the draws of `heading`, with the best cell chosen anew in every
draw. The base is never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalerl.curves.scale import Bounds
from scalerl.errors import InputError
from scalerl.numbers import number, probability
from scalerl.series import FloatArray
from scalerl.study.heading import ENOUGH_POINTS, Curves, final_draws

SETTLED = 0.8
"""Chance of better, equal or worse than the base from which on a cell counts as decided."""


@dataclass(frozen=True)
class Decision:
    """What happens to one cell at one rung, and why."""

    cell: str
    action: Literal["stop", "keep"]
    probability: float | None
    """Chance of being within delta of the best at the full budget, or above; None when it was not judged."""
    reason: str


def judge(
    curves: Curves,
    base: str,
    full: Mapping[str, float],
    delta: float,
    threshold: float,
    *,
    bounds: Bounds = (0.0, 1.0),
) -> list[Decision]:
    """One decision for each cell, in the order given. `full`: the full budget of each cell, in the curves' unit."""
    _check(curves, base, delta, threshold)
    draws = final_draws(curves, full, bounds=bounds)
    if not draws:
        return [Decision(cell, "keep", None, "no cell has enough evaluations to be judged") for cell in curves]
    best = np.max(list(draws.values()), axis=0)
    return [_decision(cell, base, draws, best, delta, threshold) for cell in curves]


def undecided(
    curves: Curves, base: str, full: Mapping[str, float], delta: float, *, bounds: Bounds = (0.0, 1.0)
) -> list[str]:
    """The cells that further seeds would help most, the most open one first; the base is not among them.

    Decided is a cell whose value at the full budget is better than the base's by more than `delta`, or worse by more,
    or within `delta`, with a chance of .8 or more. Without enough evaluations of the base nothing can be said: empty.
    """
    _check(curves, base, delta, threshold=0.5)
    draws = final_draws(curves, full, bounds=bounds)
    if base not in draws:
        return []
    surest = {cell: _surest(draws[cell] - draws[base], delta) for cell in draws if cell != base}
    return [cell for cell in sorted(surest, key=lambda cell: surest[cell]) if surest[cell] < SETTLED]


def _surest(difference: FloatArray, delta: float) -> float:
    """The largest of the chances of better, equal and worse."""
    return max(float(np.mean(part)) for part in (difference > delta, np.abs(difference) <= delta, difference < -delta))


def _decision(
    cell: str, base: str, draws: Mapping[str, FloatArray], best: FloatArray, delta: float, threshold: float
) -> Decision:
    if cell not in draws:
        return Decision(cell, "keep", None, f"fewer than {ENOUGH_POINTS} evaluations: not judged yet")
    chance = float(np.mean(draws[cell] >= best - delta))
    expected, top = (number(float(np.median(values))) for values in (draws[cell], best))
    seen = f"expected {expected} at the full budget, the best {top}"
    within = f"chance of coming within {delta:g} of the best: {probability(chance)}"
    if cell == base:
        return Decision(cell, "keep", chance, f"the base is never stopped; {seen}")
    if chance < threshold:
        return Decision(cell, "stop", chance, f"{within}, below {threshold:g}; {seen}")
    return Decision(cell, "keep", chance, f"{within}, not below {threshold:g}; {seen}")


def _check(curves: Curves, base: str, delta: float, threshold: float) -> None:
    if base not in curves:
        raise InputError("the base is not among the cells", base, ", ".join(curves) or "at least one cell")
    if not delta >= 0:
        raise InputError("unusable delta", delta, "zero or more", "prune.delta")
    if not 0 < threshold < 1:
        raise InputError("unusable threshold", threshold, "between 0 and 1", "prune.threshold")
