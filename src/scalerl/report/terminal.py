"""What the commands print for people: tables, a chart, verdicts in colour. Built with rich.

Called by the command line; each function returns a renderable and prints nothing. Laid out for 80 columns, readable
without colour and in ASCII. Names come from files, so they enter as `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.results import Backtest, Comparison, Decision, Estimate, Forecast, TargetForecast
from scalerl.report import words
from scalerl.report.chart import Chart
from scalerl.report.picture import pictures_of
from scalerl.report.plain import Printable

ACTION_STYLES = {"SCALE": "green", "STOP": "red", "NEED MORE DATA": "yellow", "UNSTABLE": "magenta"}
VERDICT_STYLES = {"moves the ceiling": "bold green", "moves the efficiency": "bold cyan", "no difference shown": "bold"}
PANEL_WIDTH = 78

Gains = Sequence[tuple[float, Estimate]]


def render_fit(
    fit: Fit,
    *,
    forecasts: Sequence[Forecast] = (),
    decision: Decision | None = None,
    targets: Sequence[TargetForecast] = (),
    gains: Gains = (),
) -> RenderableType:
    """Everything about one fit: chart, parameters, forecasts, gains, warnings, decision."""
    pictures, frame = pictures_of([fit], [one.compute for one in forecasts])
    parts: list[RenderableType] = [_heading(fit.name, words.about(fit)), Chart(pictures[0], frame), _parameters(fit)]
    if forecasts:
        parts.append(_forecasts(fit, forecasts))
    if gains:
        parts.append(_gains(fit, gains))
    if targets:
        parts.append(_targets(fit, targets))
    parts.append(_diagnostics(fit))
    if any(diagnostic.code == "window_sensitive" for diagnostic in fit.diagnostics):
        parts.append(_windows(fit))
    if decision is not None:
        parts.append(_decision_panel(decision, fit.compute_name))
    return Printable(_spaced(parts))


def render_decision(decision: Decision, fit: Fit | None = None) -> RenderableType:
    """A decision on its own; with the fit, its name and warnings too."""
    if fit is None:
        return Printable(_decision_panel(decision, ""))
    panel = _decision_panel(decision, fit.compute_name)
    return Printable(_spaced([Group(_heading(fit.name, words.about(fit)), _diagnostics(fit)), panel]))


def render_comparison(comparison: Comparison, fits: Sequence[Fit]) -> RenderableType:
    """The curves in their order, the differences to the reference with their intervals, and a verdict for each."""
    shown = dict(zip([fit.name for fit in fits], numbers.names([fit.name for fit in fits], 26), strict=True))
    ranking = _table(f"Curves, best first (ceiling, then exponent); intervals {numbers.percent(comparison.level)}")
    for title in ("curve", "ceiling", "exponent", f"midpoint, {numbers.name(fits[0].compute_name, 12)}"):
        ranking.add_column(title)
    by_name = {fit.name: fit for fit in fits}
    for name in comparison.ranking:
        fit = by_name[name]
        label = Text(shown[name] + (" (reference)" if name == comparison.reference else ""))
        ceiling = _stacked(fit.ceiling) if fit.identified else Text("not identified")
        ranking.add_row(label, ceiling, _stacked(fit.exponent), _stacked(fit.midpoint, compute=True))
    reference = shown.get(comparison.reference, comparison.reference)
    differences = _table(f"Differences to {reference}")
    for title in ("curve", "ceiling", "exponent", "midpoint, factor"):
        differences.add_column(title)
    for pair in comparison.pairs:
        label = Text(shown.get(pair.challenger, pair.challenger))
        factor = _stacked(words.ratio(pair.log_midpoint), prefix="x ")
        differences.add_row(label, _stacked(pair.ceiling, signed=True), _stacked(pair.exponent, signed=True), factor)
    verdicts = [_verdict(comparison, index, shown, fits[0].compute_name) for index in range(len(comparison.pairs))]
    margin = f"Ceilings within {numbers.number(comparison.margin, 2)} of each other count as equal."
    return Printable(_spaced([ranking, differences, *verdicts, Text(margin, style="dim")]))


def render_backtest(backtest: Backtest) -> RenderableType:
    """One table for each share, and what it says in words."""
    rows = words.summaries(backtest)
    parts: list[RenderableType] = []
    for share in dict.fromkeys(row.share for row in rows):
        chosen = [row for row in rows if row.share == share]
        findings = words.backtest_findings(chosen, backtest.level)
        parts += [_scores(chosen, backtest.level), Group(*(_bullet(line) for line in findings))]
    return Printable(_spaced(parts or [Text("no scores")]))


def _scores(rows: Sequence[words.Summary], level: float) -> Table:
    share, count = numbers.percent(rows[0].share), rows[0].count
    table = _table(f"Forecast of the last evaluations from the first {share}, {count} curves")
    table.add_column("method", overflow="fold")
    for title in (
        "mean\nerror",
        "median\nerror",
        f"{numbers.percent(level)}\nholds",
        "median\nwidth",
        "CRPS",
        "interval\nscore",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        held = "-" if row.coverage is None else f"{100 * row.coverage:.0f} %"
        figures = [row.mean_error, row.median_error, row.width, row.crps, row.interval_score]
        cells = ["-" if figure is None else _decimals(figure) for figure in figures]
        table.add_row(Text(numbers.name(row.method, 30)), *cells[:2], held, *cells[2:])
    return table


def _decimals(value: float) -> str:
    """Scores stand in columns, so they share their decimals as long as they are pass rates."""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 100 else numbers.number(value)


def _heading(name: str, line: str) -> Text:
    text = Text(numbers.name(name, 70), style="bold")
    text.append("\n" + numbers.name(line, 300), style="dim")
    return text


def _parameters(fit: Fit) -> Table:
    table = _table(None)
    table.add_column("parameter")
    table.add_column("value", justify="right")
    table.add_column(f"{numbers.percent(fit.level)} interval")
    table.add_column("meaning")
    for name, value in fit.parameters.items():
        center, interval = numbers.split(value, compute=name == "midpoint")
        if name == "ceiling" and not fit.identified:
            center = numbers.UNKNOWN
        fixed = (name == "floor" and fit.fixed_floor is not None and value.low is None) or (
            name == "ceiling" and fit.fixed_ceiling is not None
        )
        table.add_row(name, center, "fixed" if fixed else interval, Text(words.meaning(fit, name)))
    return table


def _forecasts(fit: Fit, forecasts: Sequence[Forecast]) -> Table:
    table = _table("Forecast")
    for title in (numbers.name(fit.compute_name, 24), "x now", numbers.name(fit.value_name, 24)):
        table.add_column(title, justify="right")
    table.add_column(f"{numbers.percent(fit.level)} interval")
    for one in forecasts:
        center, interval = numbers.ranged(one.value, one.low, one.high)
        table.add_row(numbers.amount(one.compute), f"{one.compute / fit.last_compute:.3g}", center, interval)
    return table


def _gains(fit: Fit, gains: Gains) -> Table:
    table = _table("What each further doubling adds")
    for title in (f"{numbers.name(fit.compute_name, 24)}, up to", "gain"):
        table.add_column(title, justify="right")
    table.add_column(f"{numbers.percent(fit.level)} interval")
    for compute, gain in gains:
        table.add_row(numbers.amount(compute), *numbers.split(gain, signed=True))
    return table


def _targets(fit: Fit, targets: Sequence[TargetForecast]) -> Table:
    table = _table("Targets")
    table.add_column(numbers.name(fit.value_name, 24), justify="right")
    table.add_column(f"reached at, {numbers.name(fit.compute_name, 24)}")
    table.add_column(f"{numbers.percent(fit.level)} interval")
    table.add_column("chance", justify="right")
    for one in targets:
        table.add_row(numbers.number(one.target), *words.target(one), numbers.probability(one.probability))
    return table


def _windows(fit: Fit) -> Table:
    table = _table("The same law on other windows")
    for title in ("from", "until", "points", "ceiling", "exponent", "midpoint"):
        table.add_column(title, justify="right")
    for one in fit.windows:
        ends = numbers.amount(one.low), numbers.amount(one.high)
        table.add_row(
            *ends, f"{one.points:,}", f"{one.ceiling:.3f}", f"{one.exponent:.2f}", numbers.amount(one.midpoint)
        )
    return table


def _diagnostics(fit: Fit) -> RenderableType:
    if not fit.diagnostics:
        return _bullet("No warnings.", mark="+", style="green")
    return Group(*(_bullet(numbers.name(one.message, 400), mark="!", style="yellow") for one in fit.diagnostics))


def _decision_panel(decision: Decision, unit: str) -> Panel:
    style = ACTION_STYLES.get(decision.action, "white")
    reason, *figures = words.decision(decision, unit)
    text = Text(reason + "\n", style="bold")
    text.append("\n".join(figures), style="not bold")
    title = Text(f" {decision.action} ", style=f"bold {style}")
    return Panel(text, title=title, title_align="left", border_style=style, width=PANEL_WIDTH)


def _verdict(comparison: Comparison, index: int, shown: dict[str, str], unit: str) -> RenderableType:
    pair = comparison.pairs[index]
    first, *rest = words.pair(pair, unit)
    text = Text(f"{shown.get(pair.challenger, pair.challenger)}: ", style="bold")
    text.append(first, style=VERDICT_STYLES[pair.verdict])
    return Group(text, *(_bullet(line) for line in rest))


def _bullet(line: str, mark: str = "-", style: str = "") -> Padding:
    """A hanging indent, so that a long line stays readable at 80 columns."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(mark, style=style), Text(line))
    return Padding(grid, (0, 0, 0, 1))


def _table(title: str | None) -> Table:
    heading = None if title is None else Text(title, style="bold")
    return Table(
        title=heading, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0)
    )


def _spaced(parts: Sequence[RenderableType]) -> Group:
    """The parts with an empty line between them."""
    return Group(*(piece for part in parts for piece in (part, Text("")))) if parts else Group()


def _stacked(value: Estimate | None, *, compute: bool = False, signed: bool = False, prefix: str = "") -> Text:
    """Value above, interval below: four of them fit into 80 columns."""
    if value is None:
        return Text("-")
    center, interval = numbers.split(value, compute=compute, signed=signed)
    text = Text(prefix + center)
    text.append("\n" + interval, style="dim")
    return text
