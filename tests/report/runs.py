"""Run directories and tables for the tests of watching, written as a run would write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scalerl.config import load_run, patch
from scalerl.runs import RunDirectory

CONFIG = patch(load_run("scalerl", "laptop").config, {"scale.budget.unit": "steps", "scale.budget.amount": 1000.0})


def pass_rate(step: float, ceiling: float = 0.8) -> float:
    """A sigmoid from .2 with a little noise that is the same each time."""
    noise = 0.004 * np.random.default_rng(int(step)).standard_normal()
    return float(0.2 + (ceiling - 0.2) / (1 + (120 / max(step, 1e-9)) ** 1.3) + noise)


def evaluate(run: RunDirectory, step: int, ceiling: float = 0.8) -> None:
    """One evaluation, 2 GFLOPs a step, and the step's metrics."""
    used = {"device_s": 0.1 * step, "flops": 1e9 * step, "tokens": 100 * step}
    ledger = {"generation": used, "training": used, "evaluation": used}
    counts = {"num_problems": 50, "num_samples": 4, "num_judged": 200}
    measured = {"standard_error": 0.02, "truncation_rate": 0.1, "mean_length": 30.5}
    rate = pass_rate(step, ceiling)
    run.evals.append({"step": step, "pass_rate": rate, **counts, **measured, "ledger": ledger, "wall_s": step})
    run.metrics.append({"step": step, "entropy": 1.0 / (1 + step), "ledger": ledger, "wall_s": step})


def begin(path: Path, steps: range, ceiling: float = 0.8, *, finished: bool = False, seed: int = 0) -> RunDirectory:
    """A run with evaluations at these steps; nobody holds its lock."""
    with RunDirectory.hold(path, patch(CONFIG, {"seed": seed})) as run:
        for step in steps:
            evaluate(run, step, ceiling)
        if finished:
            run.finish("budget", steps[-1])
    return run


def table(path: Path, count: int, ceiling: float = 0.8, *, end: str = "\n") -> Path:
    """A CSV with a step-0 row and `count` points, written in one go."""
    rows = ["gpu_hours,pass_rate", f"0,{pass_rate(0):.5f}"]
    rows += [f"{20 * i},{pass_rate(20 * i, ceiling):.5f}" for i in range(1, count + 1)]
    path.write_text("\n".join(rows) + end)
    return path
