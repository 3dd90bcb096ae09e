"""Downstream sets in the report of a study: sentences, table rows, and the picture of one set against held-out.

Called by `study_sections`, `study_words` and `study_page` with the document of `scalerl.study.results`. Rows and
sentences are plain text; the picture is inline SVG with every name escaped, its colours from the page's style sheet.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.curves.results import Estimate
from scalerl.report.chart import value_ticks

Document = Mapping[str, Any]
NONE_MEASURED = (
    "No downstream set was measured: whether the order on held-out problems carries over to other problems is not "
    "known here."
)
HEAD = ("Cell", "Held-out, at the end", "Downstream, at the end", "Downstream ceiling", "To know")
WIDTH, HEIGHT = 330, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 10, 40
_NAME = (0.45, 0.07)
"""Room for a name, as shares of how far the points spread."""


def downstream_sets(results: Document) -> Sequence[Document]:
    """Results that were published before there were downstream sets have no such key."""
    return results.get("downstream") or ()


def correlation_words(one: Document) -> str:
    """Whether the cells end in the same order, as a sentence."""
    if one["correlation"] is None:
        return f"Downstream set {one['name']}: no rank correlation, because {one['reason']}."
    found = Estimate(**one["correlation"])
    return (
        f"Downstream set {one['name']}: rank correlation with the held-out value {numbers.estimate(found)} "
        f"over {one['ranked']} cells."
    )


def downstream_lines(results: Document) -> list[str]:
    """What stands above the tables."""
    sets = downstream_sets(results)
    if not sets:
        return [NONE_MEASURED]
    how = (
        "Each cell's end: the mean over seeds of their last three measurements of the set, and the held-out value of "
        "the same policy versions. Spearman's rank correlation is over cells that got to their full budget; its "
        "interval is for other cells like these, and knows nothing of seeds."
    )
    return [how, *map(correlation_words, sets)]


def downstream_rows(one: Document) -> tuple[tuple[str, ...], ...]:
    """The table of one set."""
    return tuple(
        (
            cell["name"], _shown(cell["in_distribution"]), _shown(cell["value"]), _ceiling(cell["joint"]),
            "" if cell["whole"] else "stopped early, not ranked",
        )
        for cell in one["cells"]
    )  # fmt: skip


def ends_of(one: Document) -> list[tuple[str, Estimate, Estimate]]:
    """Cell, held-out value, downstream value: what the pictures show."""
    return [(cell["name"], Estimate(**cell["in_distribution"]), Estimate(**cell["value"])) for cell in one["cells"]]


def labelled(ends: Sequence[tuple[str, Estimate, Estimate]]) -> set[str]:
    """The cells whose names fit beside their points, the outermost first: in a cluster the names would cover each
    other, and tables have them all."""
    spot = np.array([(x.value, y.value) for _, x, y in ends], dtype=np.float64).reshape(-1, 2)
    spread = np.array([_spread([pair[i] for _, *pair in ends]) for i in range(2)])
    place = spot / np.where(spread > 0, spread, 1.0)
    middle = np.median(place, axis=0) if len(spot) else np.zeros(2)
    taken: list[int] = []
    for index in np.argsort(-np.hypot(*(place - middle).T), kind="stable"):
        apart = np.abs(place[taken] - place[index])
        if not np.any((apart[:, 0] < _NAME[0]) & (apart[:, 1] < _NAME[1])):
            taken.append(int(index))
    return {ends[index][0] for index in taken}


def _spread(estimates: Sequence[Estimate]) -> float:
    """How far an axis goes: the intervals are on it too."""
    return float(np.ptp(_known(estimates))) if estimates else 0.0


def scatter(one: Document, base: str, words: str) -> str:
    """Downstream against held-out, a point with its two intervals for each cell; grey is the base."""
    ends = ends_of(one)
    across = _Axis.over([x for _, x, _ in ends], _LEFT, WIDTH - _RIGHT)
    up = _Axis.over([y for _, _, y in ends], HEIGHT - _BOTTOM, _TOP)
    parts, named = [_frame(across, up)], labelled(ends)
    for cell, x, y in ends:
        parts.append(_point(cell, x, y, across, up, "base-point" if cell == base else "cell-point"))
        if cell in named:
            parts.append(_label(cell, across.place(x.value), up.place(y.value)))
    return (
        f'<svg class="cell-chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(words)}">'
        f"{''.join(parts)}</svg>"
    )


def _known(estimates: Sequence[Estimate]) -> list[float]:
    return [value for one in estimates for value in (one.value, one.low, one.high) if value is not None]


class _Axis:
    """A linear axis from one place of the picture to another."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    @classmethod
    def over(cls, estimates: Sequence[Estimate], start: float, end: float) -> _Axis:
        known = _known(estimates)
        room = 0.08 * (max(known) - min(known)) or 0.05
        return cls(min(known) - room, max(known) + room, start, end)

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.place(value), label) for value, label in value_ticks(self.low, self.high, 4)]


def _frame(across: _Axis, up: _Axis) -> str:
    parts = [f'<path class="frame" d="M{_LEFT} {_TOP}V{up.start}H{across.end}"/>']
    for y, label in up.ticks():
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{across.end}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for x, label in across.ticks():
        parts.append(f'<text x="{x:.1f}" y="{up.start + 15}" text-anchor="middle">{label}</text>')
    middle = (across.start + across.end) / 2
    parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">held-out, at the end</text>')
    return "".join(parts)


def _point(cell: str, x: Estimate, y: Estimate, across: _Axis, up: _Axis, name: str) -> str:
    left, top, bars = across.place(x.value), up.place(y.value), ""
    if x.low is not None and x.high is not None:
        bars += f"M{across.place(x.low):.1f} {top:.1f}H{across.place(x.high):.1f}"
    if y.low is not None and y.high is not None:
        bars += f"M{left:.1f} {up.place(y.low):.1f}V{up.place(y.high):.1f}"
    lines = f'<path class="frame" d="{bars}"/>' if bars else ""
    dot = f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3.5"><title>{_safe(cell)}</title></circle>'
    return f'<g class="{name}">{lines}{dot}</g>'


def _label(cell: str, x: float, y: float) -> str:
    """Beside the point, on the side where there is room."""
    anchor, shift = ("end", -6) if x > WIDTH / 2 else ("start", 6)
    place = f'x="{x + shift:.1f}" y="{y - 5:.1f}" text-anchor="{anchor}"'
    return f'<text {place} style="font-size:9px">{_safe(cell, 22)}</text>'


def _shown(values: Document) -> str:
    return numbers.estimate(Estimate(**values))


def _ceiling(joint: Document | None) -> str:
    if joint is None:
        return numbers.UNKNOWN
    return _shown(joint["ceiling"]) + ("" if joint["identified"] else " (not identified)")


def _safe(words: str, limit: int = 60) -> str:
    return html.escape(numbers.name(words, limit))
