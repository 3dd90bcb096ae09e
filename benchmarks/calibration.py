"""Do the intervals hold? Coverage, CRPS and interval score of the forecasts, on simulated and on real curves.

    python benchmarks/calibration.py --curves rl_curves.csv

Prints each figure beside its rivals (last value, curve_fit, bootstrap) and its limit, writes
benchmarks/results/calibration.json and docs/images/calibration.png, and exits with 1 when a limit is missed.
The real curves are not part of this repository: a CSV with the columns dataset, curve, step, y, n_eval. Without
--curves only the simulated part runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from calibration_figure import draw
from real_curves import load_real, rolling_splits
from scalerl import Series, decide, fit
from scalerl.curves.backtest import METHODS, backtest, crps, interval_score
from scalerl.curves.forecast import value_draws
from simulate import SCENARIOS, simulate

LEVEL = 0.8
HORIZONS = (2.0, 4.0, 10.0)
COVERAGE = (0.75, 0.88)
RIVALS = tuple(METHODS)
M5 = {0.3: {"crps": 0.025, "interval_score": 0.159, "coverage": 0.92, "mae": 0.034},
      0.5: {"crps": 0.016, "interval_score": 0.110, "coverage": 0.87, "mae": 0.023}}  # fmt: skip
"""The method to beat, as the project's forecasting notes give it for the 38 curves with 20 or more evaluations."""
RESULTS = Path(__file__).parent / "results" / "calibration.json"
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "calibration.png"


def simulated(cases: int, seed: int) -> list[dict[str, Any]]:
    """One row for each simulated case, horizon and method, and one for each ceiling claimed as identified."""
    rng = np.random.default_rng(seed)
    rows = []
    for scenario in SCENARIOS:
        for _ in range(cases):
            case = simulate(scenario, rng)
            last = float(case.seen.compute[-1])
            fitted = fit(case.seen, level=LEVEL)
            draws = value_draws(fitted, last * np.array(HORIZONS))
            for horizon, column in zip(HORIZONS, draws.T, strict=True):
                truth = float(case.truth(np.array([horizon * last]))[0])
                rows.append(_row(column, truth, what="value", scenario=scenario, method="scalerl", horizon=horizon, bend=case.bend))
                for rival in RIVALS[1:3]:
                    other = METHODS[rival](case.seen, horizon * last, (0.0, 1.0))
                    rows.append(_row(other, truth, what="value", scenario=scenario, method=rival, horizon=horizon, bend=case.bend))
            if case.ceiling is not None and fitted.identified:
                ceilings = fitted.posterior.parameter_draws()["ceiling"]
                rows.append(_row(ceilings, case.ceiling, what="ceiling", scenario=scenario, method="scalerl", horizon=None, bend=case.bend))
    return rows


def _row(draws: np.ndarray, truth: float, **labels: Any) -> dict[str, Any]:
    tail = (1 - LEVEL) / 2
    low, middle, high = (float(q) for q in np.quantile(draws, [tail, 0.5, 1 - tail]))
    return labels | {
        "error": middle - truth, "inside": low <= truth <= high, "width": high - low,
        "crps": crps(draws, truth), "interval_score": interval_score(low, high, truth, LEVEL),
    }  # fmt: skip


def real(curves: dict[tuple[str, str], Series]) -> list[dict[str, Any]]:
    """The end of each curve from its first 30 and 50 %, by every method."""
    rows = []
    for (project, name), series in curves.items():
        for score in backtest([series], shares=(0.3, 0.5), level=LEVEL).scores:
            rows.append({
                "what": "end", "project": project, "curve": name, "method": score.method, "share": score.share,
                "error": score.error, "inside": score.inside, "width": score.high - score.low,
                "crps": score.crps, "interval_score": score.interval_score,
            })  # fmt: skip
    return rows


def rolling(curves: dict[tuple[str, str], Series]) -> list[dict[str, Any]]:
    """From 25, 35 and 50 % of the points to 1.5x, 2x and 4x the compute, and the decision at 2x."""
    rows = []
    for (project, name), series in curves.items():
        for share, horizon, seen, at, actual in rolling_splits(series):
            fitted = fit(seen, level=LEVEL)
            rows.append(_row(value_draws(fitted, np.array([at]))[:, 0], actual, what="rolling", project=project,
                             curve=name, method="scalerl", share=share, horizon=horizon))  # fmt: skip
            for rival in RIVALS[1:3]:
                rows.append(_row(METHODS[rival](seen, at, (0.0, 1.0)), actual, what="rolling", project=project,
                                 curve=name, method=rival, share=share, horizon=horizon))  # fmt: skip
            if horizon == 2.0:
                decision = decide(fitted, at)
                now = float(seen.value[-3:].mean())
                rows.append({"what": "decision", "project": project, "curve": name, "action": decision.action,
                             "probability": decision.probability, "gained": actual - now >= decision.delta})  # fmt: skip
    return rows


