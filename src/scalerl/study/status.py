"""How far a study is, from its folder alone: no process is asked, and none need be running.

Used by the command line, also for the live view, and by reports. The states of a job:

    waiting      never started, or between two rungs of a study that runs
    running      a trainer holds the job's lock
    interrupted  started, not running, and the study does not run either; it will go on where it was saved
    finished, failed, pruned    as its outcome says
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from scalerl.runs.lock import Holder, holder
from scalerl.study.folder import LOCK, StudyFolder
from scalerl.study.jobs import Job, State
from scalerl.study.process import worker_of
from scalerl.study.reached import read_reached
from scalerl.study.rungs import every_job
from scalerl.study.runner import Runner

STATES: tuple[State, ...] = ("running", "waiting", "interrupted", "finished", "pruned", "failed")
ENDED = ("finished", "pruned", "failed")


@dataclass(frozen=True)
class JobStatus:
    """One job, for a line of a table. What is not known is None."""

    name: str
    cell: str
    seed: int
    state: State
    share: float
    """Of the budget that is used."""
    value: float | None
    """The last measurement."""
    wall_s: float | None
    error: str | None
    """Only for a failed one; the whole story is in its output.txt."""


@dataclass(frozen=True)
class StudyStatus:
    """All jobs, in the order of the plan."""

    name: str
    jobs: tuple[JobStatus, ...]
    runs_in: Holder | None
    """The process that runs the study; None when none does."""

    @property
    def counts(self) -> dict[State, int]:
        """Jobs in each state, those without any left out."""
        found = Counter(job.state for job in self.jobs)
        return {state: found[state] for state in STATES if found[state]}

    @property
    def share(self) -> float:
        """Of the whole work that is behind us; what was pruned or failed is not ahead any more."""
        return sum(1.0 if job.state in ENDED else job.share for job in self.jobs) / max(1, len(self.jobs))

    @property
    def done(self) -> bool:
        return all(job.state in ENDED for job in self.jobs)

    @property
    def work_left_s(self) -> float | None:
        """Seconds for one worker, at the pace so far; None when there is no pace yet."""
        timed = [job for job in self.jobs if job.wall_s and job.share > 0]
        if not timed:
            return 0.0 if self.done else None
        pace = sum(job.wall_s or 0.0 for job in timed) / sum(job.share for job in timed)
        return pace * sum(1 - job.share for job in self.jobs if job.state not in ENDED)

    @property
    def left_s(self) -> float | None:
        """Seconds for as many workers as there are now."""
        work = self.work_left_s
        return None if work is None else work / max(1, self.counts.get("running", 0))

    def of_cell(self, cell: str) -> tuple[JobStatus, ...]:
        return tuple(self._by_cell.get(cell, ()))

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(self._by_cell)

    @cached_property
    def _by_cell(self) -> dict[str, list[JobStatus]]:
        """Sorted once: every cell of thousands is asked for."""
        found: dict[str, list[JobStatus]] = {}
        for job in self.jobs:
            found.setdefault(job.cell, []).append(job)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "running_in": None if self.runs_in is None else asdict(self.runs_in),
            "counts": dict(self.counts),
            "share": self.share,
            "left_s": self.left_s,
            "jobs": [asdict(job) for job in self.jobs],
        }


def study_status(folder: StudyFolder, runner: Runner) -> StudyStatus:
    """The state of every job; nothing is written."""
    runs_in = holder(folder.path / LOCK)
    jobs = every_job(folder)
    return StudyStatus(
        folder.config.name, tuple(_job_status(folder, runner, job, runs_in is not None) for job in jobs), runs_in
    )


def mean_value(jobs: Iterable[JobStatus]) -> float | None:
    """Of the last measurements that are known."""
    known = [job.value for job in jobs if job.value is not None]
    return sum(known) / len(known) if known else None


def _job_status(folder: StudyFolder, runner: Runner, job: Job, study_runs: bool) -> JobStatus:
    place = folder.job_path(job)
    if not folder.started(job):
        return JobStatus(job.name, job.cell, job.seed, "waiting", 0.0, None, None, None)
    outcome, reached, seen = folder.outcome(job), read_reached(place), runner.progress(job, place)
    state: State = "waiting" if study_runs else "interrupted"
    if outcome is not None:
        state = outcome.state
    elif worker_of(place) is not None:
        state = "running"
    return JobStatus(
        name=job.name,
        cell=job.cell,
        seed=job.seed,
        state=state,
        share=reached.share if seen.share is None else seen.share,
        value=reached.value if seen.value is None else seen.value,
        wall_s=reached.wall_s or None if seen.wall_s is None else seen.wall_s,
        error=None if outcome is None else outcome.error,
    )
