"""The downstream sets and parts of one run, measurement by measurement: what its files say, without any fit.

Used by `scalerl runs show`, by the report and by its picture. Reads a run directory through `scalerl.runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scalerl.config.task import Mixture
from scalerl.readers.json_lines import Record
from scalerl.runs.directory import RunDirectory
from scalerl.runs.points import read_points
from scalerl.runs.scores import DOWNSTREAM, HELD_OUT, PART, Score, read_results

Kind = Literal["downstream", "part"]
_PREFIXES: dict[str, Kind] = {DOWNSTREAM: "downstream", PART: "part"}


@dataclass(frozen=True)
class Measured:
    """One policy version, on a set and on the held-out problems."""

    step: int
    value: float
    error: float | None
    """Standard error over problems."""
    held_out: float
    held_out_error: float | None


@dataclass(frozen=True)
class SetResult:
    """One set, or one part of a mixture."""

    metric: str
    """Its name in evals.jsonl: what `scalerl fit --metric` takes."""
    kind: Kind
    measured: tuple[Measured, ...]
    """At least one, in order."""
    num_samples: int | None
    """Answers for each problem in the last measurement: the k of mean@k. None: not recorded."""
    passed: Score | None
    """pass@k of the last measurement, with all of its answers; None without results by problem."""

    @property
    def name(self) -> str:
        return self.metric.partition("/")[2]

    @property
    def last(self) -> Measured:
        return self.measured[-1]


def read_sets(directory: RunDirectory, evaluations: Sequence[Record] | None = None) -> list[SetResult]:
    """Every set and part that was measured, parts first."""
    records = read_points(directory) if evaluations is None else evaluations
    metrics = [key for record in records for key in record if key.count("/") == 1 and _kind(key) is not None]
    found = [_set(metric, directory, records) for metric in dict.fromkeys(metrics)]
    return sorted((one for one in found if one is not None), key=lambda one: one.kind != "part")


def _kind(metric: str) -> Kind | None:
    return next((kind for prefix, kind in _PREFIXES.items() if metric.startswith(prefix)), None)


def _set(metric: str, directory: RunDirectory, records: Sequence[Record]) -> SetResult | None:
    known = [record for record in records if record.get(metric) is not None and record.get(HELD_OUT) is not None]
    kind = _kind(metric)
    if not known or kind is None:
        return None
    return SetResult(
        metric=metric,
        kind=kind,
        measured=tuple(_measured(metric, record) for record in known),
        num_samples=known[-1].get(f"{metric}/num_samples"),
        passed=_passed(metric, directory, known[-1]),
    )


def _measured(metric: str, record: Record) -> Measured:
    error = record.get(f"{metric}/standard_error")
    return Measured(record["step"], record[metric], error, record[HELD_OUT], record.get("standard_error"))


def _passed(metric: str, directory: RunDirectory, record: Record) -> Score | None:
    task = directory.config.scale.task
    parts = tuple(task.parts) if isinstance(task, Mixture) else ()
    results = read_results(directory.evaluation_file(record["step"]), parts).get(metric)
    return None if results is None else results.pass_at(results.num_samples)
