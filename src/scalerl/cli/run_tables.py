"""How runs look in the terminal: a table of many, a page about one. Built with rich, prints nothing.

Called by `runs`. Laid out for 80 columns, readable without colour and in ASCII. Names come from folders, so they enter
as `Text`, never as markup.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.budget import budget_words
from scalerl.cli.set_table import sets_table
from scalerl.compute import ROLES
from scalerl.report.plain import Printable
from scalerl.runs.events import Event

if TYPE_CHECKING:
    from scalerl.config import RunConfig
    from scalerl.report.set_results import SetResult
    from scalerl.runs import RunSummary

STATE_STYLES = {
    "running": "cyan", "finished": "green", "interrupted": "yellow", "crashed": "red", "broken": "red",
}  # fmt: skip
REASONS = {
    "budget": "the budget is used up",
    "exhausted": "no problem is left to train on",
    "interrupted": "stopped by the user, everything was saved",
    "guard": "stopped by a guard, everything was saved",
}
MOST_ROWS = 16
"""Evaluations shown one by one; of more than that, some from the first to the last."""
BAR_WIDTH = 20
OTHER_COLUMNS = 44
"""Characters a row of the list takes beside the name of the run."""


def runs_table(runs: Sequence[RunSummary]) -> RenderableType:
    """One line for each run, and the recipe below its name."""
    table = _table(None)
    table.add_column("run\nrecipe, seed", overflow="fold")
    table.add_column("state\n", no_wrap=True)
    for title in ("step\nbudget", "pass rate\nbest", "FLOPs\ntime"):
        table.add_column(title, justify="right", no_wrap=True)
    names = numbers.names([str(run.path) for run in runs], max(20, Console().width - OTHER_COLUMNS))
    for name, run in zip(names, runs, strict=True):
        table.add_row(*_row(name if len(runs) > 1 else run.name, run))
    return Printable(table)


def run_page(
    run: RunSummary,
    config: RunConfig,
    evaluations: Sequence[Mapping[str, Any]],
    gain: Mapping[str, Any] | None,
    sets: Sequence[SetResult],
    events: Sequence[Mapping[str, Any]],
    resume: str | None,
) -> RenderableType:
    """Everything about one run."""
    parts: list[RenderableType] = [_heading(run), _settings(run, config)]
    parts.append(_evaluations(evaluations) if evaluations else Text("No evaluations yet."))
    if gain is not None:
        parts.append(Text(_gain_words(gain)))
    if sets:
        parts.append(sets_table(sets))
    parts.append(_compute(run))
    if events:
        parts.append(_events(events))
    parts.append(Text(_last_lines(run, config, resume), overflow="fold"))
    return Printable(Group(*(piece for part in parts for piece in (part, Text("")))))


def duration(seconds: float | None) -> str:
    """`48 s`, `12 min`, `3.2 h`."""
    if seconds is None:
        return numbers.UNKNOWN
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _row(name: str, run: RunSummary) -> list[Text]:
    state = Text(run.state, style=STATE_STYLES.get(run.state, ""))
    if run.state == "broken":
        return [Text(name), state, Text("-"), Text("-"), Text("-")]
    share = numbers.UNKNOWN if run.budget_share is None else f"{100 * run.budget_share:.0f} %"
    return [
        _stacked(name, f"{run.recipe}, {run.seed}"),
        state,
        _stacked(f"{run.step:,}", share),
        _stacked(_rate(run.last_pass_rate), _rate(run.best_pass_rate)),
        _stacked(numbers.amount(run.ledger.total.flops), duration(run.wall_s)),
    ]


def _heading(run: RunSummary) -> Text:
    text = Text(numbers.name(run.name, 70), style="bold")
    text.append("  ").append(run.state, style=STATE_STYLES.get(run.state, ""))
    if run.pid is not None:
        text.append(f" (process {run.pid})")
    if run.reason is not None:
        text.append(f" ({REASONS.get(run.reason, run.reason)})")
    sessions = f", {run.num_sessions} sessions" if run.num_sessions > 1 else ""
    began = f"began {run.started}" if run.started else "no provenance"
    text.append(f"\n{began}{sessions}; {duration(run.wall_s)} so far", style="dim")
    return text


def _settings(run: RunSummary, config: RunConfig) -> Table:
    scale, recipe = config.scale, config.recipe
    grid = Table.grid(padding=(0, 2))
    share = numbers.UNKNOWN if run.budget_share is None else f"{100 * run.budget_share:.0f} %"
    rows = {
        "recipe": f"{run.recipe}: {recipe.loss.surrogate}, asynchrony {recipe.asynchrony.kind}",
        "scale": f"{run.scale}: {scale.task.kind}, launcher {scale.launcher.kind}",
        "seed": str(run.seed),
        "batch": f"{scale.batch.prompts} prompts x {scale.batch.rollouts} rollouts, "
        f"at most {scale.tokens.response} tokens each",
        "learning rate": f"{scale.optimiser.learning_rate:g}",
        "evaluation": f"every {scale.evaluation.every} steps, {scale.evaluation.problems} problems x "
        f"{scale.evaluation.samples}",
        **{f"downstream {name}": set_words(config, name) for name in scale.evaluation.downstream},
        "progress": f"step {run.step:,}, {share} of {budget_words(scale.budget.unit, scale.budget.amount)}",
    }
    for name, value in rows.items():
        grid.add_row(Text(name, style="dim"), Text(value))
    return grid


def set_words(config: RunConfig, name: str) -> str:
    """`numbers = 8; 128 problems x 4, every evaluation`."""
    found, own = config.scale.evaluation.downstream[name], config.downstream(name).scale.evaluation
    changes = ", ".join(f"{key} = {value}" for key, value in found.task.items() if not found.whole or key == "path")
    often = "every evaluation" if found.every == 1 else f"every {found.every} evaluations"
    return f"{changes}; {own.problems or 'all'} problems x {own.samples}, {often}"


def _evaluations(evaluations: Sequence[Mapping[str, Any]]) -> Table:
    chosen = _spread(evaluations)
    some = "" if len(chosen) == len(evaluations) else f", {len(chosen)} of {len(evaluations)}"
    table = _table(f"Held-out pass rate{some}")
    for title in ("step", "FLOPs", "pass rate", "+-"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title in ("truncated", "tokens"):
        table.add_column(title, justify="right", no_wrap=True)
    for record in chosen:
        ledger, rate = record.get("ledger", {}), record.get("pass_rate")
        flops = sum(ledger.get(role, {}).get("flops", 0.0) for role in ("generation", "training"))
        bar = Text("=" * round(BAR_WIDTH * rate) if rate is not None else "", style="cyan")
        table.add_row(
            f"{record['step']:,}", numbers.amount(flops), _rate(rate), _rate(record.get("standard_error")), bar,
            _percent(record.get("truncation_rate")), numbers.number(record.get("mean_length")),
        )  # fmt: skip
    return table


def _gain_words(gain: Mapping[str, Any]) -> str:
    """Of the last evaluation over the first."""
    error = "" if gain["standard_error"] is None else f" +- {gain['standard_error']:.3f}"
    chance = "" if gain["p_value"] is None else f" (p = {gain['p_value']:.2g})"
    paired = f"paired over {gain['num_problems']:,} problems{chance}"
    return f"Step {gain['step']:,} against step 0: {gain['value']:+.3f}{error}, {paired}"


def _spread(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All of them, or some from the first to the last."""
    if len(records) <= MOST_ROWS:
        return list(records)
    last = len(records) - 1
    return [records[round(index * last / (MOST_ROWS - 1))] for index in range(MOST_ROWS)]


