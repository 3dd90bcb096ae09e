"""The rules by which tune.py turns scores into a choice. Pure arithmetic: no curve, no fit, no file.

A rule takes the scored candidates and the project it must not look at (None: it may see all), and returns figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

FALLING = "plateau, then decay"
WELL_SPECIFIED = "well specified"
COVERAGE = (0.77, 0.86)
"""Wanted of the 80 % intervals: inside the limits of calibration.py, with a margin for the luck of the draw."""
BEST_SHARE = 0.05
STEP = 0.25
SHORT_STEP = 0.15
RIDGE = 1.0
"""Against the luck of a plane through few candidates."""
ASKED = {0.3: (0.025 / 0.0270, 0.159 / 0.1592), 0.5: (0.016 / 0.0147, 0.110 / 0.0899)}
"""CRPS and interval score that the limits ask for at each share, over those of the neutral figures, on all 38 curves.
These four constants are the one thing that a choice made without a project knows about it."""


class Forecast(NamedTuple):
    """Which forecast a row of scores is about."""

    project: str
    share: float
    judges: bool
    """The curve is long enough to be among those that judge; the others only choose."""


@dataclass(frozen=True)
class Candidate:
    """One set of figures and its scores."""

    point: np.ndarray
    forecasts: Sequence[Forecast]
    real: np.ndarray  # (forecasts, 3): inside, CRPS, interval score
    simulated: dict[str, list[float]]  # per scenario: coverage, interval score at 2x; at 4x; ceilings quoted, held

    def rows(self, project: str, share: float, *, judges: bool) -> np.ndarray:
        wanted = Forecast(project, share, judges)
        return self.real[[forecast == wanted for forecast in self.forecasts]]

    def parts(self, project: str) -> list[np.ndarray]:
        """Mean (inside, CRPS, interval score) of each kind of forecast that the project has."""
        kinds = sorted({f for f in self.forecasts if f.project == project})
        return [self.rows(*kind[:2], judges=kind.judges).mean(axis=0) for kind in kinds]

    def simulated_summary(self) -> dict[str, float]:
        rising = np.array([row for key, row in self.simulated.items() if key != FALLING])
        well = self.simulated[WELL_SPECIFIED]
        return {
            "well_2x": float(well[0]), "well_4x": float(well[2]),
            "rising_2x": float(rising[:, 0].mean()), "rising_4x": float(rising[:, 2].mean()),
            "interval_score_2x": float(np.mean([row[1] for row in self.simulated.values()])),
            "interval_score_4x": float(np.mean([row[3] for row in self.simulated.values()])),
            "ceiling": float(rising[:, 5].sum() / max(rising[:, 4].sum(), 1e-9)),
        }  # fmt: skip

    def simulated_coverage(self) -> list[float]:
        summary = self.simulated_summary()
        return [summary[key] for key in ("well_2x", "well_4x", "rising_2x", "rising_4x", "ceiling")]


def projects(candidate: Candidate) -> list[str]:
    return sorted({f.project for f in candidate.forecasts})


def relative(candidate: Candidate, neutral: Candidate, project: str) -> float:
    """CRPS and interval score over those of the neutral figures, averaged over the kinds of forecast: 1 is no gain."""
    ratios = [a[1:] / b[1:] for a, b in zip(candidate.parts(project), neutral.parts(project), strict=True)]
    return float(np.mean(ratios))


def outside(coverage: float) -> float:
    return max(COVERAGE[0] - coverage, 0.0) + max(coverage - COVERAGE[1], 0.0)


def penalty(candidate: Candidate, neutral: Candidate, seen: Sequence[str]) -> float:
    """Simulated scores over the neutral ones, and coverage outside the wanted range, simulated and on seen curves."""
    ours, theirs = candidate.simulated_summary(), neutral.simulated_summary()
    total = 0.5 * sum(ours[key] / theirs[key] for key in ("interval_score_2x", "interval_score_4x"))
    total += sum(map(outside, candidate.simulated_coverage()))
    for share in (0.3, 0.5):
        rows = [candidate.rows(project, share, judges=True) for project in seen]
        total += outside(float(np.concatenate(rows)[:, 0].mean()))
    return total


Objective = Callable[[Sequence[Candidate], str | None], np.ndarray]


def objective(
    tried: Sequence[Candidate], without: str | None, *, equal: bool = True, worst: bool = False
) -> np.ndarray:
    """Of each candidate, less is better: its scores on the seen projects relative to the neutral figures, and half as
    much of `penalty`. Projects count equally, or by the root of their number of forecasts; or only the worst counts."""
    neutral, seen = tried[0], [p for p in projects(tried[0]) if p != without]
    counts = np.array([sum(f.project == p for f in neutral.forecasts) for p in seen], dtype=float)
    weights = np.ones(len(seen)) if equal else np.sqrt(counts)
    scores = np.array([[relative(one, neutral, p) for p in seen] for one in tried])
    total = scores.max(axis=1) if worst else scores @ (weights / weights.sum())
    return np.asarray(total + [0.5 * penalty(one, neutral, seen) for one in tried])


def by_limits(tried: Sequence[Candidate], without: str | None) -> np.ndarray:
    """Of each candidate, less is better: the worst of CRPS and interval score at both shares on the seen curves that
    judge, each relative to the gain over the neutral figures that is `ASKED`, and twice the coverage outside."""
    seen = [p for p in projects(tried[0]) if p != without]

    def scores(one: Candidate) -> np.ndarray:
        return np.array([np.concatenate([one.rows(p, s, judges=True) for p in seen]).mean(axis=0) for s in ASKED])

    start, asked = scores(tried[0])[:, 1:], np.array(list(ASKED.values()))
    worst = [float((scores(one)[:, 1:] / start / asked).max()) for one in tried]
    off = [sum(map(outside, (*scores(one)[:, 0], *one.simulated_coverage()))) for one in tried]
    return np.asarray(np.array(worst) + 2 * np.array(off))


def neutral(tried: Sequence[Candidate], _without: str | None) -> np.ndarray:
    """No choice at all: what the candidates start from."""
    return tried[0].point


def best(tried: Sequence[Candidate], without: str | None) -> np.ndarray:
    """The candidate with the least objective."""
    return tried[int(np.argmin(objective(tried, without)))].point


def mean_of_best(
    tried: Sequence[Candidate], without: str | None, *, by: Objective = objective, share: float = BEST_SHARE
) -> np.ndarray:
    """The mean figures of the best few (a twentieth unless told): less luck than the best one has."""
    order = np.argsort(by(tried, without))[: max(round(share * len(tried)), 1)]
    return np.asarray(np.mean([tried[i].point for i in order], axis=0))


def slope(tried: Sequence[Candidate], without: str | None, *, equal: bool = True, length: float = STEP) -> np.ndarray:
    """From the neutral figures down the objective's slope, that of a plane fitted through all candidates: figures that
    matter move, the others stay. The step has a fixed length: so much of a figure's range, in the root mean square."""
    points = np.array([one.point for one in tried])
    low, wide = points.min(axis=0), np.ptp(points, axis=0)
    unit = (points - low) / wide
    centred = unit - unit.mean(axis=0)
    plane = np.linalg.solve(
        centred.T @ centred + RIDGE * np.eye(wide.size), centred.T @ objective(tried, without, equal=equal)
    )
    step = -plane / np.sqrt(np.mean(plane**2)) * length
    return np.asarray(low + wide * np.clip(unit[0] + step, 0.0, 1.0))


