"""Puts a `Picture` onto matplotlib axes: one curve in full detail, or several with one colour each.

Called by `figures`, which owns the canvas and the file. Every text is drawn with `parse_math` off, because a run called
`$a_b$` is a name, not a formula. matplotlib is imported inside functions: the package must load without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scalerl import numbers
from scalerl.curves.results import Forecast
from scalerl.report import palette
from scalerl.report.picture import MOST_BANDS, Frame, Picture, Points, law_of
from scalerl.series import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

SMALL = 8.0
DASHES = (0, (4, 1.6))
CROWD = 300
"""From so many points on, markers shrink and the line lies above them."""
Entries = list[tuple["Artist", str]]
"""Legend entries in the order they are shown."""


def draw_one(axes: Axes, picture: Picture, frame: Frame) -> Entries:
    """A single curve with everything known about it."""
    colour = palette.BLUE
    entries = _points(axes, picture, colour, detail=True)
    entries += _law_and_forecast(axes, picture, colour)
    entries += _extended_law(axes, picture)
    entries += _ceiling(axes, picture)
    _floor(axes, picture, frame)
    _end_of_fit(axes, picture)
    _target(axes, picture)
    for index, budget in enumerate(picture.budgets):
        _budget(axes, budget, frame, index)
    return entries


def draw_many(axes: Axes, pictures: Sequence[Picture], frame: Frame) -> Entries:
    """Several curves: one colour each, names at the line's end, a grey legend for what the marks mean."""
    for index, picture in enumerate(pictures):
        colour, marker = palette.colour(index), palette.MARKERS[palette.round_of(index) % len(palette.MARKERS)]
        _points(axes, picture, colour, marker=marker)
        _law_and_forecast(axes, picture, colour, opacity=_opacity(len(pictures)))
        for budget in picture.budgets:
            _budget_point(axes, budget, colour, bar=False)
    for budget in pictures[0].budgets:
        _budget_line(axes, budget.compute, f"budget {numbers.amount(budget.compute)}")
    if pictures[0].target is not None:
        axes.axhline(pictures[0].target.target, color=palette.GREY, lw=1, ls="--", zorder=1)
    _names(axes, pictures, frame)
    return _common_entries(pictures)


def prepare(axes: Axes, frame: Frame, compute_name: str, value_name: str, scale: str) -> None:
    """Scales, limits, ticks in words (10k), axis labels, light grid."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axes.set_xscale(scale)
    axes.set_xlim(frame.left if scale == "log" else 0.0, frame.right)
    axes.set_ylim(frame.bottom, frame.top)
    span = frame.right / frame.left
    if scale == "log" and span > 4:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if span > 1000 else (1.0, 2.0, 5.0)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: numbers.amount(x)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, color="#ECECEC", lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    suffix = ", log scale" if scale == "log" else ""
    _say(axes.xaxis.label, numbers.name(f"{compute_name}{suffix}", 80))
    _say(axes.yaxis.label, numbers.name(value_name, 60))


def _say(text: Any, words: str) -> None:
    text.set_parse_math(False)
    text.set_text(words)


def _points(axes: Axes, picture: Picture, colour: str, *, marker: str = "o", detail: bool = False) -> Entries:
    size, edge = (2.5, 0.0) if picture.fitted.total > CROWD else (5.0, 0.5)
    common: dict[str, Any] = {"ls": "none", "zorder": 4, "rasterized": picture.fitted.total > CROWD}
    light = {"mfc": palette.rgba_tuple(colour, 0.3), "mec": palette.rgba_tuple(colour, 0.6), "mew": 0.6}
    styles: tuple[tuple[Points, str, dict[str, Any]], ...] = (
        (picture.before, "before the window, not used", {"marker": marker, "ms": size, **light}),
        (picture.fitted, "used in the fit", {"marker": marker, "ms": size, "mfc": colour, "mec": "white", "mew": edge}),
        (
            picture.held_out,
            "held out",
            {"marker": "D", "ms": size * 0.9, "mfc": "white", "mec": colour, "mew": size / 4.5},
        ),
    )
    entries: Entries = []
    for points, label, style in styles:
        if points.total:
            (line,) = axes.plot(points.compute, points.value, **common, **style)
            entries.append((line, f"{label} ({_count(points)})"))
    return entries if detail else []


def _count(points: Points) -> str:
    if points.total == points.compute.size:
        return f"{points.total:,}"
    return f"{points.compute.size:,} of {points.total:,} drawn"


def _law_and_forecast(axes: Axes, picture: Picture, colour: str, opacity: float = 0.18) -> Entries:
    """The law where there are data, solid; from there on the forecast's median, dashed, and its band."""
    crowded = picture.fitted.total > CROWD
    (law,) = axes.plot(
        picture.past, picture.fitted_law, color=palette.BLACK if crowded else colour, lw=1.8, zorder=5 if crowded else 3
    )
    (line,) = axes.plot(picture.future, picture.median, color=colour, lw=1.8, ls=DASHES, zorder=3)
    entries: Entries = [(law, f"fitted {law_of(picture.fit)}"), (line, "forecast (median)")]
    if picture.low is not None and picture.high is not None and opacity > 0:
        area = axes.fill_between(picture.future, picture.low, picture.high, color=colour, alpha=opacity, lw=0, zorder=2)
        entries.append((area, f"{numbers.percent(picture.level)} interval"))
    return entries


