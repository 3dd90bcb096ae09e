"""Curves of a study with a known truth, and a folder that holds them as if a command had trained them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from scalerl import Series, StartValue
from scalerl.config.study import StudyConfig, study_from
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome

LAST, NUM_POINTS, NUM_ANSWERS = 1000.0, 16, 2000
LAWS = {
    "base": (0.75, 1.4, 120.0),
    "twin": (0.75, 1.4, 120.0),
    "worse": (0.55, 1.4, 120.0),
    "better": (0.88, 1.4, 120.0),
    "slow": (0.75, 1.4, 300.0),
}
"""Ceiling, exponent, midpoint; all start at 0.3."""
Curves = dict[str, dict[int, Series]]


def curve(law: tuple[float, float, float], rng: np.random.Generator, points: int = NUM_POINTS) -> Series:
    """One seed: the law moved a little, measured with noise."""
    ceiling, exponent, midpoint = law[0] + 0.004 * rng.standard_normal(), law[1], law[2] * np.exp(0.03 * rng.normal())
    compute = LAST * np.arange(1, points + 1) / points
    truth = 0.3 + (ceiling - 0.3) / (1 + (midpoint / compute) ** exponent)
    value = np.clip(truth + 0.005 * rng.standard_normal(points), 0, 1)
    return Series.of(compute, value, NUM_ANSWERS, start=StartValue(0.3, NUM_ANSWERS))


def curves_of_study(cells: Sequence[str] = tuple(LAWS), seeds: Sequence[int] = (0, 1, 2), seed: int = 0) -> Curves:
    """Cell -> seed -> curve."""
    rng = np.random.default_rng(seed)
    return {cell: {one: curve(LAWS[cell], rng) for one in seeds} for cell in cells}


def full_of(curves: Mapping[str, object]) -> dict[str, float]:
    return dict.fromkeys(curves, LAST)


def study_config(cells: Sequence[str], seeds: Sequence[int] = (0, 1, 2)) -> StudyConfig:
    """A study of another trainer's runs."""
    return study_from(
        {
            "name": "simulated",
            "question": "Which choice moves the ceiling?",
            "seeds": list(seeds),
            "base": {"set": {"choice": "base"}},
            "cells": [
                {"name": name, "set": {"choice": name}, "paper": f"{name} in the paper"}
                for name in cells
                if name != "base"
            ],
            "runner": {
                "kind": "command", "command": "train --choice {choice} --seed {seed} --out {out} --budget {budget}",
                "log": "{out}/log.csv", "x": "compute", "metric": "pass_rate", "n": "n",
            },
        },
        "a test",
    )  # fmt: skip


def folder_of(path: Path, curves: Curves, *, unfinished: Sequence[tuple[str, int]] = ()) -> StudyFolder:
    """A folder in which every job but those has ended."""
    folder = StudyFolder.create_or_open(
        path, study_config(tuple(curves), sorted({s for c in curves.values() for s in c}))
    )
    for job in folder.plan.jobs:
        if (job.cell, job.seed) in unfinished:
            continue
        folder.write_job(job)
        run = folder.run_path(job)
        run.mkdir(parents=True)
        (run / "log.csv").write_text(_table(curves[job.cell][job.seed]))
        folder.write_outcome(job, Outcome("finished", 1.0))
    return folder


def _table(series: Series) -> str:
    start = series.start.value if series.start else 0.0
    rows = [(0.0, start), *zip(series.compute.tolist(), series.value.tolist(), strict=True)]
    return "compute,pass_rate,n\n" + "".join(f"{c!r},{v!r},{NUM_ANSWERS}\n" for c, v in rows)
