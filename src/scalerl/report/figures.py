"""Pictures as files through matplotlib: fits, comparisons, backtests; png, svg or pdf by the suffix.

Called by the command line and by users. It owns canvas, layout and file; `drawing` owns what is on the axes. Only the
object-oriented API is used, never pyplot, and settings live inside a context: the caller's matplotlib stays as it was.
The same input gives the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.results import Backtest, Comparison
from scalerl.errors import InputError
from scalerl.report import drawing, output, palette, panels, set_figure
from scalerl.report.answers import Document
from scalerl.report.picture import pictures_of, title_of, value_name_of
from scalerl.series import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

Scale = Literal["log", "linear"]
STATIC = ("png", "svg", "pdf")

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "scalerl",
    "pdf.fonttype": 42,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.formatter.use_mathtext": False,
    "path.simplify": True,
}
# Without dates and version numbers the same input gives the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "scalerl"},
    "svg": {"Date": None, "Creator": "scalerl"},
    "pdf": {"CreationDate": None, "Creator": "scalerl", "Producer": None},
}


def plot_fits(
    fits: Sequence[Fit],
    path: Path,
    *,
    budgets: Sequence[float] = (),
    target: float | None = None,
    title: str | None = None,
    scale: Scale = "log",
    sets: Sequence[Document] = (),
) -> Path:
    """One curve in full detail, or several together; `.html` gives the report's page.

    `sets`: downstream sets and parts of the run, drawn below the curve (`set_documents`).
    """
    path = Path(path)
    kind = output.format_of(path)
    output.check_target(path)
    if kind == "html":
        from scalerl.report.page import write_html

        return write_html(fits, path, budgets=budgets, target=target, title=title)
    with _style():
        figure = fits_figure(fits, budgets=budgets, target=target, title=title, scale=scale, sets=sets)
        return output.write(path, _render(figure, kind))


def plot_comparison(
    fits: Sequence[Fit],
    path: Path,
    *,
    comparison: Comparison | None = None,
    budgets: Sequence[float] = (),
    title: str | None = None,
) -> Path:
    """The curves together and, beside them, the paper's log F - log C panel, where the slope is the exponent."""
    path = Path(path)
    kind = output.format_of(path)
    output.check_target(path)
    if kind == "html":
        from scalerl.report.page import write_html

        return write_html(fits, path, budgets=budgets, title=title)
    with _style():
        figure = comparison_figure(fits, comparison=comparison, budgets=budgets, title=title)
        return output.write(path, _render(figure, kind))


def plot_backtest(backtest: Backtest, path: Path, *, title: str | None = None) -> Path:
    """Forecast against what came, one panel for each method and share."""
    path = Path(path)
    kind = output.format_of(path, STATIC)
    output.check_target(path)
    with _style():
        return output.write(path, _render(backtest_figure(backtest, title=title), kind))


def fits_figure(
    fits: Sequence[Fit],
    *,
    budgets: Sequence[float] = (),
    target: float | None = None,
    title: str | None = None,
    scale: Scale = "log",
    sets: Sequence[Document] = (),
) -> Figure:
    """`plot_fits` as a matplotlib `Figure`, for notebooks."""
    pictures, frame = pictures_of(fits, budgets, target)
    height, below = max(5.2, 0.26 * len(fits)), set_figure.height_of(sets)
    figure = _figure(8.4, height + below)
    upper: FigureBase = figure
    if below:
        upper, lower = figure.subfigures(2, 1, height_ratios=(height, below), squeeze=False)[:, 0]
        set_figure.draw_sets(lower, sets)
    axes = upper.subplots()
    drawing.prepare(axes, frame, fits[0].compute_name, value_name_of(fits), scale)
    if len(pictures) == 1:
        entries = drawing.draw_one(axes, pictures[0], frame)
    else:
        entries = drawing.draw_many(axes, pictures, frame)
    _legend(upper, entries, 3)
    _title(axes, title or title_of(fits))
    return figure


def comparison_figure(
    fits: Sequence[Fit],
    *,
    comparison: Comparison | None = None,
    budgets: Sequence[float] = (),
    title: str | None = None,
) -> Figure:
    """`plot_comparison` as a matplotlib `Figure`."""
    pictures, frame = pictures_of(fits, budgets)
    figure = _figure(13.0, max(5.2, 0.26 * len(fits)))
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    drawing.prepare(left, frame, fits[0].compute_name, value_name_of(fits), "log")
    _legend(figure, drawing.draw_many(left, pictures, frame), 6)
    _title(left, title or title_of(fits))
    panels.draw_log_f(right, fits, panels.common_ceiling(fits, comparison))
    return figure


