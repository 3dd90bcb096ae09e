"""`scalerl train` as the trainer of a study: one child process with one thread for each job.

Opened by `runner.open_runner`. The run directory is made here, so that starting and going on are the same command
(`--resume`), and the config is the planned one to the last digit. The training itself is not imported.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalerl import portable
from scalerl.compute import Ledger
from scalerl.config import from_json
from scalerl.config.scale import Budget
from scalerl.errors import InputError
from scalerl.readers.curves import read_table
from scalerl.readers.json_lines import last_record
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import RunDirectory, layout
from scalerl.runs.budget import used
from scalerl.series import Series
from scalerl.study.jobs import Job
from scalerl.study.process import start_child
from scalerl.study.runner import RUN, Process, Progress

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads of two processes on the same cores stall each other."""


class OwnRunner:
    """`Runner` for jobs whose settings are {"config": a whole run}."""

    def __init__(self, x: str = "flops") -> None:
        self._x = x

    def check(self, jobs: Sequence[Job], prune: bool) -> None:
        """The plan has resolved every config; a run can always be trained in parts."""

    def start(self, job: Job, place: Path, share: float) -> Process:
        run, config = place / RUN, job.settings["config"]
        if not is_run_directory(run):
            RunDirectory.create(run, from_json(json.dumps(config), str(place)), provenance=False)
        if _is_there(run, job, share):
            return Ended()
        budget = budget_text(config["scale"], share)
        command = [sys.executable, "-P", "-m", "scalerl", "train", "--out", str(run), "--resume", "--no-live"]
        environment = THREADS | (portable.ENVIRONMENT if config["scale"]["launcher"].get("portable") else {})
        return start_child([*command, "--budget", budget], place, f"{job.name}, up to {budget}", environment)

    def curve(self, job: Job, place: Path) -> list[Series]:
        return [self._read(job, place)]

    def downstream(self, job: Job, place: Path) -> dict[str, Series]:
        names = job.settings["config"]["scale"]["evaluation"].get("downstream", {})
        return {name: self._read(job, place, f"downstream/{name}") for name in names}

    def progress(self, job: Job, place: Path) -> Progress:
        run = place / RUN
        try:
            step, point = last_record(run / layout.METRICS), last_record(run / layout.EVALS)
        except InputError:  # being written, or broken: whoever reads the curve will say so
            return Progress()
        value = None if point is None else point.get("pass_rate")
        if step is None:
            return Progress(0.0, value)
        return Progress(_share(job.settings["config"]["scale"], step), value, step.get("wall_s"))

    def _read(self, job: Job, place: Path, metric: str | None = None) -> Series:
        (series,) = read_table(place / RUN, x=self._x, y=metric)
        return replace(series, name=f"{job.cell}, seed {job.seed}")


class Ended:
    """A `Process` that had nothing to do."""

    def poll(self) -> int:
        return 0

    def stop(self) -> None:
        """It has."""

    def kill(self) -> None:
        """It is."""


def budget_at(scale: Mapping[str, Any], share: float) -> float:
    """A share of the budget.

    Steps are rounded up to the next evaluation: the points of the curve are then the same with and without a race.
    """
    amount = float(scale["budget"]["amount"])
    if scale["budget"]["unit"] != "steps":
        return share * amount
    every = int(scale["evaluation"]["every"])
    return min(amount, float(math.ceil(round(share * amount, 6) / every) * every))


def budget_text(scale: Mapping[str, Any], share: float) -> str:
    """As `scalerl train --budget` reads it."""
    return f"{budget_at(scale, share)!r} {scale['budget']['unit'].replace('_', '-')}"


def _is_there(run: Path, job: Job, share: float) -> bool:
    """The run has ended by itself at this share, or can go no further; starting torch to see that takes seconds."""
    scale = job.settings["config"]["scale"]
    try:
        reason = json.loads((run / layout.STOPPED).read_bytes())["reason"]
        last = last_record(run / layout.METRICS)
    except (OSError, ValueError, KeyError):
        return False
    used_up = last is not None and (_share(scale, last) or 0.0) >= budget_at(scale, share) / scale["budget"]["amount"]
    return bool(reason == "exhausted" or (reason == "budget" and used_up))


def _share(scale: Mapping[str, Any], record: Mapping[str, Any]) -> float | None:
    budget = Budget.model_validate(scale["budget"])
    try:
        return min(1.0, used(budget, int(record["step"]), Ledger.from_dict(record["ledger"])) / budget.amount)
    except (KeyError, TypeError, ValueError):
        return None
