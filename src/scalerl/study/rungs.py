"""The race on disk: what was decided at each rung, decided once and written down, and what the freed compute pays for.

Called by `execute`. `race` knows how to judge curves; here is which curves, when, and that a study which was killed
reads its decisions instead of making them again. A line of decisions.jsonl has the rung, the cell, the action, the
chance and the reason; the line with the action "seeds" says which seeds were added at the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from scalerl.curves.scale import Bounds
from scalerl.readers.json_lines import Record
from scalerl.series import Series
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Job
from scalerl.study.reached import read_reached
from scalerl.study.runner import Runner

SEEDS = "seeds"
Curves = dict[str, list[Series]]


def every_job(folder: StudyFolder) -> tuple[Job, ...]:
    """The planned jobs, and those that a race has added."""
    found = {(job.cell, job.seed): job for job in folder.plan.jobs}
    for line in folder.decisions():
        for cell, seeds in line.get("seeds", {}).items():
            for seed in seeds:
                found.setdefault((cell, seed), folder.plan.job(cell, seed))
    return tuple(found.values())


def stopped_cells(folder: StudyFolder, before: float = math.inf) -> set[str]:
    """The cells that were stopped at a rung below this one."""
    return {line["cell"] for line in folder.decisions() if line["action"] == "stop" and line["rung"] < before}


def used_share(folder: StudyFolder, runner: Runner, job: Job) -> float:
    """Of the budget: a rung may lie between two evaluations, and the trainer goes on to the next."""
    known = runner.progress(job, folder.job_path(job)).share
    return read_reached(folder.job_path(job)).share if known is None else known


def judge_rung(folder: StudyFolder, runner: Runner, share: float) -> list[Record]:
    """The decisions of a rung: those on disk, and for cells without one those that are made now.

    When a crash has left some of them, the others come out as they would have: nobody has gone on since.
    """
    from scalerl.study.race import judge

    known = {line["cell"]: line for line in folder.decisions() if line.get("rung") == share}
    gone = stopped_cells(folder, before=share)
    jobs = [job for job in folder.plan.jobs if job.cell not in gone and _has_reached(folder, job, share)]
    missing = {job.cell for job in jobs} - known.keys()
    base, prune = folder.plan.base.name, folder.config.prune
    curves, full = curves_of(folder, runner, jobs) if missing else ({}, {})
    if base not in curves:
        return list(known.values())
    judged = judge(curves, base, full, prune.delta, prune.threshold, bounds=bounds_of(folder))
    made = {one.cell: {"rung": share, **asdict(one)} for one in judged if one.cell in missing}
    folder.add_decisions(made.values())
    return [*known.values(), *made.values()]


def add_seeds(folder: StudyFolder, runner: Runner) -> list[str]:
    """Give what the race has saved to the undecided, once: one more seed for each in turn while it lasts.

    Compute is counted in that of the x axis; a seed of a cell costs what the seeds before it have cost. Returns what
    to tell the user.
    """
    gone = stopped_cells(folder)
    if not gone or any(line["action"] == SEEDS for line in folder.decisions()):
        return []
    from scalerl.study.race import undecided

    jobs = [job for job in folder.plan.jobs if _has_reached(folder, job, 0.0)]
    curves, full = curves_of(folder, runner, jobs)
    base = folder.plan.base.name
    if base not in curves:
        return []
    freed = math.fsum(
        (1 - used_share(folder, runner, job)) * full[job.cell] for job in jobs if job.cell in gone and job.cell in full
    )
    left = {cell: seeds for cell, seeds in curves.items() if cell not in gone}
    open_cells = undecided(left, base, full, folder.config.prune.delta, bounds=bounds_of(folder))
    seeds = _spend(freed, open_cells, base, full, max(folder.config.seeds) + 1)
    reason = f"the race freed {freed:.4g} of compute; undecided: {', '.join(open_cells) or 'none'}"
    folder.add_decision({"action": SEEDS, "seeds": seeds, "freed": freed, "reason": reason})
    added = [f"{cell} gets seed {' and '.join(map(str, more))}" for cell, more in seeds.items()]
    return [f"{reason}; {', '.join(added) or 'no further seeds'}"]


def curves_of(folder: StudyFolder, runner: Runner, jobs: Sequence[Job]) -> tuple[Curves, dict[str, float]]:
    """The curves of each cell, and its compute at the full budget: where they are now, over the share they used."""
    curves: Curves = {}
    ends: dict[str, float] = {}
    shares: dict[str, float] = {}
    for job in jobs:
        for series in runner.curve(job, folder.job_path(job)):
            if len(series):
                curves.setdefault(job.cell, []).append(series)
                ends[job.cell] = ends.get(job.cell, 0.0) + float(series.compute[-1])
                shares[job.cell] = shares.get(job.cell, 0.0) + used_share(folder, runner, job)
    return curves, {cell: ends[cell] / shares[cell] for cell in curves}


def _spend(
    freed: float, cells: Sequence[str], base: str, cost: Mapping[str, float], first: int
) -> dict[str, list[int]]:
    """One seed for each cell in turn, the most open first, as long as the next can be paid.

    The base gets the same seeds, and they are paid for too: differences are taken seed by seed.
    """
    seeds: dict[str, list[int]] = {}
    for seed in itertools.count(first):
        paid = False
        for cell in cells:
            needed = [one for one in dict.fromkeys((cell, base)) if seed not in seeds.get(one, ())]
            price = math.fsum(cost[one] for one in needed)
            if 0 < price <= freed:
                freed -= price
                paid = True
                for one in needed:
                    seeds.setdefault(one, []).append(seed)
        if not paid:
            return seeds
    raise AssertionError("counting never ends")


def _has_reached(folder: StudyFolder, job: Job, share: float) -> bool:
    """It has something to be judged by: it came as far as this, above nothing, and did not fail."""
    outcome = folder.outcome(job)
    failed = outcome is not None and outcome.state == "failed"
    reached = read_reached(folder.job_path(job)).share
    return not failed and reached > 0 and reached >= share


def bounds_of(folder: StudyFolder) -> Bounds:
    """The range of the value: a share, unless a command's study says otherwise."""
    return (0.0, 1.0) if getattr(folder.config.runner, "bounded", True) else None
