"""What to know before trusting a fit, in words with stable codes.

    too_few_points           fewer points than a forecast should rest on
    at_bound                 a parameter sits at the end of its range
    ceiling_not_identified   the curve has not bent far enough; `compute` tells how far it should go
    window_sensitive         the ceiling moves when the window moves (the paper's table A.7 as a check)
    declining, collapsing    the last evaluations lie below the best ones: no monotone law can represent that
    no_better_than_flat      the law explains no more than a constant

Called by `fit`; reads a fit that has parameters and draws, and never raises because of bad news.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalerl.curves.least_squares import Problem, Solution, solve_near
from scalerl.curves.results import Diagnostic, WindowFit
from scalerl.curves.scale import Scale
from scalerl.curves.spacing import second_difference_sd
from scalerl.numbers import amount, number
from scalerl.series import FloatArray, Series

if TYPE_CHECKING:
    from scalerl.curves.fit import Fit

ENOUGH_POINTS = 8
BEND = 3.0
"""The ceiling is quoted when the last compute is at least this many midpoints."""
IDENTIFIED_WIDTH = 0.15
"""... and its interval is no wider than this share of the value's range."""
SENSITIVE = 0.05
"""Move of the ceiling over the windows, as a share of the value's range, that is worth a warning."""
WINDOW_CUTS = ((0.0, 1.0), (0.1, 1.0), (0.25, 1.0), (0.0, 0.8), (0.0, 0.6))
"""Windows tried, as shares of the points: the whole, later starts, earlier ends."""
FALL_SDS = 3.0
LARGE_FALL = 0.15
"""A fall of so much of the value's range counts even where the collapse itself makes the noise look large."""
UNTRUSTED = frozenset({"declining", "collapsing", "no_better_than_flat"})
"""With one of these no ceiling is quoted."""
CORRELATED = 3.0
"""Evaluations that are worth one independent one: 40 of them are worth about 15 on real curves."""


def is_identified(fit: Fit) -> bool:
    """Whether the data, rather than the prior, place the ceiling."""
    if fit.fixed_ceiling is not None or fit.ceiling is None:
        return fit.fixed_ceiling is not None
    draws = fit.posterior.parameter_draws()
    low, high = np.quantile(draws["ceiling"], [0.1, 0.9])
    narrow = bool(high - low <= IDENTIFIED_WIDTH * fit.posterior.scale.width)
    if "midpoint" not in draws:
        return narrow
    return narrow and _is_bent(fit, draws["midpoint"])


def _is_bent(fit: Fit, midpoints: FloatArray) -> bool:
    return bool(np.mean(BEND * midpoints <= fit.last_compute) >= 0.5)


def refit_windows(fit: Fit, problem: Problem, solution: Solution) -> tuple[WindowFit, ...]:
    """The same law on other windows of the same points: later starts and earlier ends."""
    if fit.law != "sigmoid" or fit.method == "paper":
        return ()
    ticks = np.unique(problem.compute)
    windows = []
    for start, end in WINDOW_CUTS:
        low, high = ticks[int(start * (ticks.size - 1))], ticks[int(np.ceil(end * (ticks.size - 1)))]
        keep = (problem.compute >= low) & (problem.compute <= high)
        if keep.sum() < ENOUGH_POINTS:
            continue
        part = Problem(problem.compute[keep], problem.value[keep], problem.weight[keep], problem.boxes)
        p = (solution if keep.all() else solve_near(solution, part)).parameters
        windows.append(
            WindowFit(float(low), float(high), int(keep.sum()), p["ceiling"], p["exponent"], p["midpoint"])
        )  # fmt: skip
    return tuple(windows)


def diagnose(fit: Fit, problem: Problem, solution: Solution, windows: Sequence[WindowFit]) -> tuple[Diagnostic, ...]:
    """Everything worth saying, most important first."""
    falling = [*_falling(fit)]
    found = [
        *falling,
        *_too_few(fit),
        *_flat(fit, problem, solution),
        *(() if falling else _unidentified(fit)),  # more of a falling curve would not tell its ceiling
        *_at_bound(solution),
        *_sensitive(fit, windows),
    ]
    return tuple(found)


def _too_few(fit: Fit) -> Iterator[Diagnostic]:
    if fit.points < ENOUGH_POINTS:
        yield Diagnostic(
            "too_few_points", f"only {fit.points} points; {ENOUGH_POINTS} or more make a forecast worth its name"
        )


