"""What only our own run directories tell: state, other units of compute, panels of the training, provenance.

Called by the report command and by the watch server, for a target that `is_run_directory`. It reads config.json,
metrics.jsonl, evals.jsonl and provenance.json through `scalerl.runs` and `scalerl.readers`; it fits and draws nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.errors import InputError
from scalerl.readers import read_table
from scalerl.readers.json_lines import Record
from scalerl.readers.run_directory import COMPUTE, is_run_directory
from scalerl.report.answers import Document
from scalerl.report.document import State
from scalerl.report.thinning import in_bins, rounded
from scalerl.runs.directory import RunDirectory, read_sessions
from scalerl.runs.status import RunSummary, summarise
from scalerl.series import Series

UNIT_NAMES = {"flops": "FLOPs", "tokens": "tokens", "device_hours": "device-hours", "steps": "steps"}
MOST_PLACES = 200
"""Points of one line of a panel."""
_STATES: dict[str, State] = {
    "running": "running", "finished": "finished", "interrupted": "stopped", "crashed": "stopped",
    "new": "unknown", "broken": "unknown",
}  # fmt: skip
_PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Pass rate in training", "share", (("pass_rate", "pass rate"),)),
    ("Rollouts cut short", "share", (("truncation_rate", "truncated"), ("interruption_rate", "interrupted"))),
    ("Entropy", "nats per token", (("entropy", "entropy"),)),
    ("Age of the rollouts", "policy versions", (("age_mean", "mean"), ("age_max", "largest"))),
    ("Idle time", "share", (("generator_idle", "generator"), ("trainer_idle", "trainer"))),
    ("Gradient norm", "norm", (("grad_norm", "gradient norm"),)),
    ("Length", "tokens", (("mean_length", "mean"), ("max_length", "longest"))),
    ("Clipped by the loss", "share", (("clipped_fraction", "clipped"),)),
)
"""Title, unit, and the metrics that share the panel with their names."""

__all__ = ["UNIT_NAMES", "OwnRun", "is_run_directory", "other_units", "read_own_run", "unit_name"]


@dataclass(frozen=True)
class OwnRun:
    """What stands beside the curve of one run directory."""

    state: State
    notes: tuple[str, ...]
    panels: tuple[Document, ...]
    provenance: dict[str, str]
    summary: RunSummary

    def planned(self, key: str, last: float) -> float | None:
        """The end of the run's budget in a unit of compute, given the last compute in it; None when it is over."""
        share = self.summary.budget_share
        if share is None or not 0 < share < 1 or self.summary.budget_amount is None:
            return None
        return self.summary.budget_amount if self.summary.budget_unit == key else last / share


def unit_name(key: str) -> str:
    """`device-hours` for `device_hours`; names we do not know stay as they are."""
    return UNIT_NAMES.get(key, key)


def read_own_run(path: str | Path) -> OwnRun:
    """Everything but the curve. `InputError` when the files are broken."""
    directory, summary = RunDirectory.open(path), summarise(path)
    return OwnRun(
        state=_STATES[summary.state],
        notes=("compute is that of generation and training; evaluation is not counted",),
        panels=tuple(panels_of(directory.metrics.read())),
        provenance=_provenance(directory, summary),
        summary=summary,
    )


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


def panels_of(metrics: Sequence[Record]) -> list[Document]:
    """One panel for each group of metrics that the run has recorded."""
    panels = []
    for title, y_name, members in _PANELS:
        lines = [line for key, name in members if (line := _line(metrics, key, name)) is not None]
        if lines:
            panels.append({"title": title, "x_name": "step", "y_name": y_name, "lines": lines})
    return panels


def _line(metrics: Sequence[Record], key: str, name: str) -> Document | None:
    known = [(r["step"], r[key]) for r in metrics if _is_number(r.get("step")) and _is_number(r.get(key))]
    if not known:
        return None
    x, y = np.array(known, dtype=np.float64).T
    x, y = in_bins(x, y, MOST_PLACES)
    return {"name": name, "x": rounded(x), "y": rounded(y, 4)}


def _is_number(value: object) -> bool:
    return type(value) in {int, float}


def _provenance(directory: RunDirectory, summary: RunSummary) -> dict[str, str]:
    """What a reader asks first, as text by text."""
    sessions = read_sessions(directory.path)
    last: dict[str, Any] = sessions[-1] if sessions else {}
    packages = last.get("packages") or {}
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
        "trained by": shlex.join(map(str, last.get("command") or [])),
        "scalerl": " ".join(str(part) for part in (last.get("scalerl"), last.get("commit")) if part),
        "python": last.get("python"),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "machine": last.get("platform"),
        "processors": last.get("cpus"),
    }
    return {name: str(fact) for name, fact in facts.items() if fact not in (None, "")}
