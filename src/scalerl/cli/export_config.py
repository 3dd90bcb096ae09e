"""`scalerl export-config`: a recipe in the words of another trainer, with what those words cannot say.

Called by the typer application. What the words are is the business of `scalerl.interop`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scalerl.cli import options
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.cli.settings import Asked, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from scalerl.interop import Exported

Trainer = Annotated[Literal["trl", "verl"], typer.Argument(metavar="TRAINER", help="trl or verl.")]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", rich_help_panel=options.OUT, help="A .yaml file. Default: standard output."),
]
_COLOURS = {"exact": "green", "nearest": "yellow", "missing": "red"}


def export_config(
    trainer: Trainer,
    recipe: options.Recipe = None,
    scale: options.Scale = None,
    config: options.ConfigFile = None,
    sets: options.Sets = None,
    seed: options.Seed = None,
    out: Out = None,
    json: options.Json = False,
) -> Outcome:
    """Write the nearest config of TRL or verl for a recipe, and list what it cannot express."""
    from scalerl.cli.checks import output_path
    from scalerl.interop import export

    run = resolve(Asked(recipe=recipe, scale=scale, config=config, sets=tuple(sets or ()), seed=seed)).config
    path = None if out is None else output_path("--out", out, ("yaml", "yml"))
    exported = export(trainer, run)
    if path is not None:
        _write(path, exported.text)
    if json:
        axes = [{key: value for key, value in asdict(axis).items() if key != "settings"} for axis in exported.axes]
        document = {"trainer": trainer, "version": exported.version, "file": out, "axes": axes}
        return Outcome(to_json(document | {"settings": exported.settings, "notes": list(exported.notes)}))
    return Outcome(exported.text if path is None else text_of(_parts(exported, path)))


def _write(path: Path, text: str) -> None:
    from scalerl.folder import make_folder, replace_file

    make_folder(path.parent)
    replace_file(path, text)


def _parts(exported: Exported, path: Path) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for title in ("axis", "recipe", f"{exported.target} {exported.version}", "", "what is different"):
        table.add_column(title, overflow="fold")  # the names of fields are long, and half of one is none
    for axis in exported.axes:
        fidelity = Text(axis.fidelity, _COLOURS[axis.fidelity])
        table.add_row(axis.name, axis.ours, axis.theirs or "-", fidelity, axis.reason)
    return [table, Text(), *(Text(f"- {note}") for note in exported.notes), Text(), Text(f"Config: {path}")]
