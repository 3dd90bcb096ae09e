"""The laws: plain functions of compute, each with its gradient and its starting guess beside it.

    sigmoid     R = floor + (ceiling - floor) / (1 + (midpoint / C)^exponent)      the paper's law (Hill, log-logistic)
    power       R = ceiling - scale / C^exponent                                   its limit for C >> midpoint
    loglinear   R = intercept + slope ln C                                         before any bend
    flat        R = level                                                          nothing happens

Each is linear in two parameters once its shape is given, R = a + b g(C; shape), which `fit` and `posterior` use:
`shape_column` is g. Nothing here knows about data files, weights or noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from scalerl.series import FloatArray

LawName = Literal["sigmoid", "power", "loglinear", "flat"]


def sigmoid(compute: FloatArray, floor: float, ceiling: float, exponent: float, midpoint: float) -> FloatArray:
    """The paper's law; expit keeps it finite for any compute."""
    share: FloatArray = expit(exponent * (np.log(compute) - np.log(midpoint)))
    return floor + (ceiling - floor) * share


def sigmoid_gradient(compute: FloatArray, floor: float, ceiling: float, exponent: float, midpoint: float) -> FloatArray:
    """(N, 4): derivatives by floor, ceiling, exponent, midpoint."""
    log_ratio = np.log(compute) - np.log(midpoint)
    share = expit(exponent * log_ratio)
    bend = (ceiling - floor) * share * (1 - share)
    return np.column_stack([1 - share, share, bend * log_ratio, -bend * exponent / midpoint])


def guess_sigmoid(compute: FloatArray, value: FloatArray) -> tuple[float, float, float, float]:
    """Floor and ceiling from the extremes, the midpoint where half of the gain is made, exponent 1."""
    floor, ceiling = float(value.min()), float(value.max())
    midpoint = float(compute[np.argmin(np.abs(value - (floor + ceiling) / 2))])
    return floor, ceiling, 1.0, midpoint


def power(compute: FloatArray, ceiling: float, scale: float, exponent: float) -> FloatArray:
    """The saturating power law."""
    return ceiling - scale * np.exp(-exponent * np.log(compute))


def power_gradient(compute: FloatArray, ceiling: float, scale: float, exponent: float) -> FloatArray:
    """(N, 3): derivatives by ceiling, scale, exponent."""
    log_compute = np.log(compute)
    decay = np.exp(-exponent * log_compute)
    return np.column_stack([np.ones_like(compute), -decay, scale * decay * log_compute])


def guess_power(compute: FloatArray, value: FloatArray) -> tuple[float, float, float]:
    """Ceiling at the largest value, exponent 1, scale from the first point."""
    ceiling = float(value.max())
    return ceiling, float((ceiling - value[0]) * compute[0]), 1.0


def loglinear(compute: FloatArray, intercept: float, slope: float) -> FloatArray:
    """A straight line in ln compute."""
    return intercept + slope * np.log(compute)


def loglinear_gradient(compute: FloatArray, intercept: float, slope: float) -> FloatArray:
    """(N, 2): derivatives by intercept, slope."""
    return np.column_stack([np.ones_like(compute), np.log(compute)])


def guess_loglinear(compute: FloatArray, value: FloatArray) -> tuple[float, float]:
    """The line through the first and the last point."""
    span = np.log(compute[-1]) - np.log(compute[0])
    slope = float((value[-1] - value[0]) / span) if span > 0 else 0.0
    return float(value[0] - slope * np.log(compute[0])), slope


def flat(compute: FloatArray, level: float) -> FloatArray:
    """A constant."""
    return np.full_like(compute, level, dtype=np.float64)


def flat_gradient(compute: FloatArray, level: float) -> FloatArray:
    """(N, 1): derivative by level."""
    return np.ones((compute.size, 1))


def guess_flat(compute: FloatArray, value: FloatArray) -> tuple[float]:
    """The mean."""
    return (float(value.mean()),)


@dataclass(frozen=True)
class Law:
    """A law as the fitter sees it."""

    name: LawName
    parameters: tuple[str, ...]
    """In the order of the function's arguments."""
    function: Callable[..., FloatArray]
    gradient: Callable[..., FloatArray]
    guess: Callable[[FloatArray, FloatArray], tuple[float, ...]]


LAWS: dict[str, Law] = {
    "sigmoid": Law("sigmoid", ("floor", "ceiling", "exponent", "midpoint"), sigmoid, sigmoid_gradient, guess_sigmoid),
    "power": Law("power", ("ceiling", "scale", "exponent"), power, power_gradient, guess_power),
    "loglinear": Law("loglinear", ("intercept", "slope"), loglinear, loglinear_gradient, guess_loglinear),
    "flat": Law("flat", ("level",), flat, flat_gradient, guess_flat),
}
