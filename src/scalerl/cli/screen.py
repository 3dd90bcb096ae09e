"""How a run in progress looks: one screen for the live view, one line at a time for logs.

Called by the views in `live` with the state in `progress`. It decides words and layout, and computes nothing.
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
from scalerl.cli.progress import RunProgress
from scalerl.report.small_chart import SmallChart

WIDTH = 100


def screen(state: RunProgress) -> RenderableType:
    """The whole view."""
    parts = [_bar(state)] if state.warm_start is not None else [_bar(state), *_curve(state), _figures(state)]
    return Panel(Group(*parts), title=_title(state), title_align="left", width=WIDTH, border_style="bright_black")


def warm_start_line(state: RunProgress) -> str:
    progress = state.warm_start
    if progress is None:
        return "warm start done"
    return f"warm start: step {progress.step:,} of {progress.steps:,}, loss {progress.loss:.3f}, {_left(state)}"


def start_line(state: RunProgress) -> str:
    return f"training from step {state.step:,}, budget {_budget(state)}"


def step_line(state: RunProgress) -> str:
    return ", ".join([_where(state), *_speeds(state), _left(state)])


def evaluation_line(state: RunProgress) -> str:
    """The line that makes a log readable afterwards: where, the value, and what is expected at the end."""
    point = state.points[-1]
    error = "" if point.standard_error is None else f" +- {point.standard_error:.3f}"
    parts = [
        _where(state),
        f"pass rate {point.pass_rate:.3f}{error}",
        f"truncated {numbers.percent(point.truncation_rate)}",
    ]
    parts += [*_speeds(state), _left(state)] if state.step else []
    forecast = state.outlook.forecast
    parts += [] if forecast is None else [f"forecast at the end {state.outlook.words}"]
    return ", ".join(parts)


def stopping_line(state: RunProgress) -> str:
    return f"stopping after step {state.step + 1:,} and saving; press Ctrl-C again to end at once"


def duration(seconds: float) -> str:
    """`0:42`, `12:05`, `3:07:00`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _title(state: RunProgress) -> str:
    if state.reason is not None:
        return {
            "budget": "finished",
            "exhausted": "no problems left",
            "interrupted": "stopped",
            "guard": "stopped by a guard",
        }[state.reason]
    if state.stopping:
        return "saving and stopping; Ctrl-C again ends at once"
    if state.warm_start is not None:
        return "warm start"
    if state.started_s is None:
        return "preparing the policy"
    if state.generating is None:
        return "training"
    return "evaluating, {} of {} problems".format(*state.generating)


def _bar(state: RunProgress) -> RenderableType:
    progress = state.warm_start
    share = state.share if progress is None else progress.step / progress.steps
    done = (
        _where(state)
        if progress is None
        else f"{progress.step:,} of {progress.steps:,} steps, loss {progress.loss:.3f}"
    )
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(ProgressBar(total=1.0, completed=share), f"{done}, {duration(state.elapsed_s)} gone, {_left(state)}")
    return grid


def _curve(state: RunProgress) -> Iterable[RenderableType]:
    if not state.points:
        return
    first, last = state.points[0], state.points[-1]
    best = max(state.points, key=lambda point: point.pass_rate)
    text = Text("pass rate    ", style="bold")
    text.append(f"{first.pass_rate:.3f} at step {first.step:,}", style="not bold")
    if len(state.points) > 1:
        text.append(f"   {last.pass_rate:.3f} now", style="bold green")
        text.append(f"   {best.pass_rate:.3f} best, at step {best.step:,}", style="not bold")
    yield text
    if len(state.points) > 1 and state.end_flops is not None:
        points = [(point.ledger.total.flops, point.pass_rate) for point in state.points]
        label = f"{numbers.amount(state.end_flops, 2)} FLOPs, the budget"
        yield SmallChart(points, state.end_flops, label, state.outlook.way)
    ahead = Text("forecast     ", style="bold")
    if state.outlook.forecast is None:
        ahead.append(state.outlook.reason, style="not bold")
    else:
        ahead.append(f"{state.outlook.words} at the end of the budget", style="bold cyan")
        ahead.append(f" ({numbers.percent(LEVEL)} interval)", style="not bold")
    yield ahead


def _figures(state: RunProgress) -> RenderableType:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for name, value in (
        ("speed", ", ".join(_speeds(state)) or "-"),
        ("rollouts", _rollouts(state)),
        ("age", _ages(state)),
        ("idle", f"generator {_percent(state, 'generator_idle')}, trainer {_percent(state, 'trainer_idle')}"),
        ("checkpoint", "none yet" if state.saved is None else f"step {state.saved[0]:,}, {state.saved[1]}"),
    ):
        grid.add_row(Text(name, style="bold"), Text(value))
    if state.event is not None:
        grid.add_row(Text(state.event.name.replace("_", " "), style="bold red"), Text(state.event.message))
    return grid


def _rollouts(state: RunProgress) -> str:
    batch = state.run.scale.batch
    effective = state.value("effective_rollouts")
    kept = "-" if effective is None else f"{effective:,.0f}"
    return f"{kept} of {batch.prompts * batch.rollouts:,} in the loss, truncated {_percent(state, 'truncation_rate')}"


def _ages(state: RunProgress) -> str:
    mean, most = state.value("age_mean"), state.value("age_max")
    return "-" if mean is None or most is None else f"{mean:.1f} steps on average, {most:.0f} at most"


def _percent(state: RunProgress, name: str) -> str:
    value = state.value(name)
    return "-" if value is None else numbers.percent(value)


def _speeds(state: RunProgress) -> list[str]:
    if state.rollouts_per_s is None or state.tokens_per_s is None:
        return []
    return [f"{numbers.amount(state.rollouts_per_s)} rollouts/s", f"{numbers.amount(state.tokens_per_s)} tokens/s"]


def _where(state: RunProgress) -> str:
    budget = state.run.scale.budget
    if budget.unit == "steps":
        return f"step {state.step:,} of {budget.amount:,.0f}"
    return f"step {state.step:,}, {numbers.percent(state.share)} of {_budget(state)}"


def _budget(state: RunProgress) -> str:
    budget = state.run.scale.budget
    return budget_words(budget.unit, budget.amount)


def _left(state: RunProgress) -> str:
    return "time left unknown" if state.left_s is None else f"{duration(state.left_s)} left"
