"""The forecasts that calibration.py judges, one row for each case, method and horizon.

The bootstrap (200 refits a forecast) is run on the real curves only: on thousands of simulated ones it takes hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from real_curves import rolling_splits
from scalerl import Series, decide, fit
from scalerl.curves import infer as engine
from scalerl.curves.backtest import METHODS, backtest, crps, interval_score
from scalerl.curves.forecast import value_draws
from scalerl.curves.results import Score
from simulate import SCENARIOS, simulate

LEVEL = 0.8
HORIZONS = (2.0, 4.0, 10.0)
ALL_METHODS = tuple(METHODS)
QUICK_RIVALS = ("last_value", "curve_fit")
SHARES = (0.3, 0.5)
STARTS = (1, 2, 3, 4, 5)
"""Of the sequences behind the draws, beside the one in use: what differs between them is luck."""

Row = dict[str, Any]
Curves = dict[tuple[str, str], Series]


def simulated(cases: int, seed: int) -> Iterator[Row]:
    """The value at 2x, 4x and 10x the compute seen, and the ceiling where it is claimed as identified."""
    rng = np.random.default_rng(seed)
    for scenario in SCENARIOS:
        for _ in range(cases):
            case = simulate(scenario, rng)
            last = float(case.seen.compute[-1])
            fitted = fit(case.seen, level=LEVEL)
            labels = {"scenario": scenario, "bend": case.bend}
            for horizon in HORIZONS:
                truth = float(case.truth(np.array([horizon * last]))[0])
                for method, draws in _forecasts(fitted, case.seen, horizon * last):
                    yield judged(draws, truth, what="value", method=method, horizon=horizon, **labels)
            if case.ceiling is not None and fitted.identified:
                ceilings = fitted.posterior.parameter_draws()["ceiling"]
                yield judged(ceilings, case.ceiling, what="ceiling", method="scalerl", **labels)


def ends(curves: Curves) -> Iterator[Row]:
    """The end of each real curve from its first 30 and 50 %, by every method."""
    for (project, name), series in curves.items():
        for score in backtest([series], shares=SHARES, level=LEVEL).scores:
            yield _row(score, project) | {"what": "end", "curve": name}


def ends_again(curves: Curves) -> Iterator[Row]:
    """The same by scalerl alone, with other starts of its draws."""
    used = engine.SEED
    for start in STARTS:
        engine.SEED = start
        for (project, name), series in curves.items():
            for score in backtest([series], shares=SHARES, level=LEVEL, methods=("scalerl",)).scores:
                yield _row(score, project) | {"what": "end again", "curve": name, "start": start}
    engine.SEED = used


def _row(score: Score, project: str) -> Row:
    assert score.low is not None
    assert score.high is not None
    return {
        "project": project, "method": score.method, "share": score.share, "error": score.error,
        "inside": score.inside, "width": score.high - score.low, "crps": score.crps,
        "interval_score": score.interval_score,
    }  # fmt: skip


def rolling(curves: Curves) -> Iterator[Row]:
    """From 20, 25, 35 and 50 % of the points to 1.5x, 2x and 4x the compute, and the decision at 2x."""
    for (project, name), series in curves.items():
        for share, horizon, seen, at, actual in rolling_splits(series):
            fitted = fit(seen, level=LEVEL)
            labels = {"project": project, "curve": name, "share": share, "horizon": horizon}
            for method, draws in _forecasts(fitted, seen, at):
                yield judged(draws, actual, what="rolling", method=method, **labels)
            if horizon == 2.0:
                decision = decide(fitted, at)
                gained = actual - float(seen.value[-3:].mean()) >= decision.delta
                yield labels | {"what": "decision", "probability": decision.probability, "gained": gained}


def _forecasts(fitted: Any, seen: Series, at: float) -> Iterator[tuple[str, np.ndarray]]:
    yield "scalerl", value_draws(fitted, np.array([at]))[:, 0]
    for rival in QUICK_RIVALS:
        yield rival, METHODS[rival](seen, at, (0.0, 1.0))


def judged(draws: np.ndarray, truth: float, **labels: Any) -> Row:
    """A forecast against what was true."""
    tail = (1 - LEVEL) / 2
    low, middle, high = (float(q) for q in np.quantile(draws, [tail, 0.5, 1 - tail]))
    return labels | {
        "error": middle - truth, "inside": low <= truth <= high, "width": high - low,
        "crps": crps(draws, truth), "interval_score": interval_score(low, high, truth, LEVEL),
    }  # fmt: skip
