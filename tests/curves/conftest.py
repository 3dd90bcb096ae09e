"""Curves with a known truth, the paper's 8B points, and the slow reference fits, shared by the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalerl.curves import Fit, fit
from scalerl.readers.examples import load_example
from scalerl.series import Series, StartValue


def simulated(
    *,
    floor: float = 0.3,
    ceiling: float = 0.7,
    exponent: float = 1.5,
    midpoint: float = 1000.0,
    last: float = 10000.0,
    points: int = 40,
    noise: float = 0.004,
    n: float | None = None,
    start: bool = True,
    seed: int = 0,
    name: str = "curve",
) -> Series:
    """A sigmoid seen at even spacings up to `last`, with white noise of standard deviation `noise`."""
    rng = np.random.default_rng(seed)
    compute = last * np.arange(1, points + 1) / points
    truth = floor + (ceiling - floor) / (1 + (midpoint / compute) ** exponent)
    value = np.clip(truth + noise * rng.standard_normal(points), 0.0, 1.0)
    first = StartValue(float(np.clip(floor + noise * rng.standard_normal(), 0.0, 1.0)), n) if start else None
    return Series.of(compute, value, n, start=first, name=name)


@pytest.fixture(scope="session")
def curve() -> Callable[..., Series]:
    return simulated


@pytest.fixture(scope="session")
def eight_b() -> Series:
    return load_example("scalerl-8b").series


@pytest.fixture(scope="session")
def paper_sigmoid(eight_b: Series) -> Fit:
    """The paper's procedure on the paper's window; a few seconds, hence once."""
    return fit(eight_b, floor=0.40, window=(1500, 50000), method="paper")


@pytest.fixture(scope="session")
def paper_power(eight_b: Series) -> Fit:
    return fit(eight_b, law="power", floor=0.40, window=(5000, 50000), method="paper")
