"""Curves and results that the report's tests look at. Fitting takes a moment, so each fit is made once."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console, RenderableType

from scalerl.curves import Fit, fit
from scalerl.curves.results import Backtest, Comparison, Decision, Estimate, Pair, Score
from scalerl.series import Series


def rising(
    name: str = "run", *, ceiling: float = 0.62, midpoint: float = 800.0, last: float = 12_000.0, points: int = 30
) -> Series:
    """A noisy sigmoid from 0.3, exponent 1.7."""
    compute = np.geomspace(100.0, last, points)
    smooth = 0.3 + (ceiling - 0.3) / (1 + (midpoint / compute) ** 1.7)
    noise = np.random.default_rng(5).normal(0, 0.004, points)
    return Series.of(compute, smooth + noise, start=0.3, name=name, compute_name="GPU-hours", value_name="pass rate")


@pytest.fixture(scope="session")
def bent() -> Fit:
    """Well past its midpoint, with points before the window and held-out points after it."""
    made = fit(rising("bent"), window=(150.0, 8_000.0))
    assert made.identified
    return made


@pytest.fixture(scope="session")
def straight() -> Fit:
    """Not bent yet: its ceiling is anybody's guess."""
    made = fit(rising("straight", midpoint=9_000.0, last=2_000.0))
    assert not made.identified
    return made


@pytest.fixture(scope="session")
def pair_of_fits() -> list[Fit]:
    return [fit(rising("runs/base")), fit(rising("runs/worse", ceiling=0.55))]


@pytest.fixture
def decision() -> Decision:
    return Decision("NEED MORE DATA", 0.43, "neither likely nor unlikely", 20_000.0, 0.03, 0.6, 0.021, 1_300.0)


@pytest.fixture
def comparison() -> Comparison:
    pair = Pair(
        reference="runs/base", challenger="runs/worse", ceiling=Estimate(-0.07, -0.09, -0.05),
        exponent=Estimate(0.1, -0.4, 0.5), log_midpoint=Estimate(np.log(2.0), np.log(1.5), np.log(2.5)),
        probability_ceiling_higher=0.001, probability_ceiling_equal=0.02, probability_ceiling_lower=0.979,
        probability_more_efficient=0.6, probability_earlier=0.5,
        verdict="moves the ceiling", winner="runs/base", paper_verdict="base has the higher ceiling",
        common_ceiling=None, exponents_at_common_ceiling=None, overtakes_at=Estimate(5e4, 4e4, 6e4),
        caution="one seed each", overtaker="runs/worse",
    )  # fmt: skip
    return Comparison("runs/base", 0.8, 0.02, ("runs/base", "runs/worse"), (pair,))


@pytest.fixture
def backtest() -> Backtest:
    """`good` always holds, `bad` never does, `bare` has no interval."""
    scores = []
    for index in range(30):
        actual, curve = 0.5 + 0.01 * index, f"curve {index}"
        scores.append(Score(curve, "good", 0.3, 1e3, actual, actual + 0.01, actual - 0.05, actual + 0.05, 0.01, 0.1))
        scores.append(Score(curve, "bad", 0.3, 1e3, actual, actual + 0.1, actual + 0.08, actual + 0.12, 0.09, 0.84))
        scores.append(Score(curve, "bare", 0.3, 1e3, actual, actual + 0.04, None, None, None, None))
    return Backtest(0.8, tuple(scores))


Show = Callable[..., str]


@pytest.fixture
def show() -> Show:
    """What a pipe of some width and encoding receives."""

    def render(thing: RenderableType, width: int = 80, encoding: str = "utf-8") -> str:
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
        Console(file=stream, width=width, highlight=False).print(thing)
        stream.flush()
        return raw.getvalue().decode(encoding)

    return render
