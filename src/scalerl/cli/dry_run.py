"""`scalerl train --dry-run`: the whole config, what differs from the presets and who said so, and the size of the run.

Called by `train`. It starts nothing and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.budget import budget_words
from scalerl.cli.estimate import Size, size_of
from scalerl.cli.run_tables import set_words
from scalerl.config import digest, flatten, to_dict
from scalerl.report.plain import Printable

if TYPE_CHECKING:
    from scalerl.cli.output import Document
    from scalerl.config import Resolved, RunConfig


def dry_run_document(resolved: Resolved, out: Path) -> Document:
    """For --json."""
    config = resolved.config
    return {
        "out": str(out),
        "digest": digest(config),
        "config": to_dict(config),
        "changes": [
            {"key": key, "old": old, "new": new, "origin": resolved.origins.get(key)}
            for key, (old, new) in resolved.changes.items()
        ],
        "origins": dict(resolved.origins),
        "size": asdict(size_of(config)),
    }


def dry_run_parts(resolved: Resolved, out: Path, base: str) -> list[RenderableType]:
    """For people; `base` is what the changes are changes of."""
    parts: list[RenderableType] = [
        Text("Recipe", style="bold"), _table(resolved.config, "recipe."), Text(""),
        Text("Scale", style="bold"), _table(resolved.config, "scale."), Text(""),
        Text(f"Changed from {base}", style="bold"), *_changes(resolved), Text(""),
        Text("Size", style="bold"), *(Text(f"  {line}") for line in size_lines(resolved.config)), Text(""),
        Text(f"Seed {resolved.config.seed}. It would be written to {out}. Nothing was started."),
    ]  # fmt: skip
    return [Printable(part) for part in parts]


def size_lines(run: RunConfig) -> list[str]:
    """The size of a run in words."""
    size = size_of(run)
    batch, budget, asked = run.scale.batch, run.scale.budget, run.scale.evaluation
    written, trained = numbers.amount(size.generated_tokens), numbers.amount(size.trained_tokens)
    flops = "" if size.flops is None else f", {numbers.amount(size.flops, 2)} FLOPs"
    return [
        f"policy     {_parameters(size, run)}",
        f"budget     {budget_words(budget.unit, budget.amount)}{_in_all(size)}",
        f"step       {batch.prompts:,} prompts x {batch.rollouts:,} rollouts = {size.rollouts:,} rollouts",
        f"           at most {written} tokens written, {trained} trained on{flops}",
        f"evaluation {asked.problems:,} problems x {asked.samples:,} answers, every {asked.every:,} steps",
        *(f"downstream {name}: {set_words(run, name)}" for name in asked.downstream),
    ]


def _parameters(size: Size, run: RunConfig) -> str:
    if size.parameters is None:
        return f"{getattr(run.scale.model, 'name', 'pretrained')}, not opened"
    return f"{numbers.amount(size.parameters)} parameters"


def _in_all(size: Size) -> str:
    if size.steps is None:
        return ""
    flops = "" if size.flops is None else f", at most {numbers.amount(size.steps * size.flops, 2)} FLOPs"
    return f", {size.steps * size.rollouts:,} rollouts{flops}"


def _table(run: RunConfig, prefix: str) -> Table:
    """One row for each axis: its name, and its values."""
    rows: dict[str, list[str]] = {}
    for key, value in flatten(run).items():
        if key.startswith(prefix):
            axis, _, rest = key.removeprefix(prefix).partition(".")
            rows.setdefault(axis, []).append(f"{rest}={_shown(value)}" if rest else _shown(value))
    table = Table.grid(padding=(0, 3, 0, 0))
    for axis, values in rows.items():
        table.add_row(Text(f"  {axis}"), Text("  ".join(values)))
    return table


def _changes(resolved: Resolved) -> Iterator[RenderableType]:
    if not resolved.changes:
        yield Text("  nothing")
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("  key", "old -> new", "from"):
        table.add_column(title, overflow="fold")
    for key, (old, new) in resolved.changes.items():
        origin = resolved.origins.get(key, "default")
        table.add_row(Text(f"  {key}"), Text(f"{_shown(old)} -> {_shown(new)}"), Text(origin))
    yield table


def _shown(value: Any) -> str:
    """As in TOML; a key that one side does not have is a dash."""
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
