"""Steps and evaluations as the JSON lines of a run directory, and back.

Written by the session; read again when a run goes on. The keys are those that `scalerl.readers` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from scalerl.compute import Ledger
from scalerl.pipeline.types import EvalPoint, StepRecord

DOWNSTREAM = "downstream/"
"""Begins the keys of downstream sets in a line: `downstream/NAME` is the pass rate, the rest is below it."""
_SHARED = {"step", "ledger", "per_problem", "downstream"}
"""What a downstream point has in common with its held-out one, or has elsewhere."""
_BELOW = [item.name for item in fields(EvalPoint) if item.name not in _SHARED | {"pass_rate"}]


def step_line(record: StepRecord) -> dict[str, Any]:
    head = {"step": record.step, "wall_s": record.wall_s}
    return {**head, **record.values, "ledger": record.ledger.to_dict()}


def point_line(point: EvalPoint, wall_s: float) -> dict[str, Any]:
    """Without the results of single problems: those have a file of their own. Downstream sets follow, null where they
    were not due: flat, so that every reader of logs finds them."""
    own = ("step", "pass_rate", *_BELOW)
    head = {name: getattr(point, name) for name in own} | {"ledger": point.ledger.to_dict(), "wall_s": wall_s}
    return head | {key: value for name, found in point.downstream.items() for key, value in _flat(name, found).items()}


def point_from_line(line: Mapping[str, Any]) -> EvalPoint:
    """Results of single problems are left in their file."""
    shared = {"step": line["step"], "ledger": Ledger.from_dict(line["ledger"]), "per_problem": {}}
    names = [key.removeprefix(DOWNSTREAM) for key in line if key.startswith(DOWNSTREAM) and key.count("/") == 1]
    sets: dict[str, EvalPoint | None] = dict.fromkeys(names)
    for name in names:
        rate, below = line[f"{DOWNSTREAM}{name}"], {key: line[f"{DOWNSTREAM}{name}/{key}"] for key in _BELOW}
        sets[name] = None if rate is None else EvalPoint(pass_rate=rate, **below, **shared)
    values = {name: line[name] for name in ("pass_rate", *_BELOW)}
    return EvalPoint(**values, **shared, downstream=sets)


def problem_lines(point: EvalPoint) -> dict[str, Any]:
    """The file of an evaluation: which problems were solved how often."""
    sets = {name: _results(found) for name, found in point.downstream.items() if found is not None}
    return {"step": point.step, **_results(point), **({"downstream": sets} if sets else {})}


def _results(point: EvalPoint) -> dict[str, Any]:
    results = {name: {"correct": correct, "judged": judged} for name, (correct, judged) in point.per_problem.items()}
    return {"num_samples": point.num_samples, "problems": results}


def _flat(name: str, point: EvalPoint | None) -> dict[str, Any]:
    below = {f"{DOWNSTREAM}{name}/{key}": None if point is None else getattr(point, key) for key in _BELOW}
    return {f"{DOWNSTREAM}{name}": None if point is None else point.pass_rate, **below}
