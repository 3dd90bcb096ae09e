"""Drawings of a study as inline SVG: an interval on a strip, and a cell's curve against the base's.

Called by `study_page` with plain numbers. Colours come from the page's style sheet by class, so that light, dark and
print are its business. Every text that comes in leaves escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.curves.laws import sigmoid
from scalerl.curves.results import Estimate
from scalerl.report.chart import compute_ticks, value_ticks

STRIP_WIDTH = 1000
WIDTH, HEIGHT = 330, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 8, 26

Places = Iterable[tuple[float, float]]


@dataclass(frozen=True)
class Span:
    """What all strips of one table share: the range, and what counts as equal."""

    low: float
    high: float
    margin: float

    @classmethod
    def over(cls, estimates: Sequence[Estimate], margin: float) -> Span:
        known = [end for one in estimates for end in (one.value, one.low, one.high) if end is not None]
        low, high = min([-margin, 0.0, *known]), max([margin, 0.0, *known])
        room = 0.05 * (high - low) or 1.0
        return cls(low - room, high + room, margin)

    def share(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def place(self, value: float) -> float:
        """On the strip."""
        return STRIP_WIDTH * self.share(value)


def strip(one: Estimate, span: Span, kind: str, words: str) -> str:
    """An interval around its estimate on the common scale; the stripe is what counts as equal."""
    left, right = span.place(-span.margin), span.place(span.margin)
    zero, at = span.place(0.0), span.place(one.value)
    parts = [f'<rect class="equal" x="{left:.1f}" y="0" width="{right - left:.1f}" height="34"/>']
    parts.append(_line("zero", zero, 0, zero, 34))
    if one.low is not None and one.high is not None:
        parts.append(_line("bar", span.place(one.low), 17, span.place(one.high), 17))
    # a line of no length with round ends is a dot that keeps its shape however wide the strip is stretched
    parts.append(f'<path class="bar" d="M{at:.1f} 17h0" style="stroke-width:11" vector-effect="non-scaling-stroke"/>')
    return (
        f'<svg class="strip" data-kind="{kind}" viewBox="0 0 {STRIP_WIDTH} 34" preserveAspectRatio="none" role="img" '
        f'aria-label="{html.escape(words)}">{"".join(parts)}</svg>'
    )


def strip_ticks(span: Span) -> str:
    """The scale below the strips."""
    ticks = [(span.share(value), label) for value, label in value_ticks(span.low, span.high, 4)]
    return "".join(f'<span style="left:{100 * share:.2f}%">{label}</span>' for share, label in ticks)


def _line(name: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="{name}" d="M{x1:.1f} {y1}L{x2:.1f} {y2}" vector-effect="non-scaling-stroke"/>'


@dataclass(frozen=True)
class Drawn:
    """One cell: the points of all its seeds, and the law of its joint fit."""

    points: tuple[tuple[float, float], ...]
    law: tuple[float, float, float, float] | None
    """Floor, ceiling, exponent, midpoint."""


@dataclass(frozen=True)
class Plane:
    """The part of the plane that every chart of a study shows, so that they can be compared by eye."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def over(cls, cells: Sequence[Drawn]) -> Plane | None:
        computes = [compute for cell in cells for compute, _ in cell.points]
        values = [value for cell in cells for _, value in cell.points]
        if not computes:
            return None
        room = 0.06 * (max(values) - min(values)) or 0.05
        stretch = (max(computes) / min(computes)) ** 0.03 or 1.1
        return cls(min(computes) / stretch, max(computes) * max(stretch, 1.001), min(values) - room, max(values) + room)

    def place(self, compute: float, value: float) -> tuple[float, float]:
        across = math.log(compute / self.left) / math.log(self.right / self.left)
        up = (value - self.bottom) / (self.top - self.bottom)
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)


def cell_chart(cell: Drawn, base: Drawn | None, plane: Plane, words: str) -> str:
    """A cell's points and law in colour, the base's in grey behind."""
    parts = [_frame(plane)]
    if base is not None:
        parts += [_points(base.points, plane, "base-point"), _law(base, plane, "base-law")]
    parts += [_points(cell.points, plane, "cell-point"), _law(cell, plane, "cell-law")]
    return (
        f'<svg class="cell-chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(words)}">'
        f"{''.join(parts)}</svg>"
    )


def _frame(plane: Plane) -> str:
    floor, end = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = [f'<path class="frame" d="M{_LEFT} {_TOP}V{floor}H{end}"/>']
    for value, label in value_ticks(plane.bottom, plane.top, 4):
        y = plane.place(plane.left, value)[1]
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{end}"/>')
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    ticks = compute_ticks(plane.left, plane.right)
    for value, label in ticks[:: -(-len(ticks) // 5) or 1]:
        x = plane.place(value, plane.bottom)[0]
        parts.append(f'<text x="{x:.1f}" y="{floor + 15}" text-anchor="middle">{label}</text>')
    return "".join(parts)


def _points(points: Places, plane: Plane, name: str) -> str:
    dots = (plane.place(*point) for point in points)
    return f'<g class="{name}">' + "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in dots) + "</g>"


def _law(cell: Drawn, plane: Plane, name: str) -> str:
    if cell.law is None or not cell.points:
        return ""
    ends = min(compute for compute, _ in cell.points), max(compute for compute, _ in cell.points)
    compute = np.geomspace(*ends, 60)
    values = sigmoid(compute, *cell.law)
    path = " ".join(
        f"{x:.1f},{y:.1f}" for x, y in (plane.place(float(c), float(v)) for c, v in zip(compute, values, strict=True))
    )
    return f'<polyline class="{name}" points="{path}"/>'
