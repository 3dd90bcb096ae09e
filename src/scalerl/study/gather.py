"""From a study's folder to curves: what has ended, what is missing, and each cell's full budget in compute.

Called by `results` and by the report. Reads the folder through the runner and computes nothing else. Jobs that ended
well or were stopped by the race give curves; failed ones are named with their error; what has not ended is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalerl.readers.json_lines import Record
from scalerl.series import Series
from scalerl.study.analyse import Settings
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Job, Outcome
from scalerl.study.rungs import bounds_of, every_job
from scalerl.study.runner import Runner, open_runner
from scalerl.study.stability import Stability, stability


@dataclass(frozen=True)
class JobState:
    """One job, as far as the analysis cares."""

    cell: str
    seed: int
    state: str
    """finished, pruned, failed or missing."""
    share: float
    """Of the budget that was used."""
    error: str | None = None


@dataclass(frozen=True)
class Gathered:
    """Everything that the folder of a study holds."""

    folder: StudyFolder
    jobs: tuple[JobState, ...]
    curves: Mapping[str, Mapping[int, Series]]
    """Cell -> seed -> curve; cells without a curve are here too, empty."""
    full: Mapping[str, float]
    """Compute of each cell's full budget, for cells with a curve: the mean over seeds of last compute / share used."""
    stability: tuple[Stability, ...]
    decisions: tuple[Record, ...]
    downstream: Mapping[str, Mapping[str, Mapping[int, Series]]]
    """Downstream set -> cell -> seed -> curve."""

    @property
    def base(self) -> str:
        return self.folder.plan.base.name

    @cached_property
    def shares(self) -> dict[str, float]:
        """Cell -> how much of the budget each of its seeds has used at least; below 1 the cell was stopped."""
        found: dict[str, float] = {}
        for job in self.jobs:
            if job.state in {"finished", "pruned"} and job.share > 0:
                found[job.cell] = min(job.share, found.get(job.cell, job.share))
        return found

    @property
    def settings(self) -> Settings:
        fit = self.folder.config.fit
        return Settings(fit.share, fit.level, fit.margin, bounds_of(self.folder))


def gather(folder: StudyFolder, runner: Runner | None = None) -> Gathered:
    """Read every job that has ended."""
    runner = runner or open_runner(folder.config)
    states: list[JobState] = []
    signs: list[Stability] = []
    curves: dict[str, dict[int, Series]] = {cell.name: {} for cell in folder.plan.cells}
    sets: dict[str, dict[str, dict[int, Series]]] = {}
    for job in every_job(folder):
        outcome = folder.outcome(job)
        states.append(_state(job, outcome))
        if outcome is None or outcome.state == "failed" or outcome.share <= 0:
            continue  # a seed that came to a stopped cell later is pruned without ever having run
        (series,) = runner.curve(job, folder.job_path(job))
        curves[job.cell][job.seed] = series
        for name, found in runner.downstream(job, folder.job_path(job)).items():
            sets.setdefault(name, {}).setdefault(job.cell, {})[job.seed] = found
        width = 1.0 if bounds_of(folder) is not None else float(np.ptp(series.value)) if len(series) else 1.0
        signs.append(stability(job.cell, job.seed, series, folder.run_path(job), width))
    full, decisions = _full(states, curves), tuple(folder.decisions())
    return Gathered(folder, tuple(states), curves, full, tuple(signs), decisions, _in_order(sets, tuple(curves)))


def _in_order(
    sets: Mapping[str, Mapping[str, Mapping[int, Series]]], cells: tuple[str, ...]
) -> dict[str, dict[str, Mapping[int, Series]]]:
    """Cell by cell as the study has them, however the jobs were ordered."""
    return {name: {cell: found[cell] for cell in cells if cell in found} for name, found in sorted(sets.items())}


def _state(job: Job, outcome: Outcome | None) -> JobState:
    if outcome is None:
        return JobState(job.cell, job.seed, "missing", 0.0)
    return JobState(job.cell, job.seed, outcome.state, outcome.share, outcome.error)


def _full(states: list[JobState], curves: Mapping[str, Mapping[int, Series]]) -> dict[str, float]:
    ends: dict[str, list[float]] = {}
    for state in states:
        series = curves[state.cell].get(state.seed)
        if series is not None and len(series) and state.share > 0:
            ends.setdefault(state.cell, []).append(float(series.compute[-1]) / state.share)
    return {cell: float(np.mean(found)) for cell, found in ends.items()}
