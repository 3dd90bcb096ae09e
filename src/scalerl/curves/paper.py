"""The paper's own fitting procedure, step by step, kept as a reference to compare with; slow by design.

For every pair of a ceiling and a midpoint on fixed grids (pass rates, GPU-hours), `scipy.optimize.curve_fit` finds the
exponent alone from its default start, without weights; the pair with the least sum of squares wins.

The paper describes this for the sigmoid. For the power law it states no procedure: here the same grids are used with
scale = (ceiling - floor) midpoint^exponent, the sigmoid's limit, and ceilings up to 1, because the paper reports 1.0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from scalerl.curves.laws import LawName
from scalerl.curves.least_squares import Solution
from scalerl.errors import InputError
from scalerl.series import FloatArray

MIDPOINTS = np.linspace(100.0, 40000.0, 100)
CEILINGS = {"sigmoid": np.linspace(0.450, 0.800, 71), "power": np.linspace(0.450, 1.000, 111)}

ExponentLaw = Callable[[FloatArray, float], FloatArray]


def _sigmoid(floor: float, ceiling: float, midpoint: float) -> ExponentLaw:
    return lambda compute, exponent: floor + (ceiling - floor) / (1 + (midpoint / compute) ** exponent)


def _power(floor: float, ceiling: float, midpoint: float) -> ExponentLaw:
    return lambda compute, exponent: ceiling - (ceiling - floor) * (midpoint / compute) ** exponent


def solve_paper(law: LawName, compute: FloatArray, value: FloatArray, floor: float) -> Solution:
    """The best pair of the grids, with its exponent."""
    if law not in CEILINGS:
        raise InputError("the paper's procedure has no such law", law, " or ".join(CEILINGS))
    family = _sigmoid if law == "sigmoid" else _power
    best, best_sse = (np.nan, np.nan, np.nan), np.inf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", OptimizeWarning)
        for ceiling in CEILINGS[law]:
            for midpoint in MIDPOINTS:
                curve = family(floor, ceiling, midpoint)
                try:
                    (exponent,), _ = curve_fit(curve, compute, value)
                except RuntimeError:  # no convergence for this pair: it is not the best one
                    continue
                sse = float(np.sum((value - curve(compute, exponent)) ** 2))
                if sse < best_sse:
                    best, best_sse = (float(ceiling), float(midpoint), float(exponent)), sse
    return Solution(_named(law, floor, *best), best_sse, _at_edge(law, *best[:2]))


def _named(law: LawName, floor: float, ceiling: float, midpoint: float, exponent: float) -> dict[str, float]:
    if law == "sigmoid":
        return {"floor": floor, "ceiling": ceiling, "exponent": exponent, "midpoint": midpoint}
    return {"ceiling": ceiling, "scale": (ceiling - floor) * midpoint**exponent, "exponent": exponent}


def _at_edge(law: LawName, ceiling: float, midpoint: float) -> tuple[str, ...]:
    found = (("ceiling", ceiling, CEILINGS[law]), ("midpoint", midpoint, MIDPOINTS))
    return tuple(name for name, value, ticks in found if value in (ticks[0], ticks[-1]))
