"""What only our own run directories tell: state, other units of compute, panels of the training, provenance.

Called by the report command and by the watch server, for a target that `is_run_directory`. It reads config.json,
metrics.jsonl, evals.jsonl, events.jsonl and provenance.json through `scalerl.runs` and `scalerl.readers`; it fits and
draws nothing.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scalerl import numbers
from scalerl.errors import InputError
from scalerl.readers import read_table
from scalerl.readers.json_lines import PIECE_BYTES, Tail
from scalerl.readers.run_directory import COMPUTE, is_run_directory
from scalerl.redaction import command_without_secrets
from scalerl.report.answers import Document
from scalerl.report.document import State
from scalerl.report.training_panels import TrainingPanels
from scalerl.runs.directory import RunDirectory, read_sessions
from scalerl.runs.events import Event
from scalerl.runs.layout import METRICS
from scalerl.runs.status import RunSummary, summarise
from scalerl.series import Series

UNIT_NAMES = {"flops": "FLOPs", "tokens": "tokens", "device_hours": "device-hours", "steps": "steps"}
MOST_EVENTS = 50
_STATES: dict[str, State] = {
    "running": "running", "finished": "finished", "interrupted": "stopped", "crashed": "stopped",
    "new": "unknown", "broken": "unknown",
}  # fmt: skip

__all__ = ["UNIT_NAMES", "OwnReader", "OwnRun", "is_run_directory", "other_units", "read_own_run", "unit_name"]


@dataclass(frozen=True)
class OwnRun:
    """What stands beside the curve of one run directory."""

    state: State
    notes: tuple[str, ...]
    panels: tuple[Document, ...]
    provenance: dict[str, str]
    summary: RunSummary
    events: tuple[Document, ...] = ()
    """Alarms, skipped steps, damage: the last of them, oldest first."""

    def planned(self, key: str, last: float) -> float | None:
        """The end of the run's budget in a unit of compute, given the last compute in it; None when it is over."""
        share = self.summary.budget_share
        if share is None or not 0 < share < 1 or self.summary.budget_amount is None:
            return None
        return self.summary.budget_amount if self.summary.budget_unit == key else last / share


def unit_name(key: str) -> str:
    """`device-hours` for `device_hours`; names we do not know stay as they are."""
    return UNIT_NAMES.get(key, key)


class OwnReader:
    """Reads one run again and again while it grows: of its metrics only what is new since the last time."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._metrics, self._panels = self._anew()

    @property
    def behind(self) -> bool:
        """Whether there are steps that `read_on` would add."""
        return self._metrics.behind

    def read(self, most_bytes: int = PIECE_BYTES) -> OwnRun:
        """Everything but the curve, and of the metrics so many bytes more; `InputError` when the files are broken."""
        directory = RunDirectory.open(self._path)
        summary = summarise(directory)
        self._add(most_bytes)
        return OwnRun(
            state=_STATES[summary.state],
            notes=("compute is that of generation and training; evaluation is not counted",),
            panels=self._panels.documents(),
            provenance=_provenance(directory, summary),
            summary=summary,
            events=tuple(asdict(event) for event in map(Event.from_line, directory.events.newest(MOST_EVENTS))),
        )

    def read_on(self, run: OwnRun, most_bytes: int = PIECE_BYTES) -> OwnRun:
        """The same with the panels of so many bytes more."""
        self._add(most_bytes)
        return replace(run, panels=self._panels.documents())

    def read_all(self) -> OwnRun:
        """Up to the last step there is now, in the memory of one piece."""
        run = self.read()
        while self.behind:
            self._add(PIECE_BYTES)
        return replace(run, panels=self._panels.documents())

    def _add(self, most_bytes: int) -> None:
        if self._metrics.is_lost:  # a run that goes on from a checkpoint cuts its metrics back
            self._metrics, self._panels = self._anew()
        self._panels.add(self._metrics.more(most_bytes, self._panels.every))

    def _anew(self) -> tuple[Tail, TrainingPanels]:
        return Tail(self._path / METRICS), TrainingPanels()


def read_own_run(path: str | Path) -> OwnRun:
    """Everything but the curve. `InputError` when the files are broken."""
    return OwnReader(path).read_all()


def other_units(
    path: str | Path, present: str, *, y: str | None = None, n: str | None = None, bounds: Any = (0.0, 1.0)
) -> dict[str, Series]:
    """The same curve against every other unit of compute that its evaluations know, by key."""
    found = {}
    for key in (key for key in COMPUTE if key != present):
        try:
            (found[key],) = read_table(path, x=key, y=y, n=n, bounds=bounds)
        except InputError:  # a run without this part of the ledger, or one unit in which two evaluations coincide
            continue
    return found


def _provenance(directory: RunDirectory, summary: RunSummary) -> dict[str, str]:
    """What a reader asks first, as text by text."""
    sessions = read_sessions(directory.path)
    last: dict[str, Any] = sessions[-1] if sessions else {}
    packages, command = last.get("packages"), last.get("command")
    packages = packages if isinstance(packages, dict) else {}  # a damaged file holds anything
    command = command if isinstance(command, list) else []
    budget = f"{numbers.amount(summary.budget_amount)} {unit_name(summary.budget_unit or '')}"
    used = "" if summary.budget_share is None else f", {numbers.percent(summary.budget_share)} used"
    facts = {
        "recipe": summary.recipe,
        "scale": summary.scale,
        "seed": summary.seed,
        "budget": f"{budget}{used}",
        "state": summary.state,
        "started": summary.started,
        "sessions": summary.num_sessions or None,
        "config": directory.identity[:12],
        "trained by": shlex.join(command_without_secrets([str(word) for word in command])),
        "scalerl": " ".join(str(part) for part in (last.get("scalerl"), last.get("commit")) if part),
        "python": last.get("python"),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "machine": last.get("platform"),
        "processors": last.get("cpus"),
    }
    return {name: str(fact) for name, fact in facts.items() if fact not in (None, "")}