def pick(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    errors = np.abs([row["error"] for row in rows])
    return {
        "cases": len(rows), "mae": float(errors.mean()), "median_error": float(np.median(errors)),
        "coverage": float(np.mean([row["inside"] for row in rows])),
        "median_width": float(np.median([row["width"] for row in rows])),
        "crps": float(np.mean([row["crps"] for row in rows])),
        "interval_score": float(np.mean([row["interval_score"] for row in rows])),
    }  # fmt: skip


def tables(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(table, row, figures) in the order of printing."""
    for horizon in HORIZONS:
        for scenario in (*SCENARIOS, None):
            for method in RIVALS[:3]:
                found = pick(rows, what="value", method=method, horizon=horizon, **({"scenario": scenario} if scenario else {}))
                if found:
                    yield f"simulated, value at {horizon:g}x", f"{scenario or 'all'} | {method}", summary(found)
    for scenario in (*SCENARIOS, None):
        found = pick(rows, what="ceiling", **({"scenario": scenario} if scenario else {}))
        if found:
            yield "simulated, ceiling where claimed identified", f"{scenario or 'all'} | scalerl", summary(found)
    for share in (0.3, 0.5):
        for method in RIVALS:
            found = pick(rows, what="end", method=method, share=share)
            if found:
                yield f"real, end from the first {share:.0%}", f"all | {method}", summary(found)
        for project in sorted({row["project"] for row in pick(rows, what="end")}):
            for method in RIVALS:
                yield f"real, end from the first {share:.0%}", f"{project} | {method}", summary(
                    pick(rows, what="end", method=method, share=share, project=project)
                )  # fmt: skip
    for horizon in (1.5, 2.0, 4.0):
        for method in RIVALS[:3]:
            found = pick(rows, what="rolling", method=method, horizon=horizon)
            if found:
                yield f"real, {horizon:g}x the compute from 25, 35, 50 %", f"all | {method}", summary(found)


def decisions(rows: list[dict[str, Any]]) -> dict[str, float] | None:
    """Skill of the probability behind the decision, against the base rate alone."""
    found = pick(rows, what="decision")
    if not found:
        return None
    chance = np.array([row["probability"] for row in found])
    gained = np.array([row["gained"] for row in found], dtype=float)
    base = gained.mean()
    pairs = chance[gained == 1][:, None] - chance[gained == 0][None, :]
    bins = np.digitize(chance, [0.15, 0.30, 0.45, 0.60])
    return {
        "cases": len(found), "base_rate": float(base), "brier": float(np.mean((chance - gained) ** 2)),
        "brier_of_base_rate": float(base * (1 - base)), "auc": float(np.mean((pairs > 0) + 0.5 * (pairs == 0))),
    } | {f"gained_in_bin_{i}": float(gained[bins == i].mean()) for i in range(5) if (bins == i).any()}  # fmt: skip


def limits(found: dict[tuple[str, str], dict[str, float]]) -> Iterator[tuple[str, float, str, bool]]:
    """(what, figure, limit, held)."""
    low, high = COVERAGE
    scenarios = [s for s in SCENARIOS if s != "plateau, then decay"]
    for horizon in (2.0, 4.0):
        table = f"simulated, value at {horizon:g}x"
        cover = found[table, "well specified | scalerl"]["coverage"]
        yield f"{table}, well specified: coverage", cover, f"{low} to {high}", low <= cover <= high
        cover = float(np.mean([found[table, f"{s} | scalerl"]["coverage"] for s in scenarios]))
        yield f"{table}, all that rise: coverage", cover, f"{low} to {high}", low <= cover <= high
    cover = found["simulated, ceiling where claimed identified", "all | scalerl"]["coverage"]
    yield "ceiling where claimed identified: coverage", cover, f"{low} to {high}", low <= cover <= high
    for share, rival in M5.items():
        ours = found.get((f"real, end from the first {share:.0%}", "all | scalerl"))
        if ours is None:
            continue
        for name in ("crps", "interval_score"):
            yield f"real, first {share:.0%}: {name}", ours[name], f"at most {rival[name]} (M5)", ours[name] <= rival[name]
        yield f"real, first {share:.0%}: coverage", ours["coverage"], f"{low} to {high}", low <= ours["coverage"] <= high


def show(found: dict[tuple[str, str], dict[str, float]]) -> None:
    title = ""
    for (table, row), figures in found.items():
        if table != title:
            title = table
            print(f"\n{title}\n{'':36} {'cases':>6} {'MAE':>7} {'median':>7} {'cov80':>6} {'width':>7} {'CRPS':>7} {'IS':>7}")
        print(f"{row:36} {figures['cases']:6.0f} {figures['mae']:7.4f} {figures['median_error']:7.4f} "
              f"{figures['coverage']:6.2f} {figures['median_width']:7.4f} {figures['crps']:7.4f} {figures['interval_score']:7.4f}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=Path, help="CSV of real curves: dataset, curve, step, y, n_eval")
    parser.add_argument("--cases", type=int, default=150, help="simulated runs of each scenario")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = simulated(options.cases, options.seed)
    if options.curves:
        curves = load_real(options.curves)
        rows += real(curves) + rolling(curves)
    found = {(table, row): figures for table, row, figures in tables(rows)}
    show(found)
    skill = decisions(rows)
    if skill:
        print("\ndecision: gain of .03 or more at twice the compute\n" + "  ".join(f"{k} {v:.3f}" for k, v in skill.items()))
    checks = list(limits(found))
    print("\nlimits")
    for what, figure, limit, held in checks:
        print(f"  {'ok  ' if held else 'MISS'} {what}: {figure:.4f}, limit {limit}")
    document = {
        "level": LEVEL, "cases": options.cases, "seed": options.seed, "m5": {str(k): v for k, v in M5.items()},
        "tables": [{"table": t, "row": r} | f for (t, r), f in found.items()], "decisions": skill,
        "limits": [dict(zip(("what", "figure", "limit", "held"), check, strict=True)) for check in checks],
    }  # fmt: skip
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    draw(document, FIGURE)
    return 0 if all(held for *_, held in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
