"""From a `Reading` to curves and from curves to fits: the steps every command shares.

Used by the command modules. How a file is parsed is the readers' business, how a curve is fitted the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalerl.cli import places
from scalerl.cli.checks import Fitting, FloorChoice, Reading
from scalerl.cli.reading_bar import reading_bar
from scalerl.report.answers import source_document

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalerl.curves import Fit
    from scalerl.series import Series


@dataclass(frozen=True)
class Curves:
    """What was read: the seeds of each curve, by name."""

    seeds: dict[str, list[Series]]
    floor: FloorChoice | None = None
    """What the example recommends; a file recommends nothing."""
    window: tuple[float | None, float | None] = (None, None)
    example: str | None = None
    citation: str | None = None
    description: str | None = None

    def source(self, series: Sequence[Series]) -> dict[str, Any]:
        """Where these series came from, for the JSON documents."""
        files = [] if self.example else [one.source for one in series]
        notes = dict.fromkeys(note for one in series for note in one.notes)
        return source_document(files, self.example, self.citation) | {"notes": [*notes]}

    def notes(self) -> list[str]:
        """What the readers have to say about logs; with several curves each line names its own."""
        several = len(self.seeds) > 1
        lines = (
            f"{name}: {note}" if several else note
            for name, seeds in self.seeds.items()
            for series in seeds
            for note in series.notes
        )
        return list(dict.fromkeys(lines))


def read(reading: Reading, *, as_seeds: bool = False) -> Curves:
    """Read the files or the example."""
    if reading.example is not None:
        return _example(reading.example)
    from scalerl.readers import read_curves

    with reading_bar() as progress:
        seeds = read_curves(reading.files, **reading.options(progress))
    return Curves(_together(seeds) if as_seeds else seeds)


def _example(name: str) -> Curves:
    from scalerl.readers import load_example

    example = load_example(name)
    return Curves(
        {example.series.name: [example.series]},
        example.floor,
        example.window,
        name,
        example.citation,
        example.description,
    )


def _together(curves: dict[str, list[Series]]) -> dict[str, list[Series]]:
    """All curves as seeds of one, named after what their names share."""
    first, last = min(curves), max(curves)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    shared = first[:length].rstrip("-_./# 0123456789")
    return {shared or "all seeds": [series for seeds in curves.values() for series in seeds]}


def with_advice(fitting: Fitting, curves: Curves) -> tuple[Fitting, tuple[str, ...]]:
    """Fill in what the example recommends and the user left open; the notes say what that was."""
    low, high = curves.window
    notes = []
    takes_floor = fitting.law == "sigmoid" or fitting.method == "paper"
    if curves.floor is not None and fitting.floor is None and takes_floor:
        fitting = replace(fitting, floor=curves.floor)
        notes.append(f"floor {curves.floor} (--floor)")
    if low is not None and fitting.start is None:
        fitting = replace(fitting, start=low)
        notes.append(f"points from {low:g} (--from)")
    if high is not None and fitting.until is None:
        fitting = replace(fitting, until=high)
        notes.append(f"points until {high:g} (--until)")
    return fitting, (f"the example recommends: {', '.join(notes)}",) if notes else ()


def about(curves: Curves, advice: Sequence[str]) -> list[RenderableType]:
    """What a reader of the human output should know about an example, or about how a log was read."""
    from rich.text import Text

    lines = [_sentence(line) for line in advice]
    if curves.example is not None:
        lines = [f"{curves.description}.", f"Source: {curves.citation}.", *lines]
    lines = [*(f"{line}." if len(curves.seeds) > 1 else _sentence(line) for line in curves.notes()), *lines]
    if not lines:
        return []
    return [Text("\n".join(lines) + "\n", style="dim")]


def _sentence(line: str) -> str:
    """A line that begins with a curve's or a metric's name keeps it as it is written."""
    first = line.split(" ", 1)[0]
    return f"{line[:1].upper() + line[1:] if first.rstrip(':').isalpha() and first.islower() else line}."


def fit_all(curves: Curves, fitting: Fitting) -> list[Fit]:
    """One fit for each curve, in the order read."""
    from scalerl.curves import fit

    return [
        fit(
            seeds,
            law=fitting.law,
            floor=fitting.floor,
            ceiling=fitting.ceiling,
            bounds=fitting.bounds,
            window=places.window_of(seeds, fitting.start, fitting.until),
            method=fitting.method,
            level=fitting.level,
            name=name,
        )
        for name, seeds in curves.seeds.items()
    ]
