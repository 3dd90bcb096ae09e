"""`scalerl study plan`: cells with their differences from the base, jobs, and the cost, before anything starts.

Registered by `study`. It starts nothing and writes nothing.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scalerl import numbers
from scalerl.cli import options, study_options
from scalerl.cli.budget import budget_words
from scalerl.cli.output import Document, Outcome, text_of, to_json
from scalerl.cli.study_options import asked_study

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalerl.cli.study_cost import Cost
    from scalerl.config.load import Changes
    from scalerl.study.jobs import Cell
    from scalerl.study.plan import Plan


def plan(
    study: study_options.StudyName,
    seeds: study_options.Seeds = None,
    sets: study_options.BaseSets = None,
    budget: study_options.StudyBudget = None,
    out: study_options.StudyOut = None,
    json: options.Json = False,
) -> Outcome:
    """Show the cells of a study, what differs from the base, and what it will cost; start nothing."""
    from scalerl.cli.study_cost import cost_of
    from scalerl.study.folder import StudyFolder
    from scalerl.study.plan import plan as plan_study

    planned = plan_study(asked_study(study, seeds, sets, budget))
    folder = StudyFolder.peek(out, planned) if out else None
    if folder is not None:
        planned = folder.plan
    cost = cost_of(planned, folder)
    if json:
        return Outcome(to_json(_document(planned, cost)))
    return Outcome(text_of(_parts(planned, cost, out)))


def _document(planned: Plan, cost: Cost) -> Document:
    config = planned.config
    return {
        "study": config.name,
        "question": config.question,
        "digest": planned.digest,
        "seeds": list(config.seeds),
        "base": config.base.model_dump(mode="json"),
        "runner": config.runner.kind,
        "cells": [_cell_document(cell, planned.diffs[cell.name], cost) for cell in planned.cells],
        "jobs": [{"name": job.name, "cell": job.cell, "seed": job.seed} for job in planned.jobs],
        "num_ended": cost.num_ended,
        "flops_left": cost.flops,
        "seconds_left": cost.seconds,
        "num_measured": cost.num_measured,
    }


def _cell_document(cell: Cell, changes: Changes, cost: Cost) -> Document:
    return {
        "name": cell.name,
        "recipe": cell.recipe,
        "paper": cell.paper,
        "changes": [{"key": key, "old": old, "new": new} for key, (old, new) in changes.items()],
        "flops": cost.jobs[cell.name].flops,
        "seconds": cost.jobs[cell.name].seconds,
    }


def _parts(planned: Plan, cost: Cost, out: str | None) -> list[RenderableType]:
    from rich.text import Text

    from scalerl.report.plain import Printable

    config = planned.config
    head = Text(f"Study {config.name}", style="bold")
    if config.question:
        head.append(f": {config.question}", style="not bold")
    tail = Text("\n".join(_cost_lines(planned, cost, out)))
    return [Printable(part) for part in (head, Text(""), _table(planned, cost), Text(""), tail)]


def _table(planned: Plan, cost: Cost) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("cell\n", overflow="fold")
    table.add_column("differs from the base\n", overflow="fold")
    for title in ("FLOPs\na job", "time\na job"):
        table.add_column(title, justify="right", no_wrap=True)
    for cell in planned.cells:
        lines = _base_lines(planned) if cell is planned.base else list(_change_lines(cell, planned.diffs[cell.name]))
        one = cost.jobs[cell.name]
        table.add_row(
            Text(cell.name), Text("\n".join(lines)), numbers.amount(one.flops, 2), _duration(one.seconds)
        )  # fmt: skip
    return table


def _base_lines(planned: Plan) -> list[str]:
    config, run = planned.config, planned.configs.get(planned.base.name)
    values = [
        f"{key} = {_shown(value)}" for key, value in config.base.set.items() if not key.startswith("scale.budget")
    ]
    if run is None:
        return values
    budget = budget_words(run.scale.budget.unit, run.scale.budget.amount)
    return [f"recipe {config.base.recipe}, scale {config.base.scale}, {budget}", *values]


def _change_lines(cell: Cell, changes: Changes) -> Iterator[str]:
    """Keys that went away with a changed variant are left out: they follow from it."""
    if cell.recipe is not None:
        yield f"recipe {cell.recipe}:"
    for key, (old, new) in changes.items():
        if old is None:
            yield f"{key} = {_shown(new)}"
        elif new is not None:
            yield f"{key}: {_shown(old)} -> {_shown(new)}"


def _cost_lines(planned: Plan, cost: Cost, out: str | None) -> Iterator[str]:
    cells, seeds = len(planned.cells), planned.config.seeds
    ended = f", {cost.num_ended} of them ended in {out}" if cost.num_ended else ""
    yield f"Jobs     {cells} cells x {len(seeds)} seeds ({', '.join(map(str, seeds))}) = {cost.num_jobs}{ended}"
    upper = any(run.scale.budget.unit in {"steps", "tokens"} for run in planned.configs.values())
    yield f"Compute  {'at most ' if upper and cost.flops is not None else ''}{numbers.amount(cost.flops, 2)} FLOPs"
    yield f"Time     {_time_words(planned, cost)}"
    yield "Nothing was started."


def _time_words(planned: Plan, cost: Cost) -> str:
    if cost.seconds is None:
        return "unknown until a job has finished"
    about = f"about {_duration(cost.seconds)} on one core"
    if cost.num_measured:
        return f"{about}, going by {cost.num_measured} finished {'job' if cost.num_measured == 1 else 'jobs'}"
    warm = any(run.scale.warm_start.kind == "sft" for run in planned.configs.values())
    more = " and the warm starts" if warm else ""
    return f"{about}{more}; rough: going by the laptop scale"


def _duration(seconds: float | None) -> str:
    from scalerl.cli.run_tables import duration

    return duration(seconds)


def _shown(value: Any) -> str:
    text = json_module.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
