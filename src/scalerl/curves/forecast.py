"""Forecasts from a fit: the value at any compute, the compute for a target, the gain of each doubling.

Every number is a median or quantile over the posterior's draws; `level` is the share an interval should hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalerl.curves.results import Estimate, Forecast, TargetForecast, check_level
from scalerl.errors import InputError
from scalerl.numbers import amount, estimate
from scalerl.numbers import probability as chance_of
from scalerl.series import FloatArray

if TYPE_CHECKING:
    from scalerl.curves.fit import Fit

FAR = 1e6
"""A target is called unreached when the law needs more than this many times the present compute."""


def forecast(fit: Fit, computes: Sequence[float] | FloatArray, *, level: float | None = None) -> tuple[Forecast, ...]:
    """Median and interval of the value at each compute. The paper's procedure has no interval: None."""
    at = _positive(computes)
    if fit.method == "paper":
        return tuple(Forecast(float(c), float(v), None, None) for c, v in zip(at, fit.value_at(at), strict=True))
    low, middle, high = quantiles(value_draws(fit, at), _level(fit, level))
    rows = zip(at, middle, low, high, strict=True)
    return tuple(Forecast(float(c), float(m), float(lo), float(hi)) for c, m, lo, hi in rows)


def reach(fit: Fit, target: float, *, level: float | None = None) -> TargetForecast:
    """The compute at which the law reaches `target`, given that the law holds (no flat or declining future)."""
    if not np.isfinite(target):
        raise InputError("unusable target", target, "a finite value")
    if fit.method == "paper":
        return _reach_paper(fit, target)
    needed = _compute_for(fit, target)
    probability = float(np.mean(np.isfinite(needed)))
    tail = (1 - _level(fit, level)) / 2
    low, middle, high = (_finite(np.quantile(needed, q, method="inverted_cdf")) for q in (tail, 0.5, 1 - tail))
    return TargetForecast(target, probability, middle, low, high, _words(fit, target, probability, middle))


def marginal_gains(fit: Fit, doublings: int = 4, *, level: float | None = None) -> tuple[tuple[float, Estimate], ...]:
    """For each further doubling: the compute reached, and what that doubling alone adds."""
    if doublings < 1:
        raise InputError("unusable number of doublings", doublings, "1 or more")
    at = np.array([fit.last_compute * 2.0**i for i in range(doublings + 1)])
    if fit.method == "paper":
        steps = np.diff(fit.value_at(at))
        return tuple((float(c), Estimate(float(g))) for c, g in zip(at[1:], steps, strict=True))
    gains = np.diff(value_draws(fit, at), axis=1)
    low, middle, high = quantiles(gains, _level(fit, level))
    rows = zip(at[1:], middle, low, high, strict=True)
    return tuple((float(c), Estimate(float(m), float(lo), float(hi))) for c, m, lo, hi in rows)


def value_draws(fit: Fit, computes: FloatArray) -> FloatArray:
    """Posterior predictive draws (M, K) in the units of the data."""
    return fit.posterior.scale.to_value(fit.posterior.predictive(computes))


def quantiles(draws: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    tail = (1 - level) / 2
    low, middle, high = np.quantile(draws, [tail, 0.5, 1 - tail], axis=0)
    return low, middle, high


def log_f(fit: Fit, ceiling: float | None = None) -> list[tuple[FloatArray, FloatArray]]:
    """The paper's straightened plot for each series: C against F = midpoint^B / ((A-R0)/(R-R0) - 1), which is C^B.

    Points at or beyond the floor or the ceiling have no F and are left out, and so are those before the window.
    `ceiling` stands in for the fitted one.
    """
    if fit.law != "sigmoid":
        raise InputError("log F is defined for the sigmoid only", fit.law, "sigmoid")
    p = {name: estimate.value for name, estimate in fit.parameters.items()}
    top = p["ceiling"] if ceiling is None else ceiling
    found = []
    for series in (s.window(fit.window[0], None) for s in fit.series):
        with np.errstate(all="ignore"):
            odds = 1 / ((top - p["floor"]) / (series.value - p["floor"]) - 1)
            f = np.exp(p["exponent"] * np.log(p["midpoint"]) + np.log(odds))
        keep = np.isfinite(f) & (f > 0)
        found.append((series.compute[keep], f[keep]))
    return found


def _level(fit: Fit, level: float | None) -> float:
    return fit.level if level is None else check_level(level)


def _positive(computes: Sequence[float] | FloatArray) -> FloatArray:
    at: FloatArray = np.atleast_1d(np.asarray(computes, dtype=np.float64))
    if not at.size:
        raise InputError("no compute to forecast at", allowed="one or more")
    bad = ~(np.isfinite(at) & (at > 0))
    if bad.any():
        raise InputError("unusable compute to forecast at", float(at[bad][0]), "finite and above zero")
    return at


def _compute_for(fit: Fit, target: float) -> FloatArray:
    """Per draw: the compute at which the law, carried on from the present level, reaches the target; inf: never."""
    draws = fit.posterior
    ticks = _ticks(fit)
    path = np.clip(draws.curve(ticks) + draws.state[:, 1:2], *draws.scale.limits)
    return np.array([_crossing(ticks, one, float(draws.scale.to_unit(target))) for one in path])


def _ticks(fit: Fit) -> FloatArray:
    return np.geomspace(fit.first_compute / 100, FAR * fit.last_compute, 160)


def _crossing(ticks: FloatArray, path: FloatArray, target: float) -> float:
    """Where a path first reaches the target, between two ticks on a log scale; inf when it does not."""
    above = path >= target
    first = int(np.argmax(above))
    if not above[first]:
        return float(np.inf)
    if first == 0:
        return float(ticks[0])
    share = (target - path[first - 1]) / (path[first] - path[first - 1])
    return float(ticks[first - 1] * (ticks[first] / ticks[first - 1]) ** share)


def _reach_paper(fit: Fit, target: float) -> TargetForecast:
    ticks = _ticks(fit)
    compute = _finite(_crossing(ticks, fit.value_at(ticks), target))
    return TargetForecast(target, None, compute, None, None, _words(fit, target, None, compute))


def _words(fit: Fit, target: float, probability: float | None, compute: float | None) -> str:
    ceiling = "" if fit.ceiling is None else f" ({estimate(fit.ceiling)})"
    if compute is None:
        chance = "" if probability is None else f"; chance that it is reached at all: {chance_of(probability)}"
        return f"never: {target:g} lies above the ceiling{ceiling}{chance}"
    if compute <= fit.last_compute:
        return f"{target:g} is reached already, at about {amount(compute)} {fit.compute_name}"
    chance = "" if probability is None else f"; chance that it is reached at all: {chance_of(probability)}"
    return f"{target:g} at about {amount(compute)} {fit.compute_name}{chance}"


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