def backtest_figure(backtest: Backtest, *, title: str | None = None) -> Figure:
    """`plot_backtest` as a matplotlib `Figure`."""
    if not backtest.scores:
        raise InputError("nothing to plot", allowed="a backtest with at least one score")
    methods = list(dict.fromkeys(score.method for score in backtest.scores))
    shares = sorted({score.share for score in backtest.scores})
    figure = _figure(1.2 + 2.5 * len(methods), 1.3 + 2.6 * len(shares))
    grid = figure.subplots(len(shares), len(methods), sharex=True, sharey=True, squeeze=False)
    limits = panels.limits_of(backtest.scores)
    for row, share in zip(grid, shares, strict=True):
        for axes, method in zip(row, methods, strict=True):
            scores = [s for s in backtest.scores if s.method == method and s.share == share]
            if scores:
                panels.draw_forecast_against_actual(axes, scores, limits)
    for axes in grid[-1]:
        axes.set_xlabel("what came", fontsize=drawing.SMALL + 1)
    for axes in grid[:, 0]:
        axes.set_ylabel("forecast", fontsize=drawing.SMALL + 1)
    _legend(figure, panels.backtest_entries(backtest.level), 3 if figure.get_figwidth() < 10 else 6)
    words = title or f"Forecasts against what came, with {numbers.percent(backtest.level)} intervals"
    figure.suptitle(words, fontsize=12, x=0.02, ha="left", parse_math=False)
    return figure


def series_figure(series: Series, *, title: str | None = None) -> Figure:
    """The points of a curve without any law, for notebooks."""
    figure = _figure(8.4, 5.2)
    axes = figure.subplots()
    axes.scatter(series.compute, series.value, s=18, color=palette.BLUE)
    if len(series):
        axes.set_xscale("log")
    axes.set_xlabel(numbers.name(series.compute_name), parse_math=False)
    axes.set_ylabel(numbers.name(series.value_name), parse_math=False)
    axes.grid(visible=True, color=palette.FAINT, linewidth=0.5)
    _title(axes, title or f"{series.name}: {len(series):,} points")
    return figure


def ceilings_figure(comparison: Comparison, *, title: str | None = None) -> Figure:
    """The differences of the ceilings with their intervals; the stripe is what counts as equal."""
    figure = _figure(8.4, 1.6 + 0.4 * len(comparison.pairs))
    axes = figure.subplots()
    axes.axvspan(-comparison.margin, comparison.margin, color=palette.FAINT, alpha=0.5)
    axes.axvline(0.0, color=palette.GREY, linestyle="--", linewidth=1)
    rows = range(len(comparison.pairs))
    for row, pair in zip(rows, comparison.pairs, strict=True):
        if pair.ceiling.low is not None and pair.ceiling.high is not None:
            axes.plot([pair.ceiling.low, pair.ceiling.high], [row, row], color=palette.BLUE, linewidth=2.5)
        axes.plot([pair.ceiling.value], [row], "o", color=palette.BLUE)
    axes.set_yticks(rows, [numbers.name(pair.challenger) for pair in comparison.pairs], parse_math=False)
    axes.invert_yaxis()
    level = numbers.percent(comparison.level)
    axes.set_xlabel(f"difference of the ceiling, with {level} interval", parse_math=False)
    _title(axes, title or f"Ceilings compared with {comparison.reference}")
    return figure


def save(figure: Figure, path: Path) -> Path:
    """Write a figure of this module: png, svg or pdf by the suffix."""
    kind = output.format_of(path, STATIC)
    with _style():
        return output.write(path, _render(figure, kind))


def svg_of(figure: Figure) -> str:
    """The picture as a part of a page."""
    with _style():
        drawn = _render(figure, "svg").decode()
    return drawn[drawn.index("<svg") :]


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")


def _legend(figure: FigureBase, entries: drawing.Entries, most_columns: int) -> None:
    """Below the axes, where it can hide nothing."""
    handles, labels = [list(column) for column in zip(*entries, strict=True)]
    columns = min(len(labels), most_columns)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=drawing.SMALL + 0.5
    )


def _title(axes: Axes, words: str) -> None:
    axes.set_title(numbers.name(words, 90), loc="left", fontsize=12, pad=18, parse_math=False)


@contextmanager
def _style() -> Iterator[None]:
    """Our settings, for the time of one picture. A letter that the font lacks becomes a box, not a warning."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def _render(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
    return buffer.getvalue()
