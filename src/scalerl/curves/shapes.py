"""The laws as the posterior sees them: R = a + b g(ln C; shape), with a prior on the shape and on (a, b).

Compute is taken relative to the last fitted point (t = ln(C / C_last)), values on the unit scale. For the sigmoid a is
the floor and b the gain to the ceiling; for the power law a is the ceiling and b the gap left at the last point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from scalerl.curves.laws import LawName
from scalerl.curves.prior import Prior
from scalerl.series import FloatArray

FIXED_SD = 1e-4
"""A parameter given by the user, as a prior width: narrow, but not so that the algebra loses its digits."""
NOW_SD = 0.2
"""How far a straight line may lie from the present value."""


@dataclass(frozen=True)
class Present:
    """What a curve shows at its ends, on the unit scale."""

    start: float
    start_sd: float
    now: float
    steepness: float = 0.0
    """Slope now over the steepest slope so far, in ln compute: 1 while the curve has not begun to flatten."""
    ceiling: float | None = None
    """Fixed by the user."""


@dataclass(frozen=True)
class Belief:
    """One normal component of the prior of (a, b)."""

    weight: float
    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class Shape:
    """A law's nonlinear axes (mean, sd of each, normal priors), its column g, and the prior of (a, b)."""

    axes: tuple[tuple[float, float], ...]
    column: Callable[[FloatArray, FloatArray], FloatArray]
    """(nodes (J, axes), t (N,)) -> g (J, N)."""
    beliefs: tuple[Belief, ...]
    limit: Literal["above", "below", "none"]
    """How the bounds of the value limit b: the law's other end lies b above a (sigmoid) or b below it (power)."""


def shape_of(law: LawName, prior: Prior, present: Present) -> Shape:
    """The shape of a named law for one curve."""
    return {"sigmoid": _sigmoid, "power": _power, "loglinear": _loglinear, "flat": _flat}[law](prior, present)


def sigmoid_column(nodes: FloatArray, t: FloatArray) -> FloatArray:
    """Share of the gain made at t; nodes hold (ln(midpoint / C_last), ln exponent)."""
    share: FloatArray = expit(np.exp(nodes[:, 1:2]) * (t - nodes[:, 0:1]))
    return share


def _sigmoid(prior: Prior, present: Present) -> Shape:
    floor, floor_var = present.start, present.start_sd**2
    beliefs = tuple(
        # The floor and the ceiling are independent beforehand; (a, b) = (floor, ceiling - floor) are not.
        Belief(
            weight,
            np.array([floor, ceiling - floor]),
            np.array([[floor_var, -floor_var], [-floor_var, floor_var + sd**2]]),
        )
        for weight, ceiling, sd in _ceilings(prior, present)
    )
    return Shape((prior.log_midpoint, prior.log_exponent), sigmoid_column, beliefs, "above")


def _power(prior: Prior, present: Present) -> Shape:
    beliefs = tuple(
        # The gap left now is the ceiling minus the present value, which the data know well: one shared uncertainty.
        Belief(
            weight,
            np.array([ceiling, ceiling - present.now]),
            np.array([[sd**2, sd**2], [sd**2, sd**2 + NOW_SD**2]]),
        )
        for weight, ceiling, sd in _ceilings(prior, present)
    )
    axis = (prior.log_exponent[0] - 0.7, 0.8)
    return Shape((axis,), _power_column, beliefs, "below")


def _loglinear(prior: Prior, present: Present) -> Shape:
    belief = Belief(1.0, np.array([present.now, 0.03]), np.diag([NOW_SD**2, 0.15**2]))
    return Shape((), _line, (belief,), "none")


def _flat(prior: Prior, present: Present) -> Shape:
    belief = Belief(1.0, np.array([present.now, 0.0]), np.diag([NOW_SD**2, FIXED_SD**2]))
    return Shape((), _line, (belief,), "none")


def _power_column(nodes: FloatArray, t: FloatArray) -> FloatArray:
    # Far before the last point a steep power has no end; beyond exp(150) no curve is like it, and squares overflow.
    column: FloatArray = -np.exp(np.minimum(-np.exp(nodes[:, 0:1]) * t, 150.0))
    return column


def _line(nodes: FloatArray, t: FloatArray) -> FloatArray:
    return np.broadcast_to(t, (nodes.shape[0], t.size))


def _ceilings(prior: Prior, present: Present) -> list[tuple[float, float, float]]:
    """(weight, mean, sd) of the ceiling."""
    if present.ceiling is not None:
        return [(1.0, present.ceiling, FIXED_SD)]
    room = max(1.0 - present.now, 0.05)
    gain = max(present.now - present.start, 0.01)
    weight, near_mean, near_sd = prior.near
    weight *= 1 - prior.climbing * present.steepness
    far_mean, far_sd = prior.far
    return [
        (weight, present.now + near_mean * gain, near_sd * gain),
        (1 - weight, present.now + far_mean * room, far_sd * room),
    ]
