"""A group of commands, such as `scalerl runs`: help when no command is given.

Used by the modules of the groups; the application adds what they build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer


def command_group(purpose: str, commands: Mapping[str, Callable[..., Any]]) -> typer.Typer:
    """The commands by name, in the order of the help."""
    app = typer.Typer(help=purpose, no_args_is_help=False)
    app.callback(invoke_without_command=True)(_help)
    for name, command in commands.items():
        app.command(name)(command)
    return app


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