def _compute(run: RunSummary) -> Table:
    table = _table("Compute")
    table.add_column("role")
    for title in ("FLOPs", "tokens", "device time"):
        table.add_column(title, justify="right", no_wrap=True)
    usages = {role: getattr(run.ledger, role) for role in ROLES} | {"generation + training": run.ledger.total}
    for role, usage in usages.items():
        table.add_row(role, numbers.amount(usage.flops), numbers.amount(usage.tokens), duration(usage.device_s))
    return table


def _events(events: Sequence[Mapping[str, Any]]) -> RenderableType:
    lines = [Text("What happened", style="bold")]
    if len(events) > MOST_ROWS:
        lines.append(Text(f"the last {MOST_ROWS} of {len(events):,}; all: events.jsonl", style="dim"))
    for event in map(Event.from_line, events[-MOST_ROWS:]):
        style = "yellow" if event.name != "resumed" else ""
        lines.append(Text(f"  {event.message}", style=style, overflow="fold"))
    return Group(*lines)


def _last_lines(run: RunSummary, config: RunConfig, resume: str | None) -> str:
    steps = ", ".join(f"step {step:,}" for step in run.checkpoints) or "none yet"
    lines = [f"Checkpoints: {steps}."]
    if resume is not None:
        lines.append(f"To go on: {resume}")
        if config.scale.launcher.kind == "ray":
            lines.append("  with --address for a cluster that runs already: the run does not know it")
    if run.num_evals:
        lines.append(f"To fit its curve: scalerl fit {shlex.quote(str(run.path))}")
    return "\n".join(lines)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _stacked(above: str, below: str) -> Text:
    text = Text(above)
    text.append("\n" + below, style="dim")
    return text


def _table(title: str | None) -> Table:
    heading = None if title is None else Text(title, style="bold")
    return Table(
        title=heading, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0)
    )
