"""Requests, rollouts and groups as JSON values and tensors, for checkpoints, and back. Exact both ways; no pickles.

Used by whatever holds some of them when a checkpoint is taken (buffer, generator, launchers), and for groups on their
way from one process to another. All tokens of all rollouts stand one after the other in four arrays; the JSON says how
long each rollout is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scalerl.pipeline.types import Exam, Group, GroupRequest, Rollout, Snapshot
from scalerl.tasks import Verdict

_ARRAYS: Mapping[str, type[np.generic]] = {
    "tokens": np.int64,
    "logprobs": np.float32,
    "versions": np.int32,
    "own": np.bool_,
}
"""The arrays of a `Rollout`, which are all of one length."""

Arrays = Mapping[str, NDArray[Any]]


def request_to_json(request: GroupRequest) -> dict[str, Any]:
    return {
        "index": request.index,
        "split": request.split,
        "problem": request.problem,
        "problem_id": request.problem_id,
        "prompt_ids": list(request.prompt_ids),
        "seeds": list(request.seeds),
        "interruptions": list(request.interruptions),
        "max_response": request.max_response,
        "exam": None if request.exam is None else asdict(request.exam),
    }


def request_from_json(values: Mapping[str, Any]) -> GroupRequest:
    """Older checkpoints know no exams and no room of a request."""
    lists = {key: tuple(values[key]) for key in ("prompt_ids", "seeds", "interruptions")}
    exam = values.get("exam")
    return GroupRequest(**{**values, **lists, "exam": None if exam is None else Exam(**exam)})


def pack_rollouts(rollouts: Sequence[Rollout]) -> Snapshot:
    """Rollouts in their order."""
    return _snapshot(*_flat_rollouts(rollouts))


def unpack_rollouts(snapshot: Snapshot) -> tuple[Rollout, ...]:
    """The rollouts that `pack_rollouts` was given."""
    return _rollouts(snapshot.values, _arrays(snapshot))


def pack_groups(groups: Sequence[Group]) -> Snapshot:
    """Groups in their order; a key `groups` beside those of `pack_rollouts`."""
    return _snapshot(*flat_groups(groups))


def unpack_groups(snapshot: Snapshot) -> tuple[Group, ...]:
    """The groups that `pack_groups` was given."""
    return groups_of(snapshot.values, _arrays(snapshot))


def flat_groups(groups: Sequence[Group]) -> tuple[dict[str, Any], Arrays]:
    """The same as `pack_groups`, without torch."""
    flat, arrays = _flat_rollouts([rollout for group in groups for rollout in group.rollouts])
    values = [
        {
            "request": request_to_json(group.request),
            "num_rollouts": len(group.rollouts),
            "verdicts": [{"status": verdict.status, "detail": verdict.detail} for verdict in group.verdicts],
        }
        for group in groups
    ]
    return {"groups": values, **flat}, arrays


def groups_of(values: Mapping[str, Any], arrays: Arrays) -> tuple[Group, ...]:
    """The groups that `flat_groups` was given."""
    rollouts = iter(_rollouts(values, arrays))
    return tuple(
        Group(
            request=request_from_json(each["request"]),
            rollouts=tuple(next(rollouts) for _ in range(each["num_rollouts"])),
            verdicts=tuple(Verdict(**verdict) for verdict in each["verdicts"]),
        )
        for each in values["groups"]
    )


def _flat_rollouts(rollouts: Sequence[Rollout]) -> tuple[dict[str, Any], Arrays]:
    values = {
        "lengths": [len(rollout) for rollout in rollouts],
        "truncated": [rollout.truncated for rollout in rollouts],
        "interrupted": [rollout.interrupted for rollout in rollouts],
    }
    return values, {name: _joined(rollouts, name) for name in _ARRAYS}


def _rollouts(values: Mapping[str, Any], arrays: Arrays) -> tuple[Rollout, ...]:
    stops = np.cumsum(values["lengths"], dtype=np.int64).tolist()
    starts = [0, *stops][: len(stops)]
    return tuple(
        # Copies: a slice would keep the arrays of a whole checkpoint in memory.
        Rollout(**{name: array[start:stop].copy() for name, array in arrays.items()}, truncated=cut, interrupted=told)
        for start, stop, cut, told in zip(starts, stops, values["truncated"], values["interrupted"], strict=True)
    )


def _snapshot(values: dict[str, Any], arrays: Arrays) -> Snapshot:
    return Snapshot(values, {name: torch.from_numpy(array) for name, array in arrays.items()})


def _arrays(snapshot: Snapshot) -> Arrays:
    return {name: snapshot.tensors[name].numpy() for name in _ARRAYS}


def _joined(rollouts: Sequence[Rollout], name: str) -> NDArray[Any]:
    parts = [np.empty(0, _ARRAYS[name]), *(getattr(rollout, name) for rollout in rollouts)]
    return np.concatenate(parts, dtype=_ARRAYS[name], casting="no")
