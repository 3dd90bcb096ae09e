"""A curve in a few lines of the terminal while it grows: points against a linear axis from zero to the end of a budget.

Used by the live view of a run. Unlike `chart` it needs no fit: the band of a forecast is drawn where there is one. It
fits itself to the width it is given, and to ASCII where the console's encoding has no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from scalerl.curves.results import Forecast
from scalerl.report.chart import BAND, FITTED, MEDIAN, value_ticks

ROWS = 10
WIDEST = 90
SMALLEST_HEIGHT = 0.1
"""Of the value axis: noise around one level must not look like a mountain range."""


class SmallChart:
    """A rich renderable. `points` are (compute, value); `end` is the right end of the axis and `end_label` its name."""

    def __init__(
        self, points: Sequence[tuple[float, float]], end: float, end_label: str, ahead: Sequence[Forecast] = ()
    ) -> None:
        self.points = points
        self.end = end
        self.end_label = end_label
        self.ahead = ahead

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = min(options.max_width, WIDEST) - 8
        if columns < 20 or not self.points or self.end <= 0:
            return
        bottom, top = self._height()
        cells = self._cells(columns, bottom, top, options.ascii_only)
        yield from _rows(cells, bottom, top, options.ascii_only)
        corner, line = ("+", "-") if options.ascii_only else ("└", "─")
        yield Text(" " * 7 + corner + line * columns, style="bright_black")
        yield Text(" " * 8 + "0" + self.end_label.rjust(columns - 1), style="bright_black")

    def _height(self) -> tuple[float, float]:
        values = [value for _, value in self.points]
        values += [end for one in self.ahead for end in (one.value, one.low, one.high) if end is not None]
        low, high = min(values), max(values)
        missing = max(0.04 * (high - low), (SMALLEST_HEIGHT - (high - low)) / 2)
        return low - missing, high + missing

    def _cells(self, columns: int, bottom: float, top: float, ascii_only: bool) -> list[list[tuple[str, str]]]:
        cells = [[(" ", "")] * columns for _ in range(ROWS)]

        def row(value: float) -> int:
            share = min(1.0, max(0.0, (value - bottom) / (top - bottom)))
            return ROWS - 1 - min(ROWS - 1, int(share * ROWS))

        def column(compute: float) -> int:
            return min(columns - 1, int(min(1.0, compute / self.end) * columns))

        for at, value, low, high in self._band(columns):
            for height in range(row(high), row(low) + 1):
                cells[height][at] = (BAND.ascii_mark if ascii_only else BAND.mark, BAND.style)
            cells[row(value)][at] = ("~" if ascii_only else "─", MEDIAN.style)
        for compute, value in self.points:
            cells[row(value)][column(compute)] = (FITTED.ascii_mark if ascii_only else FITTED.mark, FITTED.style)
        return cells

    def _band(self, columns: int) -> Iterator[tuple[int, float, float, float]]:
        """Column, median and both ends, for every column from the first forecast on; an unknown end is the median."""
        if not self.ahead:
            return
        at = np.array([one.compute for one in self.ahead])
        ends = [(one.value, one.low, one.high) for one in self.ahead]
        value, low, high = (np.array([one[0] if one[i] is None else one[i] for one in ends]) for i in range(3))
        first = min(columns - 1, int(at[0] / self.end * columns))
        for column in range(first, columns):
            place = (column + 1) / columns * self.end
            middle, bottom, top = (float(np.interp(place, at, line)) for line in (value, low, high))
            yield column, middle, bottom, top


def _rows(cells: list[list[tuple[str, str]]], bottom: float, top: float, ascii_only: bool) -> Iterator[Text]:
    labels = {
        ROWS - 1 - min(ROWS - 1, int((value - bottom) / (top - bottom) * ROWS)): label
        for value, label in value_ticks(bottom, top, 3)
    }
    for index, row in enumerate(cells):
        label = labels.get(index, "")
        text = Text(label.rjust(6) + " ")
        text.append(("+" if label else "|") if ascii_only else ("┤" if label else "│"), style="bright_black")
        for mark, style in row:
            text.append(mark, style=style)
        yield text