def _at_bound(solution: Solution) -> Iterator[Diagnostic]:
    if solution.at_bound:
        names = " and ".join(f"{name} ({number(solution.parameters[name])})" for name in solution.at_bound)
        yield Diagnostic("at_bound", f"least squares ends at a bound of its range: {names}")


def _unidentified(fit: Fit) -> Iterator[Diagnostic]:
    if fit.ceiling is None or fit.fixed_ceiling is not None or is_identified(fit):
        return
    needed = compute_to_identify(fit)
    total = f"about {amount(needed)} {fit.compute_name} in total should"
    bent = "midpoint" in (draws := fit.posterior.parameter_draws()) and _is_bent(fit, draws["midpoint"])
    why = "the ceiling's interval is still wide" if bent else "the curve has not bent far enough to tell its ceiling"
    message = f"{why}; {total}"
    yield Diagnostic("ceiling_not_identified", message, needed)


def compute_to_identify(fit: Fit) -> float:
    """Total compute that should identify the ceiling: enough midpoints, and at least half as much again as now."""
    midpoint = fit.posterior.parameter_draws().get("midpoint")
    bend = 0.0 if midpoint is None else BEND * float(np.median(midpoint))
    return max(bend, 1.5 * fit.last_compute)


def _sensitive(fit: Fit, windows: Sequence[WindowFit]) -> Iterator[Diagnostic]:
    if not is_identified(fit):  # before the bend every ceiling is, and another line says so
        return
    middle = np.inf if fit.midpoint is None else fit.midpoint.value
    ceilings = [w.ceiling for w in windows if w.low <= middle]  # a window without the rise cannot tell the law
    if len(ceilings) < 3:
        return
    spread = max(ceilings) - min(ceilings)
    if spread > SENSITIVE * fit.posterior.scale.width:
        ends = f"{number(min(ceilings))} and {number(max(ceilings))}"
        yield Diagnostic("window_sensitive", f"the ceiling moves between {ends} when the window of the fit moves")


def _flat(fit: Fit, problem: Problem, solution: Solution) -> Iterator[Diagnostic]:
    """AIC, with correlated evaluations counted at about a third of their number."""
    if fit.law == "flat":
        return
    mean = np.full_like(problem.value, np.average(problem.value, weights=problem.weight))
    fixed = {"floor": fit.fixed_floor is not None, "ceiling": fit.fixed_ceiling is not None}
    free = sum(not fixed.get(name, False) for name in solution.parameters)
    tiny = 1e-12 * fit.posterior.scale.width**2
    gain = fit.points / CORRELATED * np.log((problem.sse(mean) + tiny) / (solution.sse + tiny))
    if gain < 2 * (free - 1):
        yield Diagnostic("no_better_than_flat", f"the {fit.law} law explains these points no better than a constant")


def _falling(fit: Fit) -> Iterator[Diagnostic]:
    for series in fit.fitted:
        fall, sd, gain = fall_from_best(series, fit.posterior.scale)
        large = fall > LARGE_FALL * fit.posterior.scale.width and fall > 1.5 * sd
        if fall <= FALL_SDS * sd and not large:
            continue
        code = "collapsing" if fall > 0.25 * gain else "declining"
        yield Diagnostic(
            code,
            f"the last three evaluations lie {number(fall, 2)} below the best three in a row "
            f"({number(fall / sd, 2)} sd): a rising law cannot represent that",
        )
        return


def fall_from_best(series: Series, scale: Scale) -> tuple[float, float, float]:
    """(how far the mean of the last three lies below the best mean of three, its sd, the gain made until the best)."""
    if len(series) < 6:
        return 0.0, 1.0, 1.0
    threes = np.convolve(series.value, np.full(3, 1 / 3), mode="valid")
    best = float(threes.max())
    start = float(series.value[0] if series.start is None else series.start.value)
    noise = second_difference_sd(scale.to_unit(series.value)) * scale.width
    # Neighbouring evaluations are correlated, so a mean of three is worth little more than one evaluation.
    sd = noise * np.sqrt(2.0) * 0.8
    return best - float(threes[-1]), max(sd, 1e-6 * scale.width), max(best - start, 1e-12)
