"""What `scalerl read` prints: the metrics of a log as a table, and a curve as its ends and a small picture.

Called by the command line. It shows what the readers found and computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.report.plain import Printable
from scalerl.report.small_chart import SmallChart

if TYPE_CHECKING:
    from scalerl.readers.curves import Listing
    from scalerl.series import Series


def render_listing(listing: Listing) -> RenderableType:
    """One row for each metric."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    table.add_column("metric", overflow="fold")
    for title in ("values", "steps", "first", "last", "lowest", "highest"):
        table.add_column(title, justify="right", no_wrap=True)
    for metric in listing.survey.metrics.values():
        figures = (metric.first, metric.last, metric.low, metric.high)
        shown = [numbers.number(value, 4) if metric.count else numbers.UNKNOWN for value in figures]
        count = f"{metric.count:,}" + (f" + {metric.num_unusable:,} NaN" if metric.num_unusable else "")
        table.add_row(numbers.name(metric.name, 200), count, _steps(metric.first_step, metric.last_step), *shown)
    heading = f"{numbers.name(listing.name, 200)}: {listing.kind}, {len(listing.survey.metrics):,} metrics"
    notes = [Text(f"{note}.", style="dim") for note in listing.notes]
    return Group(Text(heading, style="bold"), Printable(table), *notes)


def _steps(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return "none"
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def render_series(series: Series, most_rows: int) -> RenderableType:
    """How many points, a small picture, and the first and last of them."""
    count = len(series)
    title = Text(f"{numbers.name(series.name, 200)}: {count:,} points", style="bold")
    if not count:
        return title
    pairs = list(zip(series.compute.tolist(), series.value.tolist(), strict=True))
    end = pairs[-1][0]
    chart = SmallChart(pairs, end, f"{numbers.amount(end)} {series.compute_name}")
    return Group(title, chart, Printable(_ends(series, most_rows)))


def _ends(series: Series, most_rows: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    table.add_column(numbers.name(series.compute_name, 60), justify="right")
    table.add_column(numbers.name(series.value_name, 60), justify="right")
    table.add_column("n", justify="right")
    if series.start is not None:
        table.add_row("0", numbers.number(series.start.value, 4), _count(series.start.n))
    for i in range(len(series)):
        if most_rows <= i < len(series) - most_rows:
            if i == most_rows:
                table.add_row("...", "...", "...")
            continue
        n = None if series.n is None else float(series.n[i])
        table.add_row(numbers.amount(float(series.compute[i])), numbers.number(float(series.value[i]), 4), _count(n))
    return table


def _count(n: float | None) -> str:
    return numbers.UNKNOWN if n is None else f"{n:g}"
