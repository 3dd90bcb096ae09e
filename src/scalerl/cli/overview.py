"""The parts of `scalerl fit`'s human output that are about several curves, or about what was held out.

Called by `fit`. Everything about one curve is drawn by `scalerl.report.terminal`; here stand the rows side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.results import Estimate, Forecast
from scalerl.report.answers import Answers, held_out_document
from scalerl.report.plain import Printable

OTHER_COLUMNS = 58
"""Characters a row takes beside the name of its curve."""


def held_out_line(answers: Answers) -> str | None:
    """How the forecasts did on the points after the window; None when there are none."""
    points = held_out_document(answers)
    if not points:
        return None
    error = numbers.number(mean(abs(point["forecast"] - point["value"]) for point in points), 2)
    inside = [point["inside"] for point in points if point["inside"] is not None]
    held = f", {sum(inside)} inside the {numbers.percent(answers.fit.level)} interval" if inside else ""
    return f"Held out after the window: {len(points)} points{held}; mean error of the forecast {error}."


def overview(answers: Sequence[Answers]) -> RenderableType:
    """Two lines for each curve, in 80 columns: what to know before looking at any of them."""
    table = Table(
        title=Text("All curves", style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 2, 0, 0), show_edge=False,
    )  # fmt: skip
    table.add_column("curve\npoints", overflow="fold")
    for title in ("ceiling\n", "exponent\nmidpoint", "forecast\n"):
        table.add_column(title, no_wrap=True)
    table.add_column("decision\n", max_width=9)
    shown = numbers.names([one.fit.name for one in answers], max(22, Console().width - OTHER_COLUMNS))
    for name, one in zip(shown, answers, strict=True):
        table.add_row(
            _stacked(name, f"{one.fit.points:,} points"),
            _ceiling(one.fit),
            _stacked(_value(one.fit.exponent), _value(one.fit.midpoint, compute=True)),
            _forecast(_decisive(one)),
            one.decision.action,
        )
    return Printable(table)


def _decisive(answers: Answers) -> Forecast:
    """The forecast the decision is about, or the farthest one when it is about none of them."""
    exact = [forecast for forecast in answers.forecasts if forecast.compute == answers.decision.budget]
    return exact[0] if exact else answers.forecasts[-1]


def _ceiling(fit: Fit) -> Text:
    if fit.ceiling is None:
        return Text("-")
    return _stacked(*numbers.split(fit.ceiling)) if fit.identified else Text("not identified")


def _value(value: Estimate | None, *, compute: bool = False) -> str:
    return "-" if value is None else numbers.split(value, compute=compute)[0]


def _forecast(forecast: Forecast) -> Text:
    value, interval = numbers.ranged(forecast.value, forecast.low, forecast.high)
    return _stacked(f"{value} at {numbers.amount(forecast.compute)}", interval)


def _stacked(above: str, below: str) -> Text:
    text = Text(above)
    if below != numbers.UNKNOWN:
        text.append(f"\n{below}", style="dim")
    return text
