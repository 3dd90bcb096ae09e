"""A small chart drawn with characters, for the terminal: points, curve, band, ceiling, budgets on a log axis.

`terminal` puts it above its tables. It fits itself to the width of the console, and to ASCII where the console's
encoding has no more. Without colour it still tells everything apart by its characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from scalerl import numbers
from scalerl.report.picture import Frame, Picture
from scalerl.series import FloatArray

WIDEST = 100
ROWS = 15


@dataclass(frozen=True)
class Ink:
    """One kind of mark: its character, the ASCII one, its style, and its name in the legend."""

    mark: str
    ascii_mark: str
    style: str
    words: str


BAND = Ink("░", ":", "cyan dim", "interval")
CEILING = Ink("╌", "=", "green", "ceiling")
BUDGET = Ink("┊", "|", "yellow", "budget")
LAW = Ink("⠒⠒⠒", "---", "cyan", "fitted law")
MEDIAN = Ink("⠒ ⠒", "~~~", "bright_cyan", "forecast")
BEFORE = Ink("·", ".", "bright_black", "not used")
FITTED = Ink("●", "*", "bright_blue", "used in the fit")
HELD_OUT = Ink("○", "o", "bright_yellow", "held out")
_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # bits by column and row of a cell


class Chart:
    """A rich renderable."""

    def __init__(self, picture: Picture, frame: Frame) -> None:
        self.picture = picture
        self.frame = frame

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = options.ascii_only
        ticks = value_ticks(self.frame.bottom, self.frame.top, 5)
        margin = max(len(label) for _, label in ticks) + 1
        columns = min(options.max_width, WIDEST) - margin - 2
        if columns < 20:
            return  # no room for a picture; the tables below say it all
        canvas = _Canvas(self.frame, columns, ROWS, ascii_only)
        used = _draw(canvas, self.picture, self.frame)
        yield Text(" " * margin + numbers.name(self.picture.fit.value_name, columns), style="bold")
        yield from _rows(canvas, ticks, margin, ascii_only)
        yield from _compute_axis(self.frame, columns, margin, self.picture.fit.compute_name, ascii_only)
        yield from _legend(used, margin, margin + columns + 2, ascii_only, self.picture.level)


def _draw(canvas: _Canvas, picture: Picture, frame: Frame) -> list[Ink]:
    """Bottom layer first; returns what was used, for the legend."""
    used = [LAW, MEDIAN]
    if picture.low is not None and picture.high is not None:
        canvas.band(picture.future, picture.low, picture.high)
        used.append(BAND)
    if picture.ceiling is not None:
        canvas.marks([(x, picture.ceiling.value) for x in canvas.columns_at], CEILING)
        used.append(CEILING)
    for budget in picture.budgets:
        canvas.marks([(budget.compute, y) for y in np.linspace(frame.bottom, frame.top, 4 * ROWS)], BUDGET)
    used += [BUDGET] if picture.budgets else []
    canvas.line(picture.past, picture.fitted_law, LAW)
    canvas.line(picture.future, picture.median, MEDIAN)
    for points, ink in ((picture.before, BEFORE), (picture.held_out, HELD_OUT), (picture.fitted, FITTED)):
        canvas.marks(zip(points.compute, points.value, strict=True), ink)
        used += [ink] if points.total else []
    return [ink for ink in _LEGEND_ORDER if ink in used]


_LEGEND_ORDER = (FITTED, HELD_OUT, BEFORE, LAW, MEDIAN, BAND, CEILING, BUDGET)


class _Canvas:
    """Character cells over the frame, compute on a log scale; later marks cover earlier ones."""

    def __init__(self, frame: Frame, columns: int, rows: int, ascii_only: bool) -> None:
        self.frame = frame
        self.columns = columns
        self.rows = rows
        self.ascii_only = ascii_only
        self.cells: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(rows)]
        self.columns_at = self._computes(columns)

    def _computes(self, count: int) -> FloatArray:
        """The compute at the middle of each of `count` columns."""
        share = (np.arange(count) + 0.5) / count
        return self.frame.left * (self.frame.right / self.frame.left) ** share

    def place(self, compute: float, value: float, columns: int, rows: int) -> tuple[int, int] | None:
        """(row from the top, column) on a raster of the given size; None outside the frame."""
        across = math.log(compute / self.frame.left) / math.log(self.frame.right / self.frame.left)
        up = (value - self.frame.bottom) / (self.frame.top - self.frame.bottom)
        if not (0 <= across <= 1 and 0 <= up <= 1):
            return None
        return rows - 1 - min(int(up * rows), rows - 1), min(int(across * columns), columns - 1)

    def marks(self, places: Iterable[tuple[float, float]], ink: Ink) -> None:
        mark = ink.ascii_mark if self.ascii_only else ink.mark
        for compute, value in places:
            at = self.place(compute, value, self.columns, self.rows)
            if at is not None:
                self.cells[at[0]][at[1]] = (mark, ink.style)

    def band(self, compute: FloatArray, low: FloatArray, high: FloatArray) -> None:
        inside = self.columns_at[(self.columns_at >= compute[0]) & (self.columns_at <= compute[-1])]
        ends = zip(inside, _read(inside, compute, low), _read(inside, compute, high), strict=True)
        step = (self.frame.top - self.frame.bottom) / self.rows / 2
        for at, bottom, top in ends:
            if math.isfinite(bottom + top):
                self.marks([(at, y) for y in [*np.arange(bottom, top, step), top]], BAND)

    def line(self, compute: FloatArray, value: FloatArray, ink: Ink) -> None:
        """Braille dots, two by four to a cell, are smoother than the cells; in ASCII one mark a column."""
        across, down = (1, 1) if self.ascii_only else (2, 4)
        at = self._computes(self.columns * across)
        at = at[(at >= compute[0]) & (at <= compute[-1])]
        dots: dict[tuple[int, int], int] = {}
        last: int | None = None
        for x, y in zip(at, _read(at, compute, value), strict=True):
            place = self.place(x, y, self.columns * across, self.rows * down)
            if place is None:
                last = None
                continue
            row, column = place
            for step in _rows_between(last, row):
                cell = (step // down, column // across)
                dots[cell] = dots.get(cell, 0) | _BRAILLE[column % across][step % down]
            last = row
        for (row, column), bits in dots.items():
            if self.ascii_only:
                self.cells[row][column] = (ink.ascii_mark[0], ink.style)
            elif ink is LAW or column % 2:  # the forecast is dashed
                self.cells[row][column] = (chr(0x2800 + bits), ink.style)


def _read(at: FloatArray, compute: FloatArray, value: FloatArray) -> FloatArray:
    return np.asarray(np.interp(np.log(at), np.log(compute), value))


def _rows_between(last: int | None, row: int) -> Sequence[int]:
    """From just after the last row to this one, so that a steep line has no holes."""
    if last is None or abs(row - last) <= 1:
        return [row]
    return range(last + 1, row + 1) if row > last else range(row, last)


def _rows(canvas: _Canvas, ticks: list[tuple[float, str]], margin: int, ascii_only: bool) -> Iterable[Text]:
    labels: dict[int, str] = {}
    for value, label in ticks:
        at = canvas.place(canvas.frame.right, value, canvas.columns, canvas.rows)
        if at is not None:
            labels[at[0]] = label
    for index, row in enumerate(canvas.cells):
        label = labels.get(index, "")
        text = Text(label.rjust(margin - 1) + " ")
        text.append(("+" if label else "|") if ascii_only else ("┤" if label else "│"), style="bright_black")
        for mark, style in row:
            text.append(mark, style=style)
        yield text


def _compute_axis(frame: Frame, columns: int, margin: int, name: str, ascii_only: bool) -> Iterable[Text]:
    corner, line, tick = ("+", "-", "+") if ascii_only else ("└", "─", "┬")
    axis, words = [line] * columns, [" "] * (columns + 8)
    free = 0
    for value, label in compute_ticks(frame.left, frame.right):
        column = int(math.log(value / frame.left) / math.log(frame.right / frame.left) * columns)
        start = max(0, min(column - len(label) // 2, columns - len(label)))
        if start < free or column >= columns:
            continue
        axis[column] = tick
        words[start : start + len(label)] = label
        free = start + len(label) + 2
    yield Text(" " * margin + corner + "".join(axis), style="bright_black")
    yield Text(" " * (margin + 1) + "".join(words).rstrip())
    yield Text(f"{numbers.name(name, columns - 12)}, log scale".rjust(margin + 1 + columns), style="bold")


def _legend(used: Sequence[Ink], margin: int, room: int, ascii_only: bool, level: float) -> Iterable[Text]:
    """Entries side by side, broken between entries and never inside one."""
    line = Text(" " * margin)
    for ink in used:
        entry = Text(" ")
        entry.append(ink.ascii_mark if ascii_only else ink.mark, style=ink.style)
        entry.append(f" {numbers.percent(level)} interval " if ink is BAND else f" {ink.words} ")
        if len(line) > margin and len(line) + len(entry) > room:
            yield line
            line = Text(" " * margin)
        line.append_text(entry)
    yield line


def compute_ticks(left: float, right: float) -> list[tuple[float, str]]:
    """Round values on a log axis: powers of ten over a wide range, 1-2-5 over a narrow one, finer if hardly any fit."""
    powers = range(math.floor(math.log10(left)), math.ceil(math.log10(right)) + 1)
    wide = right / left > 1e4
    values = [digit * 10.0**power for power in powers for digit in ((1,) if wide else (1, 2, 5))]
    values = [value for value in values if left * (1 - 1e-9) <= value <= right * (1 + 1e-9)]
    if len(values) < 2:
        return value_ticks(left, right, 4, compute=True)
    return [(value, numbers.amount(value)) for value in values]


def value_ticks(low: float, high: float, count: int, *, compute: bool = False) -> list[tuple[float, str]]:
    """About `count` round values between low and high, with just the decimals they need."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= raw * 0.75)
    values = [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
    if compute:
        return [(value, numbers.amount(value, 4)) for value in values]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if step / power == 2.5 else 0)
    if max(abs(low), abs(high)) >= 1e5 or decimals > 6:
        return [(value, numbers.number(value)) for value in values]
    return [(value, f"{value + 0.0:.{decimals}f}") for value in values]
