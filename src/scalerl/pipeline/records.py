"""Steps and evaluations as the JSON lines of a run directory, and back.

Written by the session; read again when a run goes on. The keys are those that `scalerl.readers` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from transformers import PreTrainedTokenizerBase

from scalerl.compute import Ledger
from scalerl.errors import InputError
from scalerl.pipeline.types import EvalPoint, Group, Point, StepRecord, Unjudged
from scalerl.runs.layout import EVALS
from scalerl.runs.points import check_line
from scalerl.runs.scores import DOWNSTREAM, PART

_SHARED = {"step", "ledger", "per_problem", "downstream", "parts"}
"""What the point of a set or part has in common with its held-out one, or has elsewhere."""
_BELOW = [item.name for item in fields(EvalPoint) if item.name not in _SHARED | {"pass_rate"}]


def step_line(record: StepRecord) -> dict[str, Any]:
    head = {"step": record.step, "wall_s": record.wall_s}
    return {**head, **record.values, "ledger": record.ledger.to_dict()}


def rollout_lines(groups: Sequence[Group], tokenizer: PreTrainedTokenizerBase) -> Iterator[dict[str, Any]]:
    """Everything about a batch that somebody who looks for the reason of a failed step would ask for."""
    for group in groups:
        request = group.request
        for place, (rollout, verdict) in enumerate(zip(group.rollouts, group.verdicts, strict=True)):
            yield {
                "group": request.index, "problem": request.problem_id, "rollout": place,
                "prompt": tokenizer.decode(list(request.prompt_ids)), "response": tokenizer.decode(rollout.tokens),
                "correct": verdict.correct, "judged": verdict.judged, "truncated": rollout.truncated,
                "interrupted": rollout.interrupted, "tokens": rollout.tokens.tolist(),
                "logprobs": rollout.logprobs.tolist(), "versions": rollout.versions.tolist(),
            }  # fmt: skip


def point_line(point: Point, wall_s: float) -> dict[str, Any]:
    """Without the results of single problems: those have a file of their own. Parts and downstream sets follow, null
    where there is nothing: flat, so that every reader of logs finds them."""
    own = ("step", "pass_rate", *_BELOW)
    head = {name: getattr(point, name) for name in own} | {"ledger": point.ledger.to_dict(), "wall_s": wall_s}
    others: dict[str, Point | None] = {PART + name: found for name, found in point.parts.items()}
    others |= {DOWNSTREAM + name: found for name, found in point.downstream.items()}
    return head | {key: value for name, found in others.items() for key, value in _flat(name, found).items()}


def point_from_line(line: Mapping[str, Any]) -> Point:
    """Results of single problems are left in their file. `InputError` for a line that no evaluation has written."""
    check_line(dict(line), EVALS)
    try:
        return _point(line)
    except KeyError as error:
        where, allowed = f"{EVALS}, step {line['step']}", "what a run has written"
        raise InputError(f"no {error} in this line", allowed=allowed, where=where) from None


def _point(line: Mapping[str, Any]) -> Point:
    shared = {"step": line["step"], "ledger": Ledger.from_dict(line["ledger"]), "per_problem": {}}
    values = {name: line[name] for name in ("pass_rate", *_BELOW)}
    return _made(values, shared, downstream=_points(line, DOWNSTREAM, shared), parts=_parts(line, shared))


def _made(values: Mapping[str, Any], shared: Mapping[str, Any], **others: Any) -> Point:
    """Without a value it is a point of which no answer was judged, or damage."""
    if values["pass_rate"] is not None:
        return EvalPoint(**values, **shared, **others)
    if values["num_judged"] != 0:
        raise KeyError("pass_rate")
    return Unjudged(**values, **shared, **others)


def problem_lines(point: Point) -> dict[str, Any]:
    """The file of an evaluation: which problems were solved how often."""
    sets = {name: _results(found) for name, found in point.downstream.items() if found is not None}
    return {"step": point.step, **_results(point), **({"downstream": sets} if sets else {})}


def _results(point: Point) -> dict[str, Any]:
    results = {name: {"correct": correct, "judged": judged} for name, (correct, judged) in point.per_problem.items()}
    return {"num_samples": point.num_samples, "problems": results}


def _flat(name: str, point: Point | None) -> dict[str, Any]:
    below = {f"{name}/{key}": None if point is None else getattr(point, key) for key in _BELOW}
    return {name: None if point is None else point.pass_rate, **below}


def _parts(line: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, EvalPoint | None]:
    found = _points(line, PART, shared)
    return {name: point if isinstance(point, EvalPoint) else None for name, point in found.items()}


def _points(line: Mapping[str, Any], prefix: str, shared: Mapping[str, Any]) -> dict[str, Point | None]:
    """What `_flat` wrote, by name without the prefix."""
    names = [key for key in line if key.startswith(prefix) and key.count("/") == 1]
    found: dict[str, Point | None] = {}
    for name in names:
        values = {"pass_rate": line[name], **{key: line[f"{name}/{key}"] for key in _BELOW}}
        missing = values["pass_rate"] is None and values["num_judged"] is None
        found[name.removeprefix(prefix)] = None if missing else _made(values, shared)
    return found
