"""How a study in progress looks: one line for each cell, what failed, what is left. Built with rich, prints nothing.

Called by `study_status` and by the view of `study_run`. Laid out for 80 columns, readable without colour and in ASCII.
Names come from files, so they enter as `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.cli.run_tables import duration
from scalerl.report.plain import Printable
from scalerl.study.status import ENDED, mean_value

if TYPE_CHECKING:
    from scalerl.curves.results import Estimate
    from scalerl.study.status import JobStatus, StudyStatus

STYLES = {
    "running": "cyan", "finished": "green", "interrupted": "yellow", "failed": "red", "pruned": "magenta",
}  # fmt: skip
MOST_ROWS = 40
"""Cells shown one by one; of more than that, those that are under way or failed come first."""
MOST_FAILURES = 10


def status_parts(status: StudyStatus, forecasts: Mapping[str, Estimate] | None = None) -> RenderableType:
    """Everything on one screen; `forecasts` of some cells make a column more."""
    parts: list[RenderableType] = [Text(headline(status)), _cells(status, forecasts), *_failures(status.jobs)]
    return Printable(Group(*parts))


def headline(status: StudyStatus) -> str:
    """`leave_one_out: 12 of 27 jobs ended, 2 running, 13 waiting, about 40 min left`."""
    ended = sum(job.state in ENDED for job in status.jobs)
    others = [f"{count} {state}" for state, count in status.counts.items() if state != "finished"]
    words = [f"{status.name}: {ended} of {len(status.jobs)} jobs ended", *others]
    if not status.done and status.left_s is not None:
        words.append(f"about {duration(status.left_s)} left")
    return ", ".join(words)


def _cells(status: StudyStatus, forecasts: Mapping[str, Estimate] | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    table.add_column("cell", overflow="fold")
    table.add_column("seeds", justify="right", no_wrap=True)
    table.add_column("budget used", justify="right", no_wrap=True)
    table.add_column("value now", justify="right", no_wrap=True)
    if forecasts is not None:
        table.add_column("at the end", no_wrap=True)
    table.add_column("state", overflow="fold")
    shown = _chosen(status)
    for cell in shown:
        *figures, states = _row(cell, status.of_cell(cell))
        ahead = [] if forecasts is None else [Text(numbers.estimate(forecasts.get(cell)))]
        table.add_row(*figures, *ahead, states)
    if hidden := len(status.cells) - len(shown):
        table.add_row(Text(f"and {hidden} more cells", style="bright_black"))
    return table


def _chosen(status: StudyStatus) -> list[str]:
    """All cells, or of many those where something happens, in the order of the study."""
    cells = list(status.cells)
    if len(cells) <= MOST_ROWS:
        return cells
    states = {cell: {job.state for job in status.of_cell(cell)} for cell in cells}
    ranks = {cell: 0 if found & {"running", "failed", "interrupted"} else 1 for cell, found in states.items()}
    best = set(sorted(cells, key=lambda cell: ranks[cell])[:MOST_ROWS])
    return [cell for cell in cells if cell in best]


def _row(cell: str, jobs: Sequence[JobStatus]) -> list[Text]:
    share = sum(job.share for job in jobs) / len(jobs)
    counts = {state: sum(job.state == state for job in jobs) for state in dict.fromkeys(job.state for job in jobs)}
    states = Text(", ").join(
        Text(state if count == len(jobs) else f"{count} {state}", style=STYLES.get(state, ""))
        for state, count in counts.items()
    )
    cells = [str(len(jobs)), numbers.percent(share), numbers.number(mean_value(jobs))]
    return [Text(cell), *map(Text, cells), states]


def _failures(jobs: Sequence[JobStatus]) -> list[Text]:
    failed = [job for job in jobs if job.state == "failed"]
    lines = [Text(f"{job.name} failed: {job.error}", style="red") for job in failed[:MOST_FAILURES]]
    if len(failed) > MOST_FAILURES:
        lines.append(Text(f"and {len(failed) - MOST_FAILURES} more failures"))
    return lines
