"""What a training run came to, in a few lines: the pass rate, the compute, the decision, and what to type next.

Called by `train` when a run has ended or was stopped. Fit and decision are the engine's.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.budget import budget_words
from scalerl.cli.outlook import MIN_POINTS_TO_FIT, fit_of
from scalerl.cli.output import unbroken
from scalerl.cli.screen import duration
from scalerl.compute import ROLES
from scalerl.errors import ScaleRLError
from scalerl.report.plain import Printable
from scalerl.runs.budget import used

if TYPE_CHECKING:
    from scalerl.cli.output import Document
    from scalerl.cli.progress import RunProgress
    from scalerl.config import RunConfig
    from scalerl.curves.results import Decision
    from scalerl.pipeline.session import TrainResult

ENDINGS = {
    "budget": "The budget is used up.",
    "exhausted": "No problem is left to train on: all were solved too often (recipe.curriculum).",
    "interrupted": "Stopped as you asked; everything is saved.",
}


def summary_document(run: RunConfig, result: TrainResult, state: RunProgress, address: str | None = None) -> Document:
    """For --json."""
    first, last = result.points[0], result.points[-1]
    best = max(result.points, key=lambda point: point.pass_rate)
    decision = _decision(result)
    return {
        "folder": str(result.folder),
        "reason": result.reason,
        "step": result.step,
        "pass_rate": {"first": first.pass_rate, "last": last.pass_rate, "best": best.pass_rate, "best_step": best.step},
        "points": len(result.points),
        "ledger": result.ledger.to_dict(),
        "budget": run.scale.budget.model_dump() | {"used": used(run.scale.budget, result.step, result.ledger)},
        "wall_s": state.elapsed_s,
        "decision": None if decision is None else {"action": decision.action, "reason": decision.reason},
        "next": next_commands(result, run, address),
    }


def summary_parts(
    run: RunConfig, result: TrainResult, state: RunProgress, address: str | None = None
) -> list[RenderableType]:
    """For people."""
    first, last = result.points[0], result.points[-1]
    rate = Text("Pass rate ", style="bold")
    rate.append(f"{first.pass_rate:.3f} -> {last.pass_rate:.3f}", style="bold green")
    rate.append(f" on held-out problems, step {first.step:,} to {last.step:,}", style="not bold")
    parts: list[RenderableType] = [
        Text(f"{ENDINGS[result.reason]} {_spent(run, result)}"),
        rate,
        Text(f"Run       {result.folder}, {duration(state.elapsed_s)} in this session"),
        Text(""),
        _ledger(result),
    ]
    decision = _decision(result)
    if decision is not None:
        parts += [Text(""), Text(f"Twice the compute? {decision.action}: {decision.reason}.")]
    parts += [Text(""), Text("Next", style="bold")]
    parts += [unbroken(f"  {command}") for command in next_commands(result, run, address)]
    return [Printable(part) for part in parts]


def next_commands(result: TrainResult, run: RunConfig, address: str | None = None) -> list[str]:
    """What one would type now. The cluster is no part of the config, so `--address` is said again."""
    folder = shlex.quote(str(result.folder))
    on = "" if address is None else f" --address {shlex.quote(address)}"
    if result.reason == "interrupted":
        return [f"scalerl train --out {folder} --resume{on}"]
    commands = [f"scalerl fit {folder} --until 50% --budget end"] if _enough_for_half(result) else []
    if result.reason == "budget":
        more = budget_words(run.scale.budget.unit, 2 * run.scale.budget.amount).replace(",", "").replace("FLOP", "flop")
        commands.append(f"scalerl train --out {folder} --resume{on} --budget {shlex.quote(more)}")
    return commands


def _enough_for_half(result: TrainResult) -> bool:
    """Whether the first half alone can be fitted."""
    half = result.ledger.total.flops / 2
    return sum(0 < point.ledger.total.flops <= half for point in result.points) >= MIN_POINTS_TO_FIT


def _decision(result: TrainResult) -> Decision | None:
    from scalerl.curves import decide

    try:
        law = fit_of(result.points)
        return None if law is None else decide(law)
    except ScaleRLError:  # a curve that no law can be fitted to: `scalerl fit` says why
        return None


def _spent(run: RunConfig, result: TrainResult) -> str:
    budget = run.scale.budget
    spent = used(budget, result.step, result.ledger)
    return f"{budget_words(budget.unit, spent).split()[0]} of {budget_words(budget.unit, budget.amount)}."


def _ledger(result: TrainResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("compute", "FLOPs", "tokens", "device-seconds"):
        table.add_column(title, justify="left" if title == "compute" else "right")
    for role in ROLES:
        usage = getattr(result.ledger, role)
        table.add_row(role, numbers.amount(usage.flops), numbers.amount(usage.tokens), numbers.amount(usage.device_s))
    return table
