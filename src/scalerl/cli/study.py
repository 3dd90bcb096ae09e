"""The group `scalerl study`: the list of its commands. Each command is a file of its own, `study_NAME`.

Called by the typer application.
"""

from __future__ import annotations

import typer

from scalerl.cli.study_plan import plan
from scalerl.cli.study_report import report
from scalerl.cli.study_run import add_seed, run
from scalerl.cli.study_status import status

PURPOSE = "Which choice moves the ceiling, which only the speed? Plan, run and read a study of many runs."


def build_study() -> typer.Typer:
    """The group of commands, for the application."""
    app = typer.Typer(help=PURPOSE, no_args_is_help=False)
    app.callback(invoke_without_command=True)(_group)
    app.command("plan")(plan)
    app.command("run")(run)
    app.command("status")(status)
    app.command("report")(report)
    app.command("add-seed")(add_seed)
    return app


def _group(context: typer.Context) -> None:
    """Help when no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
