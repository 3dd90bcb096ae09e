"""What a study will cost, before it starts: compute from the configs, time from its finished jobs or a rough rate.

Called by `study plan`. Compute is an upper limit where the budget counts steps, as in `estimate`: groups that are left
out are not trained on, and rollouts may be short. Time is that of one core, whatever number of workers shares it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from scalerl.cli.estimate import Size, size_of
from scalerl.study.reached import read_reached

if TYPE_CHECKING:
    from scalerl.config import RunConfig
    from scalerl.study.folder import StudyFolder
    from scalerl.study.plan import Plan

RATE = 7e10
"""FLOPs of the upper limit, evaluations included, that laptop-scale runs get through in a second of one core."""
USED = 0.34
"""Share of the upper limit that they really use."""
EVALUATED = 0.25
"""Of what a rollout costs, generated and trained on, its generation is about a quarter."""


@dataclass(frozen=True)
class JobCost:
    """One job. None where the config does not tell."""

    flops: float | None
    seconds: float | None


@dataclass(frozen=True)
class Cost:
    """A whole study."""

    jobs: Mapping[str, JobCost]
    """Cell -> one of its jobs."""
    num_jobs: int
    num_ended: int
    """Jobs that finished, failed or were stopped: they are not run again."""
    flops: float | None
    """Of the jobs that are left."""
    seconds: float | None
    """Of one core, for the jobs that are left."""
    num_measured: int
    """Finished jobs that the time is taken from; 0: a rough rate."""


def cost_of(plan: Plan, folder: StudyFolder | None) -> Cost:
    """`folder`: where jobs of this study have been run already."""
    rough = {cell.name: _job_cost(plan.configs.get(cell.name)) for cell in plan.cells}
    ended = set() if folder is None else {job.name for job in plan.jobs if folder.outcome(job) is not None}
    times = {} if folder is None else _measured(plan, folder)
    jobs = {cell: JobCost(cost.flops, _seconds(cost, rough, times)) for cell, cost in rough.items()}
    left = [jobs[job.cell] for job in plan.jobs if job.name not in ended]
    return Cost(
        jobs=jobs,
        num_jobs=len(plan.jobs),
        num_ended=len(ended),
        flops=_sum([cost.flops for cost in left]),
        seconds=_sum([cost.seconds for cost in left]),
        num_measured=len(times),
    )


def _job_cost(run: RunConfig | None) -> JobCost:
    if run is None:
        return JobCost(None, None)
    size, budget = size_of(run), run.scale.budget
    steps = _steps(run, size)
    if budget.unit == "device_hours":
        return JobCost(None, 3600 * budget.amount)
    if steps is None or size.flops is None:
        return JobCost(budget.amount if budget.unit == "flops" else None, None)
    flops = budget.amount if budget.unit == "flops" else steps * size.flops
    evaluated = EVALUATED * size.flops * size.evaluated_answers / size.rollouts / run.scale.evaluation.every
    return JobCost(flops, steps * (size.flops + evaluated) / RATE)


def _steps(run: RunConfig, size: Size) -> float | None:
    """How many steps the budget pays for, about."""
    budget = run.scale.budget
    if budget.unit == "tokens":
        read = run.scale.batch.prompts * run.scale.tokens.prompt
        return budget.amount / (read + size.generated_tokens + size.trained_tokens)
    if budget.unit == "flops":
        return None if size.flops is None else budget.amount / (USED * size.flops)
    return size.steps


def _measured(plan: Plan, folder: StudyFolder) -> dict[str, tuple[str, float]]:
    """Finished job -> its cell, and the time that it would have taken for the whole budget."""
    found = {}
    for job in plan.jobs:
        outcome = folder.outcome(job)
        if outcome is not None and outcome.state == "finished":
            reached = read_reached(folder.job_path(job))
            if reached.share > 0 and reached.wall_s > 0:
                found[job.name] = (job.cell, reached.wall_s / reached.share)
    return found


def _seconds(cost: JobCost, rough: Mapping[str, JobCost], times: Mapping[str, tuple[str, float]]) -> float | None:
    """The rough time, corrected by how long finished jobs took; without a rough one, what they took on average."""
    if not times:
        return cost.seconds
    if cost.seconds is None:
        return fmean(seconds for _, seconds in times.values())
    ratios = [seconds / known for cell, seconds in times.values() if (known := rough[cell].seconds) is not None]
    return cost.seconds * median(ratios) if ratios else cost.seconds


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
