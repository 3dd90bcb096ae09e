"""The group `scalerl study`: the list of its commands. Each command is a file of its own, `study_NAME`.

Called by the typer application.
"""

from __future__ import annotations

import typer

from scalerl.cli.group import command_group
from scalerl.cli.study_plan import plan
from scalerl.cli.study_report import report
from scalerl.cli.study_run import add_seed, run
from scalerl.cli.study_status import status

PURPOSE = "Which choice moves the ceiling, which only the speed? Plan, run and read a study of many runs."


def build_study() -> typer.Typer:
    """The group of commands, for the application."""
    return command_group(PURPOSE, {"plan": plan, "run": run, "status": status, "report": report, "add-seed": add_seed})
