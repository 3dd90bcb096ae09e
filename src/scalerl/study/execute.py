"""A study from its first job to its last: rung by rung, resumable at any moment, with or without a race.

    every live job up to the rung -> all judged together -> hopeless ones stopped -> next rung, until the full budget

Called by the command line with the study's folder and a `Runner`. Without a race there is one rung, the full budget.
Everything that happened is in the folder, and what is decided depends on nothing else: not on time, not on the number
of workers, not on how often the study was killed. How a trainer is started is the business of `workers`.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.study import rungs
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Job, Outcome
from scalerl.study.reached import read_reached
from scalerl.study.reuse import reuse
from scalerl.study.runner import Runner
from scalerl.study.workers import Watch, Workers

FULL = 1.0


@dataclass(frozen=True)
class Asked:
    """How to run a study."""

    num_workers: int = 1
    prune: bool = False
    """Race the cells: see `race`."""
    retry_failed: bool = False
    """Jobs that have failed are tried once more."""
    reuse: tuple[StudyFolder, ...] = ()
    """Other studies, whose finished jobs are taken over where this one would run the same."""


def execute(folder: StudyFolder, runner: Runner, asked: Asked, watch: Watch) -> bool:
    """Run what has not run yet; False when the user stopped it. The caller holds the folder (`StudyFolder.hold`)."""
    jobs = rungs.every_job(folder)
    runner.check(jobs, asked.prune)
    for line in reuse(folder, asked.reuse):
        watch.said(line)
    workers = Workers(folder, runner, asked.num_workers, watch)
    workers.free(jobs)
    _end_reached(folder, jobs)
    if asked.retry_failed:
        _forget_failures(folder, jobs)
    if asked.prune and not _race(folder, runner, workers, watch):
        return False
    return workers.run(_due(folder, rungs.every_job(folder), FULL), FULL)


def _race(folder: StudyFolder, runner: Runner, workers: Workers, watch: Watch) -> bool:
    """Up to the full budget of the planned jobs; what was freed then pays for further seeds of the undecided."""
    for share in folder.config.prune.rungs:
        if not workers.run(_due(folder, folder.plan.jobs, share), share):
            return False
        for decision in rungs.judge_rung(folder, runner, share):
            if decision["action"] == "stop" and _prune(folder, runner, decision["cell"]):
                watch.said(f"{decision['cell']} stopped at {share:.0%} of the budget: {decision['reason']}")
    if not workers.run(_due(folder, folder.plan.jobs, FULL), FULL):
        return False
    for line in rungs.add_seeds(folder, runner):
        watch.said(line)
    return True


def _end_reached(folder: StudyFolder, jobs: tuple[Job, ...]) -> None:
    """Jobs that were trained to the end and nobody said so: a study may die, or its disk fail, in between."""
    for job in jobs:
        if folder.outcome(job) is None and read_reached(folder.job_path(job)).share >= FULL:
            folder.write_outcome(job, Outcome("finished", FULL))


def _due(folder: StudyFolder, jobs: tuple[Job, ...], share: float) -> list[Job]:
    """What has not ended and is not that far yet.

    The base comes first: the cells that share its warm start find it made, instead of making it at the same time.
    """
    base = folder.plan.base.name
    due = [job for job in jobs if folder.outcome(job) is None and read_reached(folder.job_path(job)).share < share]
    return sorted(due, key=lambda job: job.cell != base)


def _prune(folder: StudyFolder, runner: Runner, cell: str) -> bool:
    """End what is left of a cell, also seeds that were added since it was stopped; whether there was anything."""
    live = [job for job in folder.plan.jobs_of(cell) if folder.outcome(job) is None]
    for job in live:
        folder.write_outcome(job, Outcome("pruned", rungs.used_share(folder, runner, job)))
    return bool(live)


def _forget_failures(folder: StudyFolder, jobs: tuple[Job, ...]) -> None:
    for job in jobs:
        outcome = folder.outcome(job)
        if outcome is not None and outcome.state == "failed":
            folder.clear_outcome(job)
