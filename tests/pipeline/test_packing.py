"""Requests, rollouts and groups survive JSON and safetensors to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load_file, save_file

from scalerl.pipeline.packing import (
    pack_groups,
    pack_rollouts,
    request_from_json,
    request_to_json,
    unpack_groups,
    unpack_rollouts,
)
from scalerl.pipeline.types import Group, GroupRequest, Rollout, Snapshot
from scalerl.tasks import STATUSES, Verdict

_INTS = st.integers(0, 2**63 - 1)


@st.composite
def _rollouts(draw: st.DrawFn) -> Rollout:
    length = draw(st.integers(0, 5))
    return Rollout(
        tokens=draw(arrays.arrays(np.int64, length)),
        logprobs=draw(arrays.arrays(np.float32, length)),  # NaN and infinities too
        versions=draw(arrays.arrays(np.int32, length)),
        own=draw(arrays.arrays(np.bool_, length)),
        truncated=draw(st.booleans()),
        interrupted=draw(st.booleans()),
    )


@st.composite
def _requests(draw: st.DrawFn, num: int) -> GroupRequest:
    return GroupRequest(
        index=draw(_INTS),
        split=draw(st.sampled_from(["train", "held_out"])),
        problem=draw(_INTS),
        problem_id=draw(st.text()),
        prompt_ids=tuple(draw(st.lists(_INTS))),
        seeds=tuple(draw(_INTS) for _ in range(num)),
        interruptions=tuple(draw(st.none() | _INTS) for _ in range(num)),
    )


@st.composite
def _groups(draw: st.DrawFn) -> Group:
    rollouts = draw(st.lists(_rollouts(), max_size=3))
    verdicts = tuple(Verdict(draw(st.sampled_from(STATUSES)), draw(st.text())) for _ in rollouts)
    return Group(draw(_requests(len(rollouts))), tuple(rollouts), verdicts)


def _through_json(snapshot: Snapshot) -> Snapshot:
    return Snapshot(json.loads(json.dumps(snapshot.values)), snapshot.tensors)


def _plain(rollout: Rollout) -> tuple[object, ...]:
    """Comparable, NaN and dtypes included."""
    parts = (rollout.tokens, rollout.logprobs, rollout.versions, rollout.own)
    return (rollout.truncated, rollout.interrupted, *((part.dtype, part.tobytes()) for part in parts))


@given(_requests(3))
def test_requests_come_back(request_: GroupRequest) -> None:
    assert request_from_json(json.loads(json.dumps(request_to_json(request_)))) == request_


@given(st.lists(_groups(), max_size=4))
def test_groups_come_back(groups: list[Group]) -> None:
    back = unpack_groups(_through_json(pack_groups(groups)))
    assert [(group.request, group.verdicts) for group in back] == [(group.request, group.verdicts) for group in groups]
    assert [[_plain(each) for each in group.rollouts] for group in back] == [
        [_plain(each) for each in group.rollouts] for group in groups
    ]


@given(st.lists(_rollouts(), max_size=4))
def test_rollouts_come_back(rollouts: list[Rollout]) -> None:
    back = unpack_rollouts(_through_json(pack_rollouts(rollouts)))
    assert [_plain(rollout) for rollout in back] == [_plain(rollout) for rollout in rollouts]


@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 2]])
def test_the_tensors_can_be_stored(lengths: list[int], tmp_path: Path) -> None:
    rollouts = [
        Rollout(np.arange(n), np.ones(n, np.float32), np.zeros(n, np.int32), np.ones(n, np.bool_), False, True)
        for n in lengths
    ]
    packed = pack_rollouts(rollouts)
    save_file(dict(packed.tensors), tmp_path / "x.safetensors")
    back = unpack_rollouts(Snapshot(packed.values, load_file(tmp_path / "x.safetensors")))
    assert [_plain(rollout) for rollout in back] == [_plain(rollout) for rollout in rollouts]


def test_an_array_of_another_type_is_not_converted_silently() -> None:
    wrong = Rollout(np.arange(2), np.ones(2), np.zeros(2, np.int32), np.ones(2, np.bool_), False, False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Cannot cast"):
        pack_rollouts([wrong])
