"""Downstream sets and parts of one run on matplotlib axes: each set against held-out, each curve with its own law.

Called by `figures`, which owns canvas and file, with the documents of `set_documents`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scalerl import numbers
from scalerl.report import palette
from scalerl.report.answers import Document
from scalerl.report.drawing import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

COLUMNS = 3
ROW_HEIGHT = 2.5
"""Inches."""


def height_of(sets: Sequence[Document]) -> float:
    """Inches that the panels need; 0: there are none."""
    return ROW_HEIGHT * -(-len(_panels(sets)) // COLUMNS)


def draw_sets(figure: FigureBase, sets: Sequence[Document]) -> None:
    """All panels in rows of `COLUMNS`."""
    panels = _panels(sets)
    grid = figure.subplots(-(-len(panels) // COLUMNS), COLUMNS, squeeze=False)
    places = [axes for row in grid for axes in row]
    for axes, panel in zip(places, panels, strict=False):
        panel(axes)
        axes.grid(True, color="#ECECEC", lw=0.8)
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in places[len(panels) :]:
        axes.set_visible(False)


def _panels(sets: Sequence[Document]) -> list[Callable[[Axes], None]]:
    against = [partial(_draw_against, one=one) for one in sets if one["kind"] == "downstream"]
    return [*against, *(partial(_draw_curve, one=one) for one in sets if one["curve"] is not None)]


def _draw_against(axes: Axes, one: Document) -> None:
    """The policy versions in their order, with standard errors; pale at the beginning of the run."""
    found = one["against"]
    x, y = found["held_out"], found["value"]
    across, up = _bars(found["held_out_error"]), _bars(found["error"])
    axes.errorbar(
        x, y, yerr=up, xerr=across, color=palette.BLUE, ecolor=palette.FAINT, elinewidth=0.8, lw=0.6, alpha=0.5
    )
    shades = [palette.rgba_tuple(palette.BLUE, 0.25 + 0.75 * (i + 1) / len(x)) for i in range(len(x))]
    axes.scatter(x, y, s=16, color=shades, zorder=3)
    axes.set_xlabel("held-out pass rate", fontsize=SMALL, parse_math=False)
    _titled(axes, one, _rank(one))


def _draw_curve(axes: Axes, one: Document) -> None:
    """Measured points and the law of the set itself."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    curve = one["curve"]
    colour = palette.GREEN if one["kind"] == "part" else palette.BLUE
    axes.plot(curve["compute"], curve["value"], ls="none", marker="o", ms=3, mfc=colour, mec="none", alpha=0.5)
    axes.plot(curve["law_compute"], curve["law"], color=colour, lw=1.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: numbers.amount(x)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{numbers.name(curve['unit'], 30)}, log scale", fontsize=SMALL, parse_math=False)
    _titled(axes, one, _ceiling(one["law"]))


def _titled(axes: Axes, one: Document, words: str) -> None:
    name = f"part {one['name']}" if one["kind"] == "part" else one["name"]
    k = "" if one["k"] is None else f", mean@{one['k']}"
    axes.set_ylabel(f"{numbers.name(name, 22)}{k}", fontsize=SMALL, parse_math=False)
    axes.set_title(words, loc="left", fontsize=SMALL + 0.5, parse_math=False)


def _rank(one: Document) -> str:
    found = one["correlation"]
    if found is None:
        return "no rank correlation"
    value, interval = numbers.ranged(found["value"], found["low"], found["high"])
    between = "" if interval == numbers.UNKNOWN else f"{interval}, "
    return f"rank correlation {value}\n{between}{one['evaluations']} evaluations"


def _ceiling(law: Document) -> str:
    if law["ceiling"] is None or not law["identified"]:
        return "ceiling not identified yet"
    found = law["ceiling"]
    return "ceiling " + " ".join(numbers.ranged(found["value"], found["low"], found["high"]))


def _bars(errors: Sequence[float | None]) -> list[float] | None:
    """No bars rather than bars of no length where one is not known."""
    known = [error for error in errors if error is not None]
    return known if len(known) == len(errors) else None
