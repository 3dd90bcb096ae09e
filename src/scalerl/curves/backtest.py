"""Backtests: fit the first share of a curve, score the forecast of its end, beside the usual ways of doing it.

    scalerl       the posterior of this package
    last_value    (M0) the last value, with the noise between evaluations as its error
    curve_fit     (M1) unconstrained least squares, delta-method error from the covariance of the parameters
    bootstrap     (M2) least squares within bounds, refitted on resampled residuals

The target is the mean of the last three evaluations. Collapses stay in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit
from scipy.special import ndtri

from scalerl.curves.fit import MIN_POINTS, fit
from scalerl.curves.forecast import value_draws
from scalerl.curves.laws import guess_sigmoid, sigmoid
from scalerl.curves.least_squares import Problem, solve
from scalerl.curves.results import Backtest, Score, check_level
from scalerl.curves.scale import Bounds, Scale
from scalerl.curves.spacing import second_difference_sd
from scalerl.errors import InputError
from scalerl.series import FloatArray, Series

TARGET_POINTS = 3
NUM_RESAMPLES = 200

Method = Callable[[Series, float, Bounds], FloatArray]
"""(the points seen, the compute to forecast, bounds) -> draws of the value there."""


def backtest(
    curves: Sequence[Series],
    *,
    shares: Sequence[float] = (0.3, 0.5),
    level: float = 0.8,
    bounds: Bounds = (0.0, 1.0),
    methods: Sequence[str] = ("scalerl", "last_value", "curve_fit", "bootstrap"),
) -> Backtest:
    """Score each method on each curve at each share."""
    check_level(level)
    for share in shares:
        if not 0 < share < 1:
            raise InputError("unusable share", share, "between 0 and 1")
    for name in methods:
        if name not in METHODS:
            raise InputError("unknown method", name, ", ".join(METHODS))
    scores = [
        _score(curve, share, name, level, bounds) for curve in curves for share in shares for name in methods
    ]  # fmt: skip
    return Backtest(level, tuple(scores))


def split(curve: Series, share: float) -> tuple[Series, float, float]:
    """(the points seen, the compute of the target, the target): so many of the points beside step 0, rounded."""
    seen = round(share * len(curve))
    if seen < MIN_POINTS - 1 or len(curve) - max(seen, MIN_POINTS) < TARGET_POINTS:
        allowed = f"about {int(np.ceil(MIN_POINTS / share))} or more at a share of {share:g}"
        raise InputError("too few points to backtest", len(curve), allowed, curve.source or curve.name)
    at = float(np.exp(np.mean(np.log(curve.compute[-TARGET_POINTS:]))))
    return curve.head(max(seen, MIN_POINTS)), at, float(curve.value[-TARGET_POINTS:].mean())


def _score(curve: Series, share: float, name: str, level: float, bounds: Bounds) -> Score:
    seen, at, actual = split(curve, share)
    draws = METHODS[name](seen, at, bounds)
    tail = (1 - level) / 2
    low, value, high = (float(q) for q in np.quantile(draws, [tail, 0.5, 1 - tail]))
    return Score(
        curve.name, name, share, at, actual, value, low, high,
        crps(draws, actual), interval_score(low, high, actual, level),
    )  # fmt: skip


def crps(draws: FloatArray, actual: float) -> float:
    """Continuous ranked probability score of an ensemble: mean |X - y| - mean |X - X'| / 2."""
    ranked = np.sort(draws)
    size = ranked.size
    spread = float(np.sum((2 * np.arange(1, size + 1) - size - 1) * ranked)) / size**2
    return float(np.mean(np.abs(ranked - actual))) - spread


def interval_score(low: float, high: float, actual: float, level: float) -> float:
    """Width plus 2/(1-level) times the distance by which the interval misses (Gneiting and Raftery 2007)."""
    missed = max(low - actual, 0.0) + max(actual - high, 0.0)
    return high - low + 2 / (1 - level) * missed


def _scalerl(seen: Series, at: float, bounds: Bounds) -> FloatArray:
    return value_draws(fit(seen, bounds=bounds), np.array([at]))[:, 0]


def _normal(mean: float, sd: float, size: int = 400) -> FloatArray:
    """Evenly spread quantiles of a normal distribution: draws without luck."""
    return mean + sd * ndtri((np.arange(size) + 0.5) / size)


def _last_value(seen: Series, at: float, bounds: Bounds) -> FloatArray:
    return _normal(float(seen.value[-1]), _noise(seen, bounds))


def _noise(seen: Series, bounds: Bounds) -> float:
    scale = Scale.of([seen], bounds)
    return second_difference_sd(scale.to_unit(seen.value)) * scale.width


def _curve_fit(seen: Series, at: float, bounds: Bounds) -> FloatArray:
    """All four parameters free and unbounded, as `curve_fit` is mostly called; the last value where it fails.

    What it forecasts is kept within the bounds of the value: anybody would clip a pass rate of 40.
    """

    def law(compute: FloatArray, ceiling: float, exponent: float, log_midpoint: float, floor: float) -> FloatArray:
        return sigmoid(compute, floor, ceiling, exponent, np.exp(log_midpoint))

    floor, ceiling, exponent, midpoint = guess_sigmoid(seen.compute, seen.value)
    guess = [ceiling, exponent, np.log(midpoint), floor]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", OptimizeWarning)
        try:
            best, covariance = curve_fit(law, seen.compute, seen.value, p0=guess, maxfev=4000)
        except (RuntimeError, TypeError):  # no convergence, or fewer points than parameters
            return _last_value(seen, at, bounds)
        value = float(law(np.array([at]), *best)[0])
        step = 1e-6 * np.maximum(np.abs(best), 1e-3)
        moves = [law(np.array([at]), *(best + step * unit))[0] for unit in np.eye(best.size)]
        gradient = (np.array(moves) - value) / step
        variance = float(gradient @ covariance @ gradient)
    if not (np.isfinite(value) and np.isfinite(variance) and variance >= 0):
        return _last_value(seen, at, bounds)
    return np.clip(_normal(value, float(np.sqrt(variance))), *(bounds or (-np.inf, np.inf)))


def _bootstrap(seen: Series, at: float, bounds: Bounds) -> FloatArray:
    rng = np.random.default_rng(0)
    problem = Problem.of([seen], bounds, None, None)
    best = solve("sigmoid", problem).parameters
    smooth = sigmoid(seen.compute, **best)
    residual = seen.value - smooth
    low, high = bounds or (-np.inf, np.inf)
    draws = []
    for _ in range(NUM_RESAMPLES):
        value = np.clip(smooth + rng.choice(residual, residual.size), low, high)
        again = solve("sigmoid", Problem(problem.compute, value, problem.weight, problem.boxes)).parameters
        draws.append(float(sigmoid(np.array([at]), **again)[0]))
    return np.array(draws)


METHODS: dict[str, Method] = {
    "scalerl": _scalerl, "last_value": _last_value, "curve_fit": _curve_fit, "bootstrap": _bootstrap,
}  # fmt: skip
