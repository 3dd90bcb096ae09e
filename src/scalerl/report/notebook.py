"""What a notebook shows for a `Series`, a `Fit` or a `Comparison`: a small table and a chart, and `.plot()`.

Found by `scalerl.display` when somebody looks at one of them. The HTML has no script and no style sheet (many viewers
remove both), every text is escaped, and colours follow the text around it, so that it reads on light and dark ground.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.diagnose import ENOUGH_POINTS
from scalerl.curves.results import Comparison
from scalerl.report import palette, words
from scalerl.report.picture import Frame, Points, pictures_of
from scalerl.report.svg import SvgChart, forest
from scalerl.series import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = "padding:2px 12px 2px 0;text-align:left;border:0"
_RESOLUTION = 80


def html_of(thing: Series | Fit | Comparison) -> str:
    """The representation of one of the three."""
    if isinstance(thing, Series):
        return _series(thing)
    return _fit(thing) if isinstance(thing, Fit) else _comparison(thing)


def plot(thing: Series | Fit | Comparison, path: str | Path | None = None, **options: Any) -> Figure:
    """The figure, written to `path` if there is one."""
    from scalerl.report import figures

    if isinstance(thing, Series):
        figure = figures.series_figure(thing, **options)
    elif isinstance(thing, Fit):
        figure = figures.fits_figure([thing], **options)
    elif options.get("fits"):
        figure = figures.comparison_figure(options.pop("fits"), comparison=thing, **options)
    else:
        options.pop("fits", None)
        figure = figures.ceilings_figure(thing, **options)
    if path is not None:
        figures.save(figure, Path(path))
    return figure


def _series(series: Series) -> str:
    rows = {"points": f"{len(series):,}"}
    if len(series):
        rows[series.compute_name] = f"{numbers.amount(series.compute[0])} to {numbers.amount(series.compute[-1])}"
        low, high = float(series.value.min()), float(series.value.max())
        rows[series.value_name] = (
            f"{numbers.number(low)} to {numbers.number(high)}, last {numbers.number(series.value[-1])}"
        )
    if series.start is not None:
        rows["before training"] = numbers.number(series.start.value)
    if series.n is not None and len(series):
        rows["answers behind a value"] = f"{numbers.amount(series.n.min())} to {numbers.amount(series.n.max())}"
    return _block(series.name, "a curve", [_table(rows.items())], _series_chart(series))


def _fit(fit: Fit) -> str:
    rows = [
        (name, numbers.estimate(value, compute=name in ("midpoint", "scale")), words.meaning(fit, name))
        for name, value in fit.parameters.items()
    ]
    notes = [f"{d.message}" for d in fit.diagnostics]
    if fit.points < ENOUGH_POINTS:
        notes.append(f"only {fit.points} points; a decision needs {ENOUGH_POINTS}")
    about = f"{words.about(fit)}; {numbers.percent(fit.level)} intervals"
    return _block(fit.name, about, [_table(rows), _list(notes)], _fit_chart(fit))


def _comparison(comparison: Comparison) -> str:
    shown = dict(zip(comparison.ranking, numbers.names(comparison.ranking), strict=True))
    rows: list[Sequence[str]] = [
        ("against the reference", "difference of the ceiling", "chance higher / equal / lower", "verdict")
    ]
    for pair in comparison.pairs:
        chances = (pair.probability_ceiling_higher, pair.probability_ceiling_equal, pair.probability_ceiling_lower)
        winner = "" if pair.winner is None else f", in favour of {shown.get(pair.winner, pair.winner)}"
        rows.append((
            shown.get(pair.challenger, pair.challenger), numbers.estimate(pair.ceiling, signed=True),
            " / ".join(map(numbers.probability, chances)), f"{pair.verdict}{winner}",
        ))  # fmt: skip
    ranking = f"ranking: {', '.join(shown.values())}; ceilings within {comparison.margin:g} count as equal"
    cautions = [
        f"{shown.get(pair.challenger, pair.challenger)}: {pair.caution}" for pair in comparison.pairs if pair.caution
    ]
    bars = [(shown.get(pair.challenger, pair.challenger), pair.ceiling) for pair in comparison.pairs]
    chart = forest(bars, comparison.margin, "difference of the ceilings") if bars else ""
    heading = f"compared with {shown.get(comparison.reference, comparison.reference)}"
    return _block(heading, ranking, [_table(rows, head=True), _list(cautions)], chart)


def _series_chart(series: Series) -> str:
    if not len(series):
        return ""
    frame = _frame_around(series)
    chart = SvgChart(
        frame, series.compute_name, series.value_name, f"{numbers.name(series.name)}: {len(series)} points"
    )
    chart.points(_thinned(series), palette.BLUE)
    return chart.text()


def _fit_chart(fit: Fit) -> str:
    (picture,), frame = pictures_of([fit], resolution=_RESOLUTION)
    chart = SvgChart(frame, fit.compute_name, fit.value_name, f"{numbers.name(fit.name)}: points, law and forecast")
    if picture.low is not None and picture.high is not None:
        chart.band(_pairs(picture.future, picture.low), _pairs(picture.future, picture.high), palette.BLUE)
    chart.points(_dots(picture.before), palette.BLUE, faint=True)
    chart.points(_dots(picture.fitted), palette.BLUE)
    chart.points(_dots(picture.held_out), palette.VERMILLION, hollow=True)
    chart.line(_pairs(picture.past, picture.fitted_law), palette.BLUE)
    chart.line(_pairs(picture.future, picture.median), palette.BLUE, dash="5 4")
    if picture.ceiling is not None:
        chart.level(picture.ceiling.value, palette.GREEN, f"ceiling {numbers.estimate(picture.ceiling)}")
    return chart.text()


def _frame_around(series: Series) -> Frame:
    left, right = float(series.compute[0]), float(series.compute[-1])
    low, high = float(series.value.min()), float(series.value.max())
    room, margin = 1.1 if left == right else (right / left) ** 0.03, 0.08 * (high - low) or 0.05 * abs(high) or 0.5
    return Frame(left / room, right * room, low - margin, high + margin)


def _thinned(series: Series, most: int = 400) -> list[tuple[float, float]]:
    index = np.unique(np.linspace(0, len(series) - 1, min(most, len(series))).astype(int))
    return _pairs(series.compute[index], series.value[index])


def _dots(points: Points, most: int = 400) -> list[tuple[float, float]]:
    pairs = _pairs(points.compute, points.value)
    return pairs[:: -(-len(pairs) // most) or 1]


def _pairs(compute: Any, value: Any) -> list[tuple[float, float]]:
    return list(zip(compute.tolist(), value.tolist(), strict=True))


def _block(name: str, about: str, parts: Iterable[str], chart: str) -> str:
    heading = f"<b>{html.escape(numbers.name(name, 80))}</b> <span style='opacity:0.75'>{html.escape(about)}</span>"
    return f"<div style='max-width:44em;color:inherit'><div>{heading}</div>{''.join(parts)}{chart}</div>"


def _table(rows: Iterable[Sequence[str]], *, head: bool = False) -> str:
    lines = []
    for index, row in enumerate(rows):
        tag = "th" if head and index == 0 else "td"
        cells = (f"<{tag} style='{_CELL}'>{html.escape(numbers.name(cell, 120))}</{tag}>" for cell in row)
        lines.append(f"<tr style='background:none'>{''.join(cells)}</tr>")
    return (
        f"<table style='border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit'>{''.join(lines)}</table>"
    )


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(numbers.name(line, 400))}</li>" for line in lines)
    return f"<ul style='margin:4px 0'>{items}</ul>" if items else ""
