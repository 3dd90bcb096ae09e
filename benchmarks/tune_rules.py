"""The rules by which tune.py turns scores into a choice. Pure arithmetic: no curve, no fit, no file.

A rule takes the scored candidates and the project it must not look at (None: it may see all), and returns figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FALLING = "plateau, then decay"
WELL_SPECIFIED = "well specified"
JUDGED = (0.3, 0.5)
"""Shares at which a choice is judged; the others only choose."""
COVERAGE = (0.77, 0.86)
"""Wanted of the 80 % intervals: inside the limits of calibration.py, with a margin for the luck of the draw."""
BEST_SHARE = 0.25


class Forecast(NamedTuple):
    """Which forecast a row of scores is about."""

    project: str
    share: float


@dataclass(frozen=True)
class Candidate:
    """One set of figures and its scores."""

    point: np.ndarray
    forecasts: Sequence[Forecast]
    real: np.ndarray  # (forecasts, 3): inside, CRPS, interval score
    simulated: dict[str, list[float]]  # per scenario: coverage, interval score at 2x; at 4x; ceilings quoted, held

    def rows(self, project: str, share: float | None = None) -> np.ndarray:
        """Scores on one project, at one share or at all of them."""
        return self.real[[f.project == project and share in (None, f.share) for f in self.forecasts]]

    def mean(self, seen: Sequence[str]) -> np.ndarray:
        """Mean (inside, CRPS, interval score) over all curves and shares of some projects."""
        return np.asarray(np.concatenate([self.rows(project) for project in seen]).mean(axis=0))

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


def projects(candidate: Candidate) -> list[str]:
    return sorted({f.project for f in candidate.forecasts})


def outside(coverage: float) -> float:
    return max(COVERAGE[0] - coverage, 0.0) + max(coverage - COVERAGE[1], 0.0)


def objective(tried: Sequence[Candidate], without: str | None) -> np.ndarray:
    """Of each candidate, less is better: CRPS and interval score on the seen curves over those of the neutral figures,
    half each, and coverage outside the wanted range, on the seen curves and on simulated runs at 2x and 4x."""
    seen = [p for p in projects(tried[0]) if p != without]
    start = tried[0].mean(seen)

    def total(one: Candidate) -> float:
        inside, *scores = one.mean(seen)
        simulated = one.simulated_summary()
        off = sum(map(outside, (inside, simulated["rising_2x"], simulated["rising_4x"])))
        return float(np.mean(scores / start[1:]) + off)

    return np.array([total(one) for one in tried])


def neutral(tried: Sequence[Candidate], _without: str | None) -> np.ndarray:
    """No choice at all: what the candidates start from."""
    return tried[0].point


def best(tried: Sequence[Candidate], without: str | None) -> np.ndarray:
    """The candidate with the least objective."""
    return tried[int(np.argmin(objective(tried, without)))].point


def mean_of_best(tried: Sequence[Candidate], without: str | None) -> np.ndarray:
    """The mean figures of the best quarter: less luck than the best one has."""
    order = np.argsort(objective(tried, without))[: max(round(BEST_SHARE * len(tried)), 1)]
    return np.asarray(np.mean([tried[i].point for i in order], axis=0))


Rule = Callable[[Sequence[Candidate], str | None], np.ndarray]
RULES: dict[str, Rule] = {"neutral": neutral, "best": best, "mean of best": mean_of_best}
SHIPPED = "mean of best"
"""The rule behind `src/scalerl/curves/prior.py`."""


def left_out_figures(rule: Rule, tried: Sequence[Candidate]) -> dict[str, np.ndarray]:
    """The choice for each project, made without it."""
    return {project: rule(tried, project) for project in projects(tried[0])}


def pooled(chosen: dict[str, Candidate]) -> dict[str, dict[str, float]]:
    """Scores per share that judges, each curve by the candidate of its project."""
    found = {}
    for share in JUDGED:
        rows = np.concatenate([one.rows(project, share) for project, one in chosen.items()])
        names = ("coverage", "crps", "interval_score")
        found[f"{share:g}"] = {"curves": len(rows), **dict(zip(names, rows.mean(axis=0).tolist(), strict=True))}
    return found
