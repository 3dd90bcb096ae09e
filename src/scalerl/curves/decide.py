"""A decision to act on: is the gain from here to a budget worth having?

P is the posterior probability that the value at the budget exceeds the present one by at least `delta`. SCALE from .60
on, STOP up to .15, NEED MORE DATA between, with the smallest extra compute expected to settle it. Too few evaluations,
an unidentified ceiling when the ceiling is the question, and a falling curve override the probability.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from scalerl.curves.diagnose import ENOUGH_POINTS, compute_to_identify
from scalerl.curves.forecast import value_draws
from scalerl.curves.results import Action, Decision
from scalerl.errors import InputError
from scalerl.numbers import amount
from scalerl.series import BoolArray, FloatArray

if TYPE_CHECKING:
    from scalerl.curves.fit import Fit

SCALE_AT = 0.60
STOP_AT = 0.15
DELTA = 0.03
"""Gain worth paying for by default: three points of a pass rate."""
Question = Literal["value", "ceiling"]


def decide(
    fit: Fit, budget: float | None = None, *, delta: float | None = None, question: Question = "value"
) -> Decision:
    """SCALE, STOP, NEED MORE DATA or UNSTABLE at `budget` (default: twice the present compute).

    `delta` is the gain worth paying for, in the units of the value; by default .03 of the value's range (its bounds, or
    for a value without bounds the range that the points span). `question="ceiling"` asks for the gain that is left
    up to the ceiling, once that is identified.
    """
    budget = 2 * fit.last_compute if budget is None else budget
    scale = fit.posterior.scale
    delta = DELTA * (scale.width if scale.binomial else scale.width / 2) if delta is None else delta
    _check(fit, budget, delta, question)
    draws = value_draws(fit, np.array([fit.last_compute, budget]))
    now = float(np.median(draws[:, 0]))
    later = draws[:, 1]
    if question == "ceiling" and fit.ceiling is not None:
        later = fit.posterior.parameter_draws()["ceiling"]
    gains = later - draws[:, 0]
    probability = float(np.mean(gains >= delta))
    expected = float(np.median(gains))
    where = "at the ceiling" if question == "ceiling" else f"by {amount(budget)} {fit.compute_name}"
    action, reason = _judge(fit, probability, f"a gain of {delta:g} or more {where} is", question)
    extra = _extra_compute(fit, gains, draws[:, 0], budget, delta, question) if action == "NEED MORE DATA" else None
    return Decision(action, probability, reason, budget, delta, now, expected, extra)


def _check(fit: Fit, budget: float, delta: float, question: str) -> None:
    if not np.isfinite(budget) or budget <= 0:
        raise InputError("unusable budget", budget, "finite and above zero")
    if budget <= fit.last_compute:
        raise InputError(
            "the budget is already spent", budget, f"more than the last fitted compute, {fit.last_compute:g}", fit.name
        )  # fmt: skip
    if not np.isfinite(delta) or delta <= 0:
        raise InputError("unusable delta", delta, "above zero")
    if question not in ("value", "ceiling"):
        raise InputError("unknown question", question, "value, ceiling")


def _judge(fit: Fit, probability: float, gain: str, question: Question) -> tuple[Action, str]:
    falling = [d for d in fit.diagnostics if d.code in ("declining", "collapsing")]
    if falling:
        return "UNSTABLE", falling[0].message
    if fit.points < ENOUGH_POINTS:
        return "NEED MORE DATA", f"only {fit.points} evaluations; at least {ENOUGH_POINTS} are needed"
    if question == "ceiling" and not fit.identified:
        return "NEED MORE DATA", "the ceiling is not identified yet"
    if probability >= SCALE_AT:
        return "SCALE", f"{gain} likely"
    if probability <= STOP_AT:
        return "STOP", f"{gain} unlikely"
    return "NEED MORE DATA", f"{gain} neither likely nor unlikely"


def _extra_compute(
    fit: Fit, gains: FloatArray, now: FloatArray, budget: float, delta: float, question: Question
) -> float | None:
    """The smallest extra compute after which the answer is expected to be clear.

    Seeing the curve at C' splits the draws: those that agree with what is seen there keep their gains. The answer is
    clear at C' when, averaged over what could be seen, the chance lies beyond a threshold at least four times in five.
    """
    if question == "ceiling" and not fit.identified:
        return compute_to_identify(fit) - fit.last_compute
    if fit.points < ENOUGH_POINTS:
        spacing = (fit.last_compute - fit.first_compute) / max(fit.points - 1, 1)
        return (ENOUGH_POINTS - fit.points) * spacing
    ticks = np.geomspace(fit.last_compute, budget, 22)[1:-1]
    seen = _seen(fit, ticks) - now[:, None]
    success = gains >= delta
    for tick, column in zip(ticks, seen.T, strict=True):
        if _share_settled(column, success) >= 0.8:
            return float(tick - fit.last_compute)
    return None


def _seen(fit: Fit, ticks: FloatArray) -> FloatArray:
    """What an evaluation would show on the way: the draw's own law, but with a wobble and a walk of its own, because
    what a run will do by chance later cannot be seen earlier."""
    draws = fit.posterior
    other = np.random.default_rng(11).permutation(draws.luck.shape[0])
    luck = np.concatenate([draws.luck[other, :2], draws.luck[:, 2:]], axis=1)
    return draws.scale.to_value(replace(draws, luck=luck).predictive(ticks))


def _share_settled(seen: FloatArray, success: BoolArray, bins: int = 20) -> float:
    order = np.argsort(seen, kind="stable")
    chances = np.array([part.mean() for part in np.array_split(success[order], bins)])
    return float(np.mean((chances >= SCALE_AT) | (chances <= STOP_AT)))
