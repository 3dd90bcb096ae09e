"""Forecasts of our own runs: train several seeds, fit the first half of each curve, and compare with the second.

    python benchmarks/own_curves.py --seeds 10 --workers 2 --runs runs/own_curves      # about half an hour on two cores

Each seed is what `make demo` trains: its own warm start, problems and sampling. The curve up to half of the compute is
fitted; the target is the last evaluation. A forecast counts as good when it is off by at most .03, or when its 80 %
interval holds the target. Three laws predict the whole second half from the first, by least squares, with the measured
step-0 value: which has the smallest mean absolute error? Runs that exist in --runs are not trained again.
benchmarks/results/own_curves.json keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scalerl import Series, fit, forecast
from scalerl.readers import read_curves

RESULTS = Path(__file__).parent / "results" / "own_curves.json"
Law = Literal["sigmoid", "power", "loglinear"]
LAWS: tuple[Law, ...] = ("sigmoid", "power", "loglinear")
LARGEST_START, SMALLEST_END, LARGEST_ERROR, WANTED_SHARE = 0.35, 0.75, 0.03, 0.8


def train(seed: int, folder: Path, overrides: list[str], budget: str | None) -> None:
    """In a process of its own, one thread; goes on with a run that was stopped."""
    command = [sys.executable, "-m", "scalerl", "train", "--out", str(folder), "--no-live"]
    if budget is not None:
        command += ["--budget", budget]
    if folder.exists():
        command += ["--resume"]
    else:
        command += ["--seed", str(seed), *(word for key in overrides for word in ("--set", key))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"seed {seed} trained", flush=True)


def curve_of(folder: Path) -> Series:
    ((curve,),) = read_curves([folder]).values()
    return curve


def judge(seed: int, curve: Series) -> dict[str, Any]:
    """One run: its ends, the forecast of the last evaluation, and how far each law is off in the second half."""
    half = float(curve.compute[-1]) / 2
    later = curve.compute > half
    assert curve.start is not None
    fits = {law: fit(curve, law=law, window=(None, half)) for law in LAWS}
    (end,) = forecast(fits["sigmoid"], [float(curve.compute[-1])])
    assert end.low is not None
    assert end.high is not None
    last = float(curve.value[-1])
    errors = {
        law: float(np.mean(np.abs(f.value_at(curve.compute[later]) - curve.value[later]))) for law, f in fits.items()
    }
    return {
        "seed": seed, "start": curve.start.value, "end": last, "best": float(curve.value.max()),
        "evaluations": len(curve) + 1, "forecast": end.value, "low": end.low, "high": end.high,
        "error": abs(end.value - last), "inside": end.low <= last <= end.high,
        "good": abs(end.value - last) <= LARGEST_ERROR or end.low <= last <= end.high, "mae": errors,
    }  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Each figure beside its limit."""
    mae = {law: float(np.mean([row["mae"][law] for row in rows])) for law in LAWS}
    good = float(np.mean([row["good"] for row in rows]))
    return {
        "good": {"share": good, "limit": WANTED_SHARE, "met": good >= WANTED_SHARE},
        "inside_80": float(np.mean([row["inside"] for row in rows])),
        "mean_error": float(np.mean([row["error"] for row in rows])),
        "start": {"largest": max(r["start"] for r in rows), "limit": LARGEST_START},
        "end": {"smallest": min(r["end"] for r in rows), "limit": SMALLEST_END},
        "second_half_mae": mae,
        "sigmoid_best_on": sum(min(row["mae"], key=row["mae"].__getitem__) == "sigmoid" for row in rows),
        "sigmoid_beats_both": mae["sigmoid"] == min(mae.values()),
    }  # fmt: skip


def show(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    print("seed  start   end   forecast [80 % interval]  error  good   second half: " + "  ".join(LAWS))
    for row in rows:
        laws = "  ".join(f"{row['mae'][law]:.4f}" for law in LAWS)
        band = f"{row['forecast']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        mark = "yes" if row["good"] else "NO"
        print(
            f"{row['seed']:4d}  {row['start']:.3f}  {row['end']:.3f}  {band}    {row['error']:.3f}  {mark:4s}   {laws}"
        )
    print(json.dumps(found, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/own_curves"))
    parser.add_argument("--set", action="append", default=[], help="an override for `scalerl train`")
    parser.add_argument("--budget", help="another budget than the preset's, also for runs that exist")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    folders = {seed: options.runs / f"seed-{seed}" for seed in range(options.seeds)}
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda seed: train(seed, folders[seed], options.set, options.budget), folders))
    rows = [judge(seed, curve_of(folder)) for seed, folder in folders.items()]
    found = summary(rows)
    show(rows, found)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"summary": found, "runs": rows, "overrides": options.set}, indent=1) + "\n")
    return 0 if found["good"]["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
