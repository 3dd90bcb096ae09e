"""Simulated evaluation curves with a known truth: the sigmoid itself, and the ways in which reality departs from it.

Used by calibration.py. Every scenario draws its own parameters; evaluations are evenly spaced in compute, as trainers
make them; the noise is what real curves show: a quarter of the binomial variance, white, plus an AR(1) wobble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalerl import Series, StartValue

Truth = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One simulated run: what was seen, the truth beyond it, and the true ceiling where there is one."""

    scenario: str
    seen: Series
    truth: Truth
    ceiling: float | None
    bend: float
    """Last compute over midpoint."""


@dataclass(frozen=True)
class Noise:
    n: int = 500
    share: float = 0.25
    """White variance as a share of the binomial one."""
    wobble: float = 0.006
    memory: float = 0.6


def _sigmoid(rng: np.random.Generator, floor: float, ceiling: float, midpoint: float) -> Truth:
    exponent = float(np.exp(rng.normal(np.log(1.3), 0.5)))
    return lambda c: floor + (ceiling - floor) / (1 + (midpoint / c) ** exponent)


def _gompertz(rng: np.random.Generator, floor: float, ceiling: float, midpoint: float) -> Truth:
    exponent = float(np.exp(rng.normal(np.log(1.2), 0.4)))
    return lambda c: floor + (ceiling - floor) * 0.5 ** ((midpoint / c) ** exponent)


def _five_parameters(rng: np.random.Generator, floor: float, ceiling: float, midpoint: float) -> Truth:
    exponent, skew = float(np.exp(rng.normal(np.log(1.3), 0.5))), float(np.exp(rng.normal(0.0, 0.5)))
    shift = (2 ** (1 / skew) - 1) ** (-1 / exponent)  # so that half of the gain is made at the midpoint
    return lambda c: floor + (ceiling - floor) / (1 + (midpoint / (shift * c)) ** exponent) ** skew


def _two_stage(rng: np.random.Generator, floor: float, ceiling: float, midpoint: float) -> Truth:
    split = floor + rng.uniform(0.2, 0.5) * (ceiling - floor)
    fast = _sigmoid(rng, floor, split, midpoint * rng.uniform(0.03, 0.15))
    slow = _sigmoid(rng, 0.0, ceiling - split, midpoint)
    return lambda c: fast(c) + slow(c)


def _decay(rng: np.random.Generator, floor: float, ceiling: float, midpoint: float) -> Truth:
    rise = _sigmoid(rng, floor, ceiling, midpoint)
    turn, rate = midpoint * float(np.exp(rng.uniform(0.5, 3.0))), rng.uniform(0.01, 0.06)
    return lambda c: np.maximum(rise(c) - rate * np.log(np.maximum(c / turn, 1.0)), 0.0)


SCENARIOS: dict[str, tuple[Callable[..., Truth], Noise]] = {
    "well specified": (_sigmoid, Noise()),
    "n = 100": (_sigmoid, Noise(n=100)),
    "rho = .9": (_sigmoid, Noise(wobble=0.012, memory=0.9)),
    "Gompertz": (_gompertz, Noise()),
    "5 parameters": (_five_parameters, Noise()),
    "two stages": (_two_stage, Noise()),
    "plateau, then decay": (_decay, Noise()),
}


def simulate(scenario: str, rng: np.random.Generator) -> Case:
    """One run of a scenario, seen up to between 0.1 and 30 midpoints."""
    family, noise = SCENARIOS[scenario]
    floor = rng.uniform(0.05, 0.5)
    ceiling = min(floor + rng.uniform(0.1, 0.5), 0.98)
    bend = float(np.exp(rng.uniform(np.log(0.1), np.log(30.0))))
    points = int(rng.integers(15, 61))
    last = 1000.0
    truth = family(rng, floor, ceiling, last / bend)
    compute = last * np.arange(1, points + 1) / points
    value = np.clip(truth(compute) + _noise(truth(compute), noise, rng), 0.0, 1.0)
    first = np.clip(floor + np.sqrt(noise.share * floor * (1 - floor) / noise.n) * rng.standard_normal(), 0.0, 1.0)
    seen = Series.of(compute, value, noise.n, start=StartValue(float(first), noise.n), name=scenario)
    return Case(scenario, seen, truth, None if family is _decay else ceiling, bend)


def _noise(share: np.ndarray, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    white = np.sqrt(noise.share * share * (1 - share) / noise.n) * rng.standard_normal(share.size)
    wobble = np.empty(share.size)
    state = noise.wobble * rng.standard_normal()
    for i in range(share.size):
        wobble[i] = state
        state = noise.memory * state + noise.wobble * np.sqrt(1 - noise.memory**2) * rng.standard_normal()
    return np.asarray(white + wobble)