def _opacity(curves: int) -> float:
    """Of each band: bands lie over each other, and past some number of curves they are left out."""
    if curves > MOST_BANDS:
        return 0.0
    return 0.10 if curves > 3 else 0.16


def _extended_law(axes: Axes, picture: Picture) -> Entries:
    compute, value = picture.extended
    if np.isnan(value).all():
        return []
    (line,) = axes.plot(compute, value, color=palette.BLACK, lw=1.0, ls=":", zorder=3)
    return [(line, f"the {law_of(picture.fit)} extended")]


def _ceiling(axes: Axes, picture: Picture) -> Entries:
    """The ceiling and its band, or the words that it cannot be told yet; nothing for a law without one."""
    if picture.fit.ceiling is None:
        return []
    ceiling = picture.ceiling
    if ceiling is None:
        _note(axes, "ceiling not identified yet", (0.015, 0.99), ("axes fraction", "axes fraction"), va="top")
        return []
    line = axes.axhline(ceiling.value, color=palette.GREEN, lw=1.3, ls=(0, (6, 2)), zorder=1.5)
    below = picture.target is not None and picture.target.target > ceiling.value
    _note(
        axes, f"ceiling {numbers.estimate(ceiling)}", (0.015, ceiling.value), ("axes fraction", "data"),
        va="top" if below else "bottom", offset=(0, -3 if below else 3), colour="#00694D",
    )  # fmt: skip
    label = "ceiling"
    if ceiling.low is not None and ceiling.high is not None:
        axes.axhspan(ceiling.low, ceiling.high, color=palette.GREEN, alpha=0.10, lw=0, zorder=1)
        label = f"ceiling and its {numbers.percent(picture.level)} interval"
    return [(line, label)]


def _floor(axes: Axes, picture: Picture, frame: Frame) -> None:
    """A tick and the words under it; a free floor far below the data stays out of the picture."""
    if picture.floor is None or not frame.bottom < picture.floor.value < frame.top:
        return
    axes.plot([0, 0.02], [picture.floor.value] * 2, color=palette.BLACK, lw=2, transform=axes.get_yaxis_transform())
    words = f"floor {numbers.number(picture.floor.value)}"
    _note(axes, words, (0.008, picture.floor.value), ("axes fraction", "data"), va="top", offset=(0, -4), box=True)


def _end_of_fit(axes: Axes, picture: Picture) -> None:
    last = picture.fit.last_compute
    axes.axvline(last, color=palette.GREY, lw=0.9, ls=":", zorder=1)
    words = f"fit ends at {numbers.amount(last)}"
    _note(axes, words, (last, 1.0), ("data", "axes fraction"), ha="center", offset=(0, 2))


def _target(axes: Axes, picture: Picture) -> None:
    if picture.target is None:
        return
    found = picture.target
    axes.axhline(found.target, color=palette.PURPLE, lw=1.2, ls="--", zorder=1)
    words = f"target {numbers.number(found.target)}: more likely never reached"
    if found.compute is not None:
        center, interval = numbers.ranged(found.compute, found.low, found.high, compute=True)
        words = f"target {numbers.number(found.target)}: at {center} {interval}"
    above = picture.ceiling is not None and found.target >= picture.ceiling.value
    _note(
        axes, words, (0.015, found.target), ("axes fraction", "data"),
        va="bottom" if above else "top", offset=(0, 3 if above else -3), colour="#8A3B66",
    )  # fmt: skip


def _budget(axes: Axes, budget: Forecast, frame: Frame, index: int) -> None:
    """Line, forecast with its error bar, and the figures in a box low on the line, where a rising curve leaves room."""
    _budget_line(axes, budget.compute, None)
    _budget_point(axes, budget, palette.VERMILLION, bar=True)
    center, interval = numbers.ranged(budget.value, budget.low, budget.high)
    share = np.log(budget.compute / frame.left) / np.log(frame.right / frame.left)
    right = share > 0.5
    _note(
        axes, f"{numbers.amount(budget.compute)}: {center} {interval}", (budget.compute, 0.05 + 0.085 * index),
        ("data", "axes fraction"), va="bottom", ha="right" if right else "left", offset=(-5 if right else 5, 0),
        colour="#8F3F00", box=True,
    )  # fmt: skip


