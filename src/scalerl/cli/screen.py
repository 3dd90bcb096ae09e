"""How a run in progress looks: one screen for the live view, one line at a time for logs.

Called by the views in `live` with the state in `watch`. It decides words and layout, and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.budget import budget_words
from scalerl.cli.outlook import LEVEL
from scalerl.cli.watch import Watch
from scalerl.report.small_chart import SmallChart

WIDTH = 100


def screen(watch: Watch) -> RenderableType:
    """The whole view."""
    parts = [_bar(watch)] if watch.warm_start is not None else [_bar(watch), *_curve(watch), _figures(watch)]
    return Panel(Group(*parts), title=_title(watch), title_align="left", width=WIDTH, border_style="bright_black")


def warm_start_line(watch: Watch) -> str:
    progress = watch.warm_start
    if progress is None:
        return "warm start done"
    return f"warm start: step {progress.step:,} of {progress.steps:,}, loss {progress.loss:.3f}, {_left(watch)}"


def start_line(watch: Watch) -> str:
    return f"training from step {watch.step:,}, budget {_budget(watch)}"


def step_line(watch: Watch) -> str:
    return ", ".join([_where(watch), *_speeds(watch), _left(watch)])


def evaluation_line(watch: Watch) -> str:
    """The line that makes a log readable afterwards: where, the value, and what is expected at the end."""
    point = watch.points[-1]
    error = "" if point.standard_error is None else f" +- {point.standard_error:.3f}"
    parts = [
        _where(watch),
        f"pass rate {point.pass_rate:.3f}{error}",
        f"truncated {numbers.percent(point.truncation_rate)}",
    ]
    parts += [*_speeds(watch), _left(watch)] if watch.step else []
    forecast = watch.outlook.forecast
    parts += [] if forecast is None else [f"forecast at the end {watch.outlook.words}"]
    return ", ".join(parts)


def stopping_line(watch: Watch) -> str:
    return f"stopping after step {watch.step + 1:,} and saving; press Ctrl-C again to end at once"


def duration(seconds: float) -> str:
    """`0:42`, `12:05`, `3:07:00`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _title(watch: Watch) -> str:
    if watch.reason is not None:
        return {"budget": "finished", "exhausted": "no problems left", "interrupted": "stopped"}[watch.reason]
    if watch.stopping:
        return "saving and stopping; Ctrl-C again ends at once"
    if watch.warm_start is not None:
        return "warm start"
    if watch.started_s is None:
        return "preparing the policy"
    if watch.generating is None:
        return "training"
    return "evaluating, {} of {} problems".format(*watch.generating)


def _bar(watch: Watch) -> RenderableType:
    progress = watch.warm_start
    share = watch.share if progress is None else progress.step / progress.steps
    done = (
        _where(watch)
        if progress is None
        else f"{progress.step:,} of {progress.steps:,} steps, loss {progress.loss:.3f}"
    )
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(ProgressBar(total=1.0, completed=share), f"{done}, {duration(watch.elapsed_s)} gone, {_left(watch)}")
    return grid


def _curve(watch: Watch) -> Iterable[RenderableType]:
    if not watch.points:
        return
    first, last = watch.points[0], watch.points[-1]
    best = max(watch.points, key=lambda point: point.pass_rate)
    text = Text("pass rate    ", style="bold")
    text.append(f"{first.pass_rate:.3f} at step {first.step:,}", style="not bold")
    if len(watch.points) > 1:
        text.append(f"   {last.pass_rate:.3f} now", style="bold green")
        text.append(f"   {best.pass_rate:.3f} best, at step {best.step:,}", style="not bold")
    yield text
    if len(watch.points) > 1 and watch.end_flops is not None:
        points = [(point.ledger.total.flops, point.pass_rate) for point in watch.points]
        label = f"{numbers.amount(watch.end_flops, 2)} FLOPs, the budget"
        yield SmallChart(points, watch.end_flops, label, watch.outlook.way)
    ahead = Text("forecast     ", style="bold")
    if watch.outlook.forecast is None:
        ahead.append(watch.outlook.reason, style="not bold")
    else:
        ahead.append(f"{watch.outlook.words} at the end of the budget", style="bold cyan")
        ahead.append(f" ({numbers.percent(LEVEL)} interval)", style="not bold")
    yield ahead


def _figures(watch: Watch) -> RenderableType:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for name, value in (
        ("speed", ", ".join(_speeds(watch)) or "-"),
        ("rollouts", _rollouts(watch)),
        ("age", _ages(watch)),
        ("idle", f"generator {_percent(watch, 'generator_idle')}, trainer {_percent(watch, 'trainer_idle')}"),
        ("checkpoint", "none yet" if watch.saved is None else f"step {watch.saved[0]:,}, {watch.saved[1]}"),
    ):
        grid.add_row(Text(name, style="bold"), Text(value))
    return grid


def _rollouts(watch: Watch) -> str:
    batch = watch.run.scale.batch
    effective = watch.value("effective_rollouts")
    kept = "-" if effective is None else f"{effective:,.0f}"
    return f"{kept} of {batch.prompts * batch.rollouts:,} in the loss, truncated {_percent(watch, 'truncation_rate')}"


def _ages(watch: Watch) -> str:
    mean, most = watch.value("age_mean"), watch.value("age_max")
    return "-" if mean is None or most is None else f"{mean:.1f} steps on average, {most:.0f} at most"


def _percent(watch: Watch, name: str) -> str:
    value = watch.value(name)
    return "-" if value is None else numbers.percent(value)


def _speeds(watch: Watch) -> list[str]:
    if watch.rollouts_per_s is None or watch.tokens_per_s is None:
        return []
    return [f"{numbers.amount(watch.rollouts_per_s)} rollouts/s", f"{numbers.amount(watch.tokens_per_s)} tokens/s"]


def _where(watch: Watch) -> str:
    budget = watch.run.scale.budget
    if budget.unit == "steps":
        return f"step {watch.step:,} of {budget.amount:,.0f}"
    return f"step {watch.step:,}, {numbers.percent(watch.share)} of {_budget(watch)}"


def _budget(watch: Watch) -> str:
    budget = watch.run.scale.budget
    return budget_words(budget.unit, budget.amount)


def _left(watch: Watch) -> str:
    return "time left unknown" if watch.left_s is None else f"{duration(watch.left_s)} left"
