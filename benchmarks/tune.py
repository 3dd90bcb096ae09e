"""Choose the prior without the project it is judged on: a fixed table of candidates, then arithmetic on it.

    python benchmarks/tune.py --curves rl_curves.csv --table tune_table.jsonl

1. The candidates: neutral round figures, and a grid over the two that say how far away a far ceiling is (`FIGURES`);
   all else stays neutral. Each is scored once, on the end of every real curve from three shares of it, and on the same
   simulated runs. The scores are kept in --table line by line: an interrupted run goes on where it stopped.
2. A rule (tune_rules.py) turns the scores on some projects and on the simulated runs into one set of figures.
3. For every project the rule is applied to the OTHER projects, and its choice is scored on the one left out. Pooled,
   every curve is then scored by a prior that was chosen without its project. The shipped prior is what the same rule
   chose with all projects in view (src/scalerl/curves/prior.py).

benchmarks/results/tune.json keeps, for each rule, the figures it chooses and the scores, per project and pooled.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from real_curves import load_real
from scalerl import Series
from scalerl.curves.backtest import crps, interval_score, split
from scalerl.curves.infer import infer
from scalerl.curves.prior import DEFAULT_PRIOR, Prior
from scalerl.curves.scale import Scale
from simulate import SCENARIOS, Case, simulate
from tune_rules import JUDGED, RULES, SHIPPED, Candidate, Forecast, left_out_figures, pooled

RESULTS = Path(__file__).parent / "results" / "tune.json"
UNIT = Scale(0.0, 1.0, (True, True))
LEVEL = 0.8
SHARES = (0.3, 0.4, 0.5)
"""Of the points, from which the end is forecast: all of them choose, `tune_rules.JUDGED` judge."""
SIMULATED_SEED = 31
IDENTIFIED = (3.0, 0.15)
"""As in `scalerl.curves.diagnose`: midpoints seen, and the widest interval of a ceiling that is quoted."""

FIGURES = {"far_mean": (0.15, 0.2, 0.25, 0.3), "far_sd": (0.1, 0.15, 0.2, 0.25, 0.3)}
"""The ceiling that may be anywhere: its gap as a share of the room above the present value, and the sd of that."""
NEUTRAL = Prior(
    log_exponent=(0.2, 0.6), log_midpoint=(0.0, 1.5), near=(0.4, 0.1, 0.1), climbing=0.5, far=(0.2, 0.3),
    floor_sd=0.02, drift=(0.05, 0.2, 0.5), drift_base=0.02, wobble=(0.004, 0.01, 0.025), flat=0.2, decay=0.02,
    bending_width=1.0,
)  # fmt: skip
"""The figures of M5 (LOG.md) where it has them, else round numbers."""

Point = tuple[float, ...]
"""One value for each of `FIGURES`."""


def candidates() -> list[Point]:
    """The neutral figures, and every pair of the grid."""
    return [NEUTRAL.far, *(pair for pair in product(*FIGURES.values()) if pair != NEUTRAL.far)]


def rounded(point: Any) -> Point:
    return tuple(round(float(x), 4) for x in point)


def prior_of(point: Point) -> Prior:
    mean, sd = point
    return replace(NEUTRAL, far=(mean, sd))


class Table:
    """Scores of candidates, computed once and kept in a file of one JSON document per line."""

    def __init__(self, path: Path, curves: dict[tuple[str, str], Series], cases: list[Case]) -> None:
        self.path, self.cases = path, cases
        self.forecasts, self.splits = _forecasts(curves)
        self.kept: dict[Point, dict[str, Any]] = {}
        stamp = {"forecasts": len(self.splits), "cases": len(cases), "figures": list(FIGURES)}
        if not path.exists():
            path.write_text(json.dumps(stamp) + "\n")
        first, *rows = path.read_text().splitlines()
        if json.loads(first) != stamp:
            raise SystemExit(f"{path} holds scores of something else: {first}")
        for row in map(json.loads, rows):
            self.kept[tuple(row["point"])] = row

    def candidate(self, point: Point) -> Candidate:
        """The scores of one candidate; computed only if the file does not have them."""
        if point not in self.kept:
            prior = prior_of(point)
            real = [judge(prior, *part) for part in self.splits]
            row: dict[str, Any] = {"point": point, "real": real, "simulated": score_simulated(prior, self.cases)}
            with self.path.open("a") as file:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
            self.kept[point] = row
        kept = self.kept[point]
        return Candidate(np.array(point), self.forecasts, np.array(kept["real"], dtype=float), kept["simulated"])

    def left_out(self, point: Point, project: str) -> Candidate:
        """The scores of a choice on one project at the shares that judge, and on nothing else."""
        real = np.full((len(self.splits), 3), np.nan)
        for row, (forecast, part) in enumerate(zip(self.forecasts, self.splits, strict=True)):
            if forecast.share in JUDGED and forecast.project == project:
                real[row] = judge(prior_of(point), *part)
        return Candidate(np.array(point), self.forecasts, real, {})


def _forecasts(curves: dict[tuple[str, str], Series]) -> tuple[list[Forecast], list[tuple[Series, float, float]]]:
    """Every forecast: (project, share), and (points seen, where, actual)."""
    labels = [Forecast(project, share) for project, _ in curves for share in SHARES]
    return labels, [split(series, share) for series in curves.values() for share in SHARES]


def judge(prior: Prior, seen: Series, at: float, actual: float) -> tuple[float, float, float]:
    """(inside, CRPS, interval score)."""
    draws = infer([seen], UNIT, "sigmoid", prior=prior).predictive(np.array([at]))[:, 0]
    low, high = (float(q) for q in np.quantile(draws, [0.1, 0.9]))
    return float(low <= actual <= high), round(crps(draws, actual), 5), round(_score(low, high, actual), 5)


def _score(low: float, high: float, actual: float) -> float:
    return interval_score(low, high, actual, LEVEL)


def score_simulated(prior: Prior, cases: list[Case]) -> dict[str, list[float]]:
    """Per scenario: coverage and interval score at 2x and at 4x, ceilings quoted and how many of those held."""
    rows: dict[str, list[list[float]]] = {}
    for case in cases:
        last = float(case.seen.compute[-1])
        posterior = infer([case.seen], UNIT, "sigmoid", prior=prior)
        row = []
        for at in (2 * last, 4 * last):
            low, high = (float(q) for q in np.quantile(posterior.predictive(np.array([at]))[:, 0], [0.1, 0.9]))
            truth = float(case.truth(np.array([at]))[0])
            row += [float(low <= truth <= high), _score(low, high, truth)]
        parameters = posterior.parameter_draws()
        low, high = (float(q) for q in np.quantile(parameters["ceiling"], [0.1, 0.9]))
        quoted = np.median(parameters["midpoint"]) <= last / IDENTIFIED[0] and high - low < IDENTIFIED[1]
        claimed = bool(quoted) and case.ceiling is not None
        held = claimed and low <= (case.ceiling or 0.0) <= high
        rows.setdefault(case.scenario, []).append([*row, float(claimed), float(held)])
    return {key: [round(x, 5) for x in np.mean(part, axis=0)] for key, part in rows.items()}


def judged(rule: str, table: Table, tried: list[Candidate]) -> dict[str, Any]:
    """A rule's choices: for each project without that project, and with all of them in view."""
    choices = left_out_figures(RULES[rule], tried)
    chosen = {project: table.left_out(rounded(point), project) for project, point in choices.items()}
    final = table.candidate(rounded(RULES[rule](tried, None)))
    scores = {project: pooled({project: choice}) for project, choice in chosen.items()}
    return {
        "left_out": {"pooled": pooled(chosen)} | scores,
        "all_in_view": pooled(dict.fromkeys(chosen, final)),
        "simulated": final.simulated_summary(),
        "figures": dict(zip(FIGURES, map(float, final.point), strict=True)),
        "figures_without": {
            key: dict(zip(FIGURES, map(float, choice.point), strict=True)) for key, choice in chosen.items()
        },
    }


