"""The typer application: the list of commands and `--version`. Built once by `main`.

The command modules import the engine, the readers and the plots only when they run, so that `--help` is instant.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scalerl import __version__
from scalerl.cli.backtest import backtest
from scalerl.cli.cluster_check import cluster_check
from scalerl.cli.compare import compare
from scalerl.cli.data import build_data
from scalerl.cli.decide import decide
from scalerl.cli.evaluate import evaluate
from scalerl.cli.export_config import export_config
from scalerl.cli.fit import fit
from scalerl.cli.models import build_models
from scalerl.cli.plan import plan
from scalerl.cli.read import read
from scalerl.cli.report import report
from scalerl.cli.runs import build_runs
from scalerl.cli.sft import sft
from scalerl.cli.study import build_study
from scalerl.cli.train import train
from scalerl.cli.watch_page import watch

PURPOSE = """\
Scaling curves of RL post-training: train, fit them, forecast with intervals, compare recipes, decide what to scale.

The commands that fit read tables of a measured value (pass rate, mean reward) against compute (GPU-hours, FLOPs, \
tokens, steps), run directories, or other trainers' logs. A row at compute zero is the measurement before training. \
Bad input ends with one line and exit code 2.
"""
EXAMPLES = """\
[bold]Try:[/bold]

  scalerl train --dry-run

  scalerl fit --example scalerl-8b --until 50k --budget 100k

  scalerl fit run.csv --x gpu_hours --y pass_rate --target 0.6 --plot run.png

  scalerl compare baseline.csv candidate.csv
"""


def build() -> Any:
    """The command as a callable object with a `main` method."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True, help=PURPOSE, epilog=EXAMPLES)(_root)
    for command in (train, sft, evaluate, read, fit, compare, decide, backtest, report, watch, plan, cluster_check):
        app.command()(command)
    app.command()(export_config)
    app.add_typer(build_models(), name="models")
    app.add_typer(build_data(), name="data")
    app.add_typer(build_runs(), name="runs")
    app.add_typer(build_study(), name="study")
    return typer.main.get_command(app)


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Show the version and exit.")] = False,
) -> None:
    """What every command shares: `--version`, and help when no command is given."""
    if version:
        typer.echo(f"scalerl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
