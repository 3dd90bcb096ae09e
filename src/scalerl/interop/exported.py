"""What an export is made of: axes of the recipe with what became of them, settings of the other trainer, and the file.

Used by `trl` and `verl`, which know the trainers, and by the command line, which shows the axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from scalerl.config.layers import leaves
from scalerl.interop.yaml import to_yaml

Target = Literal["trl", "verl"]
Fidelity = Literal["exact", "nearest", "missing"]
Settings = Mapping[str, Any]
"""Dotted key -> value."""

_WIDTH = 110


@dataclass(frozen=True)
class Axis:
    """One axis of the recipe in another trainer."""

    name: str
    """As `RecipeConfig` has it."""
    ours: str
    theirs: str
    fidelity: Fidelity
    """exact: the same arithmetic. nearest: something like it. missing: nothing like it."""
    reason: str = ""
    """What is different; empty for exact."""
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Exported:
    """A recipe at a scale, for another trainer."""

    target: Target
    version: str
    """Of the trainer whose fields these are."""
    command: str
    """How the file is used."""
    axes: tuple[Axis, ...]
    scale: Settings
    """What follows from the scale."""
    notes: tuple[str, ...]
    """What the user has to bring, and what else is different."""
    prelude: Settings = field(default_factory=dict)
    """What stands first in the file."""

    @property
    def settings(self) -> dict[str, Any]:
        """Dotted key -> value, those of the scale first. An axis may sharpen what the scale says."""
        found = dict(self.prelude) | dict(self.scale)
        for axis in self.axes:
            found |= axis.settings
        return found

    @property
    def text(self) -> str:
        """The file: what cannot be expressed as comments, then YAML."""
        head = [f"# A ScaleRL recipe for {self.target} {self.version}, the nearest that its fields can say.", "# Use:"]
        head += [f"#   {self.command}", "#"]
        for fidelity, title in (("missing", "Not expressible"), ("nearest", "Nearest"), ("exact", "Exact")):
            head += _comments(title, [axis for axis in self.axes if axis.fidelity == fidelity])
        head += ["# Yours to do, and other differences:"]
        head += [line for note in self.notes for line in _wrapped(f"- {note}", "#   ", "#     ")]
        return "\n".join(head) + "\n" + to_yaml(_nested(self.settings))


def _comments(title: str, axes: Sequence[Axis]) -> list[str]:
    if not axes:
        return []
    lines = [f"# {title}:"]
    for axis in axes:
        what = f"- {axis.name} = {axis.ours}: {axis.theirs or 'nothing'}"
        lines += _wrapped(f"{what}; {axis.reason}" if axis.reason else what, "#   ", "#     ")
    return [*lines, "#"]


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _nested(flat: Settings) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        place = tree
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


def flat_keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """Every dotted key, tables included in their leaves."""
    for path, _ in leaves(_nested(settings)):
        yield ".".join(path)
