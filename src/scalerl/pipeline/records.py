"""Steps and evaluations as the JSON lines of a run directory, and back.

Written by the session; read again when a run goes on. The keys are those that `scalerl.readers` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from scalerl.compute import Ledger
from scalerl.pipeline.types import EvalPoint, StepRecord


def step_line(record: StepRecord) -> dict[str, Any]:
    head = {"step": record.step, "wall_s": record.wall_s}
    return {**head, **record.values, "ledger": record.ledger.to_dict()}


def point_line(point: EvalPoint, wall_s: float) -> dict[str, Any]:
    """Without the results of single problems: those have a file of their own."""
    values = {item.name: getattr(point, item.name) for item in fields(point) if item.name != "per_problem"}
    return {**values, "ledger": point.ledger.to_dict(), "wall_s": wall_s}


def point_from_line(line: Mapping[str, Any]) -> EvalPoint:
    """Results of single problems are left in their file."""
    names = {item.name for item in fields(EvalPoint)} - {"ledger", "per_problem"}
    values = {name: line[name] for name in names}
    return EvalPoint(**values, ledger=Ledger.from_dict(line["ledger"]), per_problem={})


def problem_lines(point: EvalPoint) -> dict[str, Any]:
    """The file of an evaluation: which problems were solved how often."""
    results = {name: {"correct": correct, "judged": judged} for name, (correct, judged) in point.per_problem.items()}
    return {"step": point.step, "num_samples": point.num_samples, "problems": results}