def show(name: str, scores: dict[str, dict[str, float]]) -> None:
    for share, row in scores.items():
        print(f"  {name:34} {share}: " + "  ".join(f"{key} {value:.4f}" for key, value in row.items()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=Path, required=True, help="CSV: dataset, curve, metric, step, y, n_eval")
    parser.add_argument("--table", type=Path, required=True, help="where the scores are kept; made if missing")
    parser.add_argument("--cases", type=int, default=10, help="simulated runs of each scenario")
    options = parser.parse_args()
    rng = np.random.default_rng(SIMULATED_SEED)
    cases = [simulate(scenario, rng) for scenario in SCENARIOS for _ in range(options.cases)]
    table = Table(options.table, load_real(options.curves), cases)
    tried = [table.candidate(point) for point in candidates()]
    results: dict[str, Any] = {"candidates": len(tried), "cases": options.cases, "rules": {}}
    for rule in RULES:
        found = judged(rule, table, tried)
        results["rules"][rule] = found
        print(rule)
        for key, scores in found["left_out"].items():
            show(f"left out, {key}", scores)
        show("all in view", found["all_in_view"])
        print("  simulated: ", found["simulated"])
    results |= {"shipped_rule": SHIPPED, "shipped": asdict(DEFAULT_PRIOR)}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