Rule = Callable[[Sequence[Candidate], str | None], np.ndarray]
RULES: dict[str, Rule] = {
    "neutral": neutral,
    "best": best,
    "mean of best": mean_of_best,
    "mean of best by worst": partial(mean_of_best, by=partial(objective, worst=True)),
    "slope": slope,
    "slope, roots": partial(slope, equal=False),
    "slope, roots, short step": partial(slope, equal=False, length=SHORT_STEP),
    "mean of best by limits": partial(mean_of_best, by=by_limits),
    "mean of best tenth by limits": partial(mean_of_best, by=by_limits, share=2 * BEST_SHARE),
}
"""By name; `roots`: projects count by the root of their number of forecasts instead of equally."""
SHIPPED = "mean of best tenth by limits"
"""The rule behind `src/scalerl/curves/prior.py`."""


def left_out_figures(rule: Rule, tried: Sequence[Candidate]) -> dict[str, np.ndarray]:
    """The choice for each project with curves that judge, made without it."""
    judging = sorted({f.project for f in tried[0].forecasts if f.judges})
    return {project: rule(tried, project) for project in judging}


def pooled(chosen: dict[str, Candidate]) -> dict[str, dict[str, float]]:
    """Scores per share over the curves that judge, each by the candidate of its project."""
    found = {}
    for share in (0.3, 0.5):
        rows = np.concatenate([one.rows(project, share, judges=True) for project, one in chosen.items()])
        if rows.size:
            names = ("coverage", "crps", "interval_score")
            found[f"{share:g}"] = {"curves": len(rows), **dict(zip(names, rows.mean(axis=0).tolist(), strict=True))}
    return found
