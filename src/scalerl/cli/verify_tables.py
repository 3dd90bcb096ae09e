"""How the checks of runs look in the terminal: every check of one run, of several only what is wrong.

Called by `runs`. Built with rich, prints nothing; laid out for 80 columns. Texts come from files and folders, so they
enter as `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalerl import numbers
from scalerl.report.plain import Printable

if TYPE_CHECKING:
    from scalerl.runs.verify import Verification
    from scalerl.runs.verify_findings import Finding

LEVEL_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


def verify_page(
    found: Sequence[Verification], repairs: Mapping[Path, Sequence[str]], *, repaired: bool
) -> RenderableType:
    """Each run, and the sum of them."""
    alone = len(found) == 1
    parts: list[RenderableType] = []
    for one in found:
        parts.append(_heading(one, alone))
        parts += [Text(f"  repaired: {line}", overflow="fold") for line in repairs[one.path]]
        if repaired and alone and not repairs[one.path]:
            parts.append(Text("  nothing to repair", style="dim"))
        shown = [finding for finding in one.findings if alone or finding.level != "ok"]
        if shown:
            parts.append(_table(shown))
    parts.append(Text(_sum_words(found)))
    return Printable(Group(*parts))


def _heading(one: Verification, alone: bool) -> Text:
    text = Text(numbers.name(one.name if alone else str(one.path), 60), style="bold")
    text.append("  ").append(one.level, style=LEVEL_STYLES[one.level])
    if one.held_by is not None:
        text.append(f"\n  being written by {one.held_by}: checked as far as possible", style="dim")
    return text


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("what was found, what to do", overflow="fold")
    for finding in findings:
        table.add_row(Text(finding.check), Text(finding.level, style=LEVEL_STYLES[finding.level]), _words(finding))
    return table


def _words(finding: Finding) -> Text:
    place = "" if finding.where is None or finding.level == "ok" else f"{finding.where}: "
    text = Text(place + finding.message)
    if finding.todo is not None:
        text.append(f"\nto do: {finding.todo}", style="dim")
    return text


def _sum_words(found: Sequence[Verification]) -> str:
    errors, warnings = sum(one.count("error") for one in found), sum(one.count("warning") for one in found)
    runs = "1 run" if len(found) == 1 else f"{len(found):,} runs"
    if not errors and not warnings:
        return f"{runs}: everything is as it should be."
    return f"{runs}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}."


def _counted(num: int, noun: str) -> str:
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"