def _budget_line(axes: Axes, compute: float, words: str | None) -> None:
    axes.axvline(compute, color=palette.VERMILLION, lw=1.2, ls=(0, (5, 1.5, 1, 1.5)), zorder=1.5)
    if words:
        _note(axes, words, (compute, 0.02), ("data", "axes fraction"), ha="right", offset=(-2, 0), rotation=90)


def _budget_point(axes: Axes, budget: Forecast, colour: str, *, bar: bool) -> None:
    if bar and budget.low is not None and budget.high is not None:
        ends = [[max(0.0, budget.value - budget.low)], [max(0.0, budget.high - budget.value)]]
        axes.errorbar([budget.compute], [budget.value], yerr=ends, color=colour, capsize=4, lw=1.6, zorder=5)
    axes.plot([budget.compute], [budget.value], "o", color=colour, mec="white", ms=7, zorder=6)


def _note(
    axes: Axes, words: str, at: tuple[float, float], coordinates: tuple[str, str], *, va: str = "bottom",
    ha: str = "left", offset: tuple[float, float] = (0, 0), colour: str = palette.GREY, rotation: float = 0,
    box: bool = False,
) -> None:  # fmt: skip
    frame: dict[str, Any] = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": palette.FAINT, "alpha": 0.92}
    axes.annotate(
        words, at, xycoords=coordinates, xytext=offset, textcoords="offset points", va=va, ha=ha, color=colour,
        fontsize=SMALL, rotation=rotation, bbox=frame if box else None, parse_math=False, zorder=7,
    )  # fmt: skip


def _names(axes: Axes, pictures: Sequence[Picture], frame: Frame) -> None:
    """Direct labels right of the axes, pushed apart where lines end close together."""
    figure = axes.get_figure()
    inches = 4.0 if figure is None else 0.72 * figure.get_figure(root=True).get_figheight()
    lines = 2 if pictures[0].budgets else 1
    gap = 1.35 * lines * SMALL / 72 / inches * (frame.top - frame.bottom)
    ends = np.array([picture.median[-1] for picture in pictures])
    places = spread(ends, gap, frame.bottom, frame.top)
    names = numbers.names([picture.fit.name for picture in pictures], 34)
    for index, (picture, name, end, place) in enumerate(zip(pictures, names, ends, places, strict=True)):
        words = name
        if picture.budgets:
            last = picture.budgets[-1]
            words += "\n" + " ".join(numbers.ranged(last.value, last.low, last.high))
        axes.annotate(
            words, (1.0, end), xycoords=("axes fraction", "data"), xytext=(1.035, place),
            textcoords=("axes fraction", "data"), va="center", ha="left", color=palette.colour(index),
            fontsize=SMALL, parse_math=False, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": palette.colour(index), "lw": 0.7, "relpos": (0, 0.5)},
        )  # fmt: skip


def spread(wanted: FloatArray, gap: float, bottom: float, top: float) -> FloatArray:
    """Places near the wanted ones, at least `gap` apart and inside the frame if there is room, in the same order."""
    order = np.argsort(wanted, kind="stable")
    gap = min(gap, (top - bottom) / max(1, wanted.size))
    places = wanted[order].astype(np.float64)
    for index in range(1, places.size):
        places[index] = max(places[index], places[index - 1] + gap)
    limit = top
    for index in range(places.size - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    out = np.empty_like(places)
    out[order] = places
    return out


def _common_entries(pictures: Sequence[Picture]) -> Entries:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    grey = palette.GREY
    entries: Entries = [(Line2D([], [], ls="none", marker="o", color=grey, mec="white"), "used in the fit")]
    if any(p.before.total for p in pictures):
        entries.append((Line2D([], [], ls="none", marker="o", color=palette.FAINT), "before the window, not used"))
    if any(p.held_out.total for p in pictures):
        entries.append((Line2D([], [], ls="none", marker="D", mfc="white", mec=grey), "held out"))
    entries.append((Line2D([], [], color=grey, lw=1.8), "fitted law"))
    entries.append((Line2D([], [], color=grey, lw=1.8, ls=DASHES), "forecast (median)"))
    levels = sorted({p.level for p in pictures if p.low is not None})
    if levels and len(pictures) > MOST_BANDS:
        entries.append((Line2D([], [], ls="none"), f"(no intervals drawn for more than {MOST_BANDS} curves)"))
    elif levels:
        words = " and ".join(numbers.percent(level) for level in levels)
        entries.append((Patch(color=grey, alpha=0.25, lw=0), f"{words} interval"))
    return entries
