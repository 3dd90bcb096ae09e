"""`scalerl study status`: how far a study is, from its folder alone.

Registered by `study`. Nothing is written and no process is asked, so it can be called while the study runs, and on a
copy of the folder.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scalerl.cli import options
from scalerl.cli.output import Outcome, text_of, to_json

if TYPE_CHECKING:
    from scalerl.study.status import StudyStatus

StudyPath = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a study.")]
Forecast = Annotated[
    bool,
    typer.Option("--forecast", metavar="", help="Fit each cell, and forecast its value at the full budget."),
]


def status(folder: StudyPath, forecast: Forecast = False, json: options.Json = False) -> Outcome:
    """Show how far a study is: the jobs of each cell, failures, time left."""
    from rich.text import Text

    from scalerl.cli.study_tables import status_parts
    from scalerl.study.folder import StudyFolder
    from scalerl.study.forecasts import forecasts
    from scalerl.study.runner import open_runner
    from scalerl.study.status import study_status

    opened = StudyFolder.open(folder)
    runner = open_runner(opened.config)
    found = study_status(opened, runner)
    ahead = forecasts(opened, runner) if forecast else None
    if json:
        more = {} if ahead is None else {"forecasts": {cell: asdict(one) for cell, one in ahead.items()}}
        return Outcome(to_json({"folder": folder, **found.to_dict(), **more}))
    return Outcome(text_of([status_parts(found, ahead), Text(next_line(found, folder))]))


def next_line(found: StudyStatus, folder: str) -> str:
    """What to type next."""
    quoted = shlex.quote(folder)
    if found.runs_in is not None:
        return f"It is being run by {found.runs_in}."
    if not found.done:
        return f"Go on: scalerl study run {quoted}"
    again = f", try them again: scalerl study run {quoted} --retry-failed" if "failed" in found.counts else ""
    return f"Report: scalerl study report {quoted}{again}"
