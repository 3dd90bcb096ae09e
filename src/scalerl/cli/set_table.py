"""Downstream sets, parts and suites as tables of the terminal: mean@k and pass@k, with errors over problems.

Called by `runs show` and by `evaluate`. Built with rich, prints nothing. Names come from files and enter as `Text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from scalerl import numbers

if TYPE_CHECKING:
    from scalerl.cli.output import Document
    from scalerl.report.set_results import SetResult


def sets_table(sets: Sequence[SetResult]) -> Table:
    """Where each set and part of a run began and where it stands."""
    table = _table("Downstream sets and parts", ("k", "first", "last", "+-", "pass@k", "+-", "step"))
    for one in sets:
        name = f"part {one.name}" if one.kind == "part" else one.name
        passed, error = (None, None) if one.passed is None else (one.passed.value, one.passed.standard_error)
        table.add_row(
            Text(numbers.name(name, 30)), "-" if one.num_samples is None else str(one.num_samples),
            _rate(one.measured[0].value), _rate(one.last.value), _rate(one.last.error), _rate(passed), _rate(error),
            f"{one.last.step:,}",
        )  # fmt: skip
    return table


def scores_table(measured: Sequence[Document]) -> Table:
    """One line for each version and set that `scalerl evaluate` has measured."""
    table = _table(None, ("version", "problems", "k", "mean@k", "+-", "pass@k", "+-", "tokens"))
    for one in measured:
        passed = one["pass_at"].get(str(one["k"]), {})
        table.add_row(
            Text(numbers.name(one["set"], 30)), f"{one['version']:,}", f"{one['num_problems']:,}", str(one["k"]),
            _rate(one["mean_at_k"]), _rate(one["standard_error"]), _rate(passed.get("value")),
            _rate(passed.get("standard_error")), numbers.number(one["mean_length"]),
        )  # fmt: skip
    return table


def _table(title: str | None, columns: Sequence[str]) -> Table:
    heading = None if title is None else Text(title, style="bold")
    table = Table(
        title=heading, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0)
    )
    table.add_column("set", overflow="fold", min_width=8)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
