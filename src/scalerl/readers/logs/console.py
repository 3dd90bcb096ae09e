"""Captured console output: the metric lines that trainers print, among whatever else was printed.

Called by `open`. One log has one of the shapes of `console_shapes`; every line of another shape is ordinary chatter and
not counted as skipped. Hugging Face's dicts name no step. If the file holds the progress bar too, the bar tells it:
tqdm wipes the bar, writes the dict, and draws the bar again, so a dict between blanks and a bar belongs to the step
that this bar shows. A dict elsewhere was held back by a buffer and belongs to no step that can be known. Without bars
the records have no step at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from scalerl.errors import InputError
from scalerl.readers.logs.console_shapes import SHAPES, Found, Shape, looks_like
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.text_lines import Line, pieces, text_lines

_SEARCHED_LINES = 200_000
"""A run may print its config and the loading of a model for long before the first metric."""
_ENOUGH_LINES = 50
_BAR = re.compile(r"^\s*\d+%\|[^|]*\|\s*(\d{1,15})/(\d{1,15}) \[")


def is_console_log(lines: Iterable[str]) -> bool:
    """Several metric lines of one known shape."""
    return _shape(lines) is not None


def find_console_log(path: Path, label: str) -> ConsoleLog | None:
    """The log of a file whose first block may be nothing but chatter; None when no metric lines come later either."""
    log = ConsoleLog(path, label)
    return log if log.shape is not None else None


class ConsoleLog:
    """`Log` of captured console output."""

    name: str | None = None

    def __init__(self, path: str | Path, label: str) -> None:
        self.label = label
        self._path = Path(path)

    @property
    def kind(self) -> str:
        return f"console output with {self._known.words}"

    @cached_property
    def shape(self) -> Shape | None:
        """How this trainer prints its metrics, from as many lines as are worth reading."""
        lines = text_lines(self._path, self.label, Tally())
        return _shape(line.text for line in islice(lines, _SEARCHED_LINES))

    def records(self, tally: Tally) -> Iterator[Record]:
        if self._known.stepless and self._bar_total is not None:
            lines = pieces(self._path, self.label, tally)
            yield from _by_bars(lines, self._known, self._bar_total, tally)
            return
        for line in text_lines(self._path, self.label, tally):
            for found in _read(line, self._known, tally):
                yield Record(found.values, found.step, found.time_s)

    @property
    def _known(self) -> Shape:
        if self.shape is None:
            raise InputError("no metric lines that we know", allowed="console output of a trainer", where=self.label)
        return self.shape

    @cached_property
    def _bar_total(self) -> int | None:
        """The length of the training run's bar: the one drawn after most dicts. None when few are printed with one."""
        lines = pieces(self._path, self.label, Tally())
        first = list(islice(_with_bars(lines, self._known, Tally(), None), _ENOUGH_LINES))
        totals = Counter(bar.total for _, bar in first if bar is not None)
        total, count = totals.most_common(1)[0] if totals else (0, 0)
        return total if count > len(first) / 2 else None


def _shape(lines: Iterable[str]) -> Shape | None:
    """The first shape that has enough lines; the more telling ones need fewer."""
    counts = dict.fromkeys(range(len(SHAPES)), 0)
    for text in lines:
        at = next((i for i, shape in enumerate(SHAPES) if looks_like(shape, text)), None)
        if at is not None:
            counts[at] += 1
            if counts[at] >= _ENOUGH_LINES:
                break
    return next((SHAPES[i] for i, count in counts.items() if count >= SHAPES[i].at_least), None)


def _read(line: Line, shape: Shape, tally: Tally) -> list[Found]:
    if not shape.hint(line.text):
        return []
    found, damaged = shape.read(line.text, line.whole)
    if damaged:
        tally.skip("damaged metrics" if found else "damaged metric lines", line.where, damaged if found else 1)
    return found


class _Bar(NamedTuple):
    """A progress bar that has no description in front, as that of training; evaluation has such bars too."""

    done: int
    total: int

    @classmethod
    def of(cls, text: str) -> _Bar | None:
        found = _BAR.match(text)
        return None if found is None else cls(int(found[1]), int(found[2]))


def _with_bars(
    lines: Iterator[Line], shape: Shape, tally: Tally, total: int | None
) -> Iterator[tuple[Record, _Bar | None]]:
    """Each dict with the bar (of this total, if given) that was drawn after it; None if it stands elsewhere."""
    waiting: Record | None = None
    wiped = False  # blanks were written just before
    for line in lines:
        bar = _Bar.of(line.text)
        if bar is not None and waiting is not None and total in {None, bar.total}:
            yield waiting, bar
            waiting = None
        for found in [] if bar is not None or not line.text.strip() else _read(line, shape, tally):
            if waiting is not None:
                yield waiting, None
            waiting = Record(found.values, found.step, found.time_s)
            if not wiped:
                yield waiting, None
                waiting = None
        wiped = line.text.isspace() or (wiped and not line.text)
    if waiting is not None:
        yield waiting, None


def _by_bars(lines: Iterator[Line], shape: Shape, total: int, tally: Tally) -> Iterator[Record]:
    for record, bar in _with_bars(lines, shape, tally, total):
        if bar is not None:
            yield replace(record, step=float(bar.done))
        elif record.step is not None:
            yield record
        else:
            tally.skip("printed dicts whose step cannot be told", "one with no progress bar drawn around it")
