"""A small chart as inline SVG text: for notebooks, where a script would be blocked and a bitmap would be heavy.

Called by `notebook` with plain arrays. Text and axes take the colour of the text around them, so that the chart reads
on light and on dark ground. It knows nothing of fits; names come in as text and leave escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from scalerl import numbers
from scalerl.curves.results import Estimate
from scalerl.report.chart import compute_ticks, value_ticks
from scalerl.report.palette import BLUE
from scalerl.report.picture import Frame

WIDTH, HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 40
_MOST_TICKS = 8

Places = Iterable[tuple[float, float]]


@dataclass
class SvgChart:
    """Collects marks, then `text` puts them on axes: compute on a log scale, value on a linear one."""

    frame: Frame
    compute_name: str
    value_name: str
    title: str
    """What the chart shows, for those who hear it."""
    _parts: list[str] = field(default_factory=list)

    def points(self, places: Places, colour: str, *, hollow: bool = False, faint: bool = False) -> None:
        paint = f'fill="none" stroke="{colour}"' if hollow else f'fill="{colour}"'
        opacity = ' opacity="0.5"' if faint else ""
        dots = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in self._visible(places))
        self._parts.append(f"<g {paint}{opacity}>{''.join(dots)}</g>")

    def line(self, places: Places, colour: str, *, dash: str = "") -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in self._visible(places))
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{style}/>')

    def band(self, low: Places, high: Places, colour: str) -> None:
        corners = [*self._visible(low), *reversed(list(self._visible(high)))]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._parts.append(f'<polygon points="{path}" fill="{colour}" opacity="0.2"/>')

    def level(self, value: float, colour: str, words: str) -> None:
        """A horizontal line over the whole width, with its name at the left end."""
        self.line([(self.frame.left, value), (self.frame.right, value)], colour, dash="6 4")
        x, y = self._place(self.frame.left, value)
        self._parts.append(f'<text x="{x + 4:.1f}" y="{y - 4:.1f}" font-size="11">{html.escape(words)}</text>')

    def text(self) -> str:
        return _svg(f"{self._axes()}{''.join(self._parts)}", HEIGHT, self.title)

    def _visible(self, places: Places) -> Iterable[tuple[float, float]]:
        return (self._place(*place) for place in places if all(map(math.isfinite, place)))

    def _place(self, compute: float, value: float) -> tuple[float, float]:
        frame = self.frame
        across = math.log(compute / frame.left) / math.log(frame.right / frame.left)
        up = (value - frame.bottom) / (frame.top - frame.bottom)
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM)

    def _axes(self) -> str:
        frame, floor = self.frame, HEIGHT - _BOTTOM
        parts = [f'<path d="M{_LEFT} {_TOP}V{floor}H{WIDTH - _RIGHT}" fill="none" stroke="currentColor"/>']
        for value, label in value_ticks(frame.bottom, frame.top, 4):
            y = self._place(frame.left, value)[1]
            parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="currentColor" opacity="0.12"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" font-size="11" text-anchor="end">{label}</text>')
        for value, label in _spaced(compute_ticks(frame.left, frame.right)):
            x = self._place(value, frame.bottom)[0]
            parts.append(f'<path d="M{x:.1f} {floor}v4" stroke="currentColor"/>')
            parts.append(f'<text x="{x:.1f}" y="{floor + 16}" font-size="11" text-anchor="middle">{label}</text>')
        return "".join([*parts, self._names()])

    def _names(self) -> str:
        x_name, y_name = (html.escape(numbers.name(text)) for text in (self.compute_name, self.value_name))
        middle = (HEIGHT - _BOTTOM + _TOP) / 2
        return (
            f'<text x="{(WIDTH + _LEFT) / 2}" y="{HEIGHT - 6}" font-size="12" text-anchor="middle">{x_name}</text>'
            f'<text transform="translate(12 {middle}) rotate(-90)" font-size="12" text-anchor="middle">{y_name}</text>'
        )


def forest(rows: Sequence[tuple[str, Estimate]], margin: float, title: str) -> str:
    """One line for each difference with its interval, around zero; the stripe is what counts as equal."""
    known = [end for _, one in rows for end in (one.value, one.low, one.high) if end is not None]
    low, high = min(-margin, *known), max(margin, *known)
    reach = 0.05 * (high - low) or 1.0
    place = _scaled(low - reach, high + reach)
    floor = 24 * len(rows) + 8
    left, right, zero = place(-margin), place(margin), place(0.0)
    parts = [f'<rect x="{left:.1f}" y="4" width="{right - left:.1f}" height="{floor - 4}" opacity="0.1"/>']
    parts.append(f'<path d="M{zero:.1f} 4V{floor}" stroke="currentColor" stroke-dasharray="3 3"/>')
    parts += [_whisker(name, 18 + 24 * index, one, place) for index, (name, one) in enumerate(rows)]
    parts += [
        f'<text x="{place(value):.1f}" y="{floor + 16}" font-size="11" text-anchor="middle">{label}</text>'
        for value, label in value_ticks(low - reach, high + reach, 5)
    ]
    return _svg("".join(parts), floor + 24, title)


def _whisker(name: str, y: float, one: Estimate, place: Callable[[float], float]) -> str:
    words = f'<text x="4" y="{y + 4}" font-size="12">{html.escape(numbers.name(name, 24))}</text>'
    bar = ""
    if one.low is not None and one.high is not None:
        bar = f'<path d="M{place(one.low):.1f} {y}H{place(one.high):.1f}" stroke="{BLUE}" stroke-width="3"/>'
    return f'{words}{bar}<circle cx="{place(one.value):.1f}" cy="{y}" r="4.5" fill="{BLUE}"/>'


def _svg(content: str, height: float, title: str) -> str:
    words = html.escape(title)
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'style="max-width:100%;height:auto;color:inherit" fill="currentColor" font-family="sans-serif">'
        f"<title>{words}</title>{content}</svg>"
    )


def _scaled(low: float, high: float) -> Callable[[float], float]:
    return lambda value: 170 + (value - low) / (high - low) * (WIDTH - 190)


def _spaced(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """So few that their words do not touch."""
    stride = -(-len(ticks) // _MOST_TICKS) or 1
    return ticks[::stride]
