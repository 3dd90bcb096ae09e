"""A run with downstream sets and a mixture's parts, written as a run would write it. For the tests of its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scalerl.config import load_run, patch
from scalerl.runs import RunDirectory

SUMS = {"kind": "chained_sums", "numbers": 4, "largest": 9, "train_problems": 0}
GOALS = {"kind": "countdown", "numbers": 3, "largest": 9, "train_problems": 0}
PARTS = {"sums": {"weight": 3.0, "task": SUMS}, "goals": {"task": GOALS}}
SETS: dict[str, Any] = {
    "aime24": {"task": {"path": "aime24.jsonl", "verifier": "number"}, "whole": True, "samples": 8},
    "other": {"task": {"kind": "countdown", "numbers": 4, "largest": 9}, "every": 5},
}
NUM_PROBLEMS, LAST = 24, 600


def mixed_run(folder: Path, *, every: int = 20, results: bool = True) -> RunDirectory:
    """Held-out rises to .85; `sums` higher and `goals` lower; `aime24` to about .35, `other` measured four times."""
    config = patch(
        load_run().config, {"scale.task": {"kind": "mixture", "parts": PARTS}, "scale.evaluation.every": every}
    )
    config = patch(config, {f"scale.evaluation.downstream.{name}": one for name, one in SETS.items()})
    with RunDirectory.hold(folder, config) as run:
        for step in range(0, LAST + 1, every):
            measure(run, step, every=every, results=results)
        run.finish("budget", LAST)
    return run


def measure(run: RunDirectory, step: int, *, every: int = 20, results: bool = True) -> None:
    """One evaluation of everything that is due."""
    run.evals.append(_line(step, every))
    run.metrics.append({"step": step, "ledger": _ledger(step), "wall_s": 1.0, "entropy": 1.0})
    if results:
        run.write_evaluation(step, _results(step))


def rate(step: int, low: float, high: float, salt: int) -> float:
    noise = 0.012 * np.random.default_rng(step + 1000 * salt).standard_normal()
    return float(np.clip(low + (high - low) * step / (step + 90) + noise, 0, 1))


def _line(step: int, every: int) -> dict[str, Any]:
    line: dict[str, Any] = {
        "step": step,
        **_point("", rate(step, 0.25, 0.85, 1)),
        "ledger": _ledger(step),
        "wall_s": 1.0,
    }
    line |= _point("part/sums", rate(step, 0.3, 0.95, 2)) | _point("part/goals", rate(step, 0.1, 0.6, 3))
    line |= _point("downstream/aime24", rate(step, 0.05, 0.38, 4))
    due = (step // every) % 10 == 0
    other = _point("downstream/other", rate(step, 0.1, 0.5, 5))
    return line | {key: value if due else None for key, value in other.items()}


def _point(name: str, value: float) -> dict[str, Any]:
    below = {
        "num_problems": NUM_PROBLEMS, "num_samples": 8, "num_judged": 8 * NUM_PROBLEMS, "standard_error": 0.03,
        "truncation_rate": 0.1, "mean_length": 30.0,
    }  # fmt: skip
    return {name or "pass_rate": value} | {f"{name}/{key}" if name else key: one for key, one in below.items()}


def _results(step: int) -> dict[str, Any]:
    """Half of the problems are never solved, the others 4 of 8 times."""

    def some(prefix: str, count: int) -> dict[str, Any]:
        return {f"{prefix}{i}": {"correct": 4 * (i % 2), "judged": 8} for i in range(count)}

    held_out = {"num_samples": 8, "problems": some("sums/", 18) | some("goals/", 6)}
    return {"step": step, **held_out, "downstream": {"aime24": {"num_samples": 8, "problems": some("a", NUM_PROBLEMS)}}}


def _ledger(step: int) -> dict[str, Any]:
    used = {"device_s": 0.1 * step, "flops": 1e9 * step, "tokens": 100 * step}
    return {"generation": used, "training": used, "evaluation": used}
