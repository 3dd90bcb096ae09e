"""What a run is doing and how far it got, from its files alone: no process is asked.

Used by the command line and by reports. The states:

    new          nothing is recorded yet, and nobody works on it
    running      a process holds the lock
    finished     the last session ended by itself: budget used up, or no problem left
    interrupted  the user stopped it, or a guard; everything was saved
    crashed      the process is gone without saying why; the last checkpoint is what there is
    broken       the files cannot be read; `problem` says why
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from scalerl.compute import Ledger
from scalerl.errors import InputError
from scalerl.plain_file import read_plain
from scalerl.readers.json_lines import Record
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import layout
from scalerl.runs.budget import used
from scalerl.runs.directory import RunDirectory, read_sessions
from scalerl.runs.lock import holder
from scalerl.runs.points import check_line, read_ledger, read_points
from scalerl.runs.presets import preset_names

State = Literal["new", "running", "finished", "interrupted", "crashed", "broken"]
DEEPEST = 4
"""Levels of folders below the root that `list_runs` looks into."""


@dataclass(frozen=True)
class RunSummary:
    """One run, for a line of a table. What is not known is None."""

    name: str
    path: Path
    state: State
    reason: str | None = None
    """How the last session ended: "budget", "exhausted", "interrupted", "guard"; None while it runs, or crashed."""
    problem: str | None = None
    """Why the files cannot be read; only for a broken run."""
    recipe: str | None = None
    """The nearest recipe preset, with the number of values that differ from it."""
    scale: str | None = None
    seed: int | None = None
    step: int = 0
    """Steps that metrics.jsonl knows."""
    budget_unit: str | None = None
    budget_amount: float | None = None
    budget_share: float | None = None
    """How much of the budget is used."""
    num_evals: int = 0
    first_pass_rate: float | None = None
    last_pass_rate: float | None = None
    best_pass_rate: float | None = None
    best_step: int | None = None
    ledger: Ledger = field(default_factory=Ledger)
    wall_s: float | None = None
    """Time spent, sessions before a resume included."""
    started: str | None = None
    """When the first session began (ISO 8601)."""
    num_sessions: int = 0
    pid: int | None = None
    """The process that runs it."""
    checkpoints: tuple[int, ...] = ()
    """Steps of the complete checkpoints, oldest first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        total = asdict(self.ledger.total)
        return {**asdict(self), "path": str(self.path), "checkpoints": list(self.checkpoints), "compute": total}


def summarise(run: str | Path | RunDirectory) -> RunSummary:
    """The state of one run; `InputError` when it is no run directory or its files are broken."""
    directory = run if isinstance(run, RunDirectory) else RunDirectory.open(run)
    folder = directory.path
    evals, last_step = read_points(directory), directory.metrics.last()
    if last_step is not None:
        check_line(last_step, f"{directory.metrics.path}, the last line")
    last = _latest(last_step, evals[-1] if evals else None)
    step, ledger = (0, Ledger()) if last is None else (last["step"], read_ledger(last, str(folder)))
    recipe, scale = preset_names(directory.config)
    budget = directory.config.scale.budget
    sessions = read_sessions(folder)
    state, reason, pid = _state(folder, begun=last is not None)
    return RunSummary(
        name=name_of(folder), path=folder, state=state, reason=reason, recipe=recipe, scale=scale,
        seed=directory.config.seed, step=step, budget_unit=budget.unit, budget_amount=budget.amount,
        budget_share=used(budget, step, ledger) / budget.amount, ledger=ledger,
        wall_s=None if last is None else last.get("wall_s"),
        started=sessions[0].get("started") if sessions else None, num_sessions=len(sessions), pid=pid,
        checkpoints=tuple(dict.fromkeys(map(layout.step_of, layout.complete_checkpoints(directory.checkpoints)))),
        **_pass_rates(evals),
    )  # fmt: skip


def list_runs(root: str | Path = ".") -> list[RunSummary]:
    """Every run in and below a folder, by path; one that cannot be read is in the list as broken."""
    if not Path(root).is_dir():
        raise InputError("no such folder", allowed="a folder with runs in it", where=str(root))
    return [_summarise_or_say(folder) for folder in sorted(find_runs(Path(root)))]


def name_of(path: Path) -> str:
    """The name of the folder, also of `.`."""
    return path.absolute().resolve().name


def _summarise_or_say(folder: Path) -> RunSummary:
    try:
        return summarise(folder)
    except InputError as error:
        return RunSummary(name_of(folder), folder, "broken", problem=str(error))


def find_runs(folder: Path, is_run: Callable[[Path], bool] = is_run_directory, levels: int = DEEPEST) -> Iterator[Path]:
    """Runs in and below a folder. Nothing is looked for inside a run; links are not followed."""
    if is_run(folder):
        yield folder
    elif levels:
        try:
            entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:  # a folder that we may not enter holds no run of ours
            return
        for entry in entries:
            if not entry.name.startswith("."):
                yield from find_runs(Path(entry.path), is_run, levels - 1)


def _state(folder: Path, *, begun: bool) -> tuple[State, str | None, int | None]:
    """State, reason, process."""
    if (held := holder(folder / layout.LOCK)) is not None:
        return "running", None, held.pid
    try:
        reason = str(json.loads(read_plain(folder / layout.STOPPED))["reason"])
    except FileNotFoundError:
        return ("crashed" if begun else "new"), None, None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        words, where = getattr(error, "strerror", None) or error, str(folder / layout.STOPPED)
        raise InputError(f"broken file ({words})", allowed="what a run has written", where=where) from None
    return ("interrupted" if reason in {"interrupted", "guard"} else "finished"), reason, None


def _latest(step: Record | None, point: Record | None) -> Record | None:
    """The newer one: an evaluation is written after its step, and there is one before step 1."""
    records = [record for record in (step, point) if record is not None]
    return max(records, key=lambda record: record["step"], default=None)


def _pass_rates(evals: list[Record]) -> dict[str, Any]:
    known = [(record["pass_rate"], record["step"]) for record in evals if record.get("pass_rate") is not None]
    if not known:
        return {"num_evals": len(evals)}
    best, step = max(known, key=lambda pair: pair[0])
    return {
        "num_evals": len(evals),
        "first_pass_rate": known[0][0],
        "last_pass_rate": known[-1][0],
        "best_pass_rate": best,
        "best_step": step,
    }
