"""What a generator reports, on its way to another process."""

from __future__ import annotations

import pickle

import numpy as np

from scalerl.compute import Usage
from scalerl.pipeline.launch.worker import Progress
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.tasks import Verdict

ROLLOUTS = 16


def group(index: int) -> Group:
    rng = np.random.default_rng(index)
    lengths = rng.integers(1, 40, ROLLOUTS).tolist()
    rollouts = tuple(
        Rollout(
            tokens=rng.integers(0, 50, length),
            logprobs=rng.standard_normal(length).astype(np.float32),
            versions=rng.integers(0, 9, length).astype(np.int32),
            own=rng.random(length) < 0.9,
            truncated=bool(rng.random() < 0.5),
            interrupted=bool(rng.random() < 0.5),
        )
        for length in lengths
    )
    request = GroupRequest(index, "train", index, str(index), (1, 2, 3), tuple(range(ROLLOUTS)), (None,) * ROLLOUTS)
    return Group(request, rollouts, tuple(Verdict("correct", "") for _ in rollouts))


def test_groups_travel_in_a_few_pieces_and_arrive_as_they_were() -> None:
    sent = Progress(tuple(map(group, range(3))), Usage(1.0, 2.0, 3), 4.0, 5.0, 6, num_lost=7, num_repeated=8)
    pieces: list[pickle.PickleBuffer] = []
    came: Progress = pickle.loads(
        pickle.dumps(sent, protocol=5, buffer_callback=pieces.append), buffers=[bytes(piece) for piece in pieces]
    )
    assert len(pieces) == 4  # and not one for each array of each rollout
    for here, there in zip(sent.groups, came.groups, strict=True):
        assert there.request == here.request
        assert there.verdicts == here.verdicts
        for one, other in zip(here.rollouts, there.rollouts, strict=True):
            assert (one.truncated, one.interrupted) == (other.truncated, other.interrupted)
            for name in ("tokens", "logprobs", "versions", "own"):
                np.testing.assert_array_equal(getattr(other, name), getattr(one, name), strict=True)
                assert getattr(other, name).flags.writeable  # also where it came in memory that others read
    rest = ("usage", "busy_s", "idle_s", "memory_bytes", "num_lost", "num_repeated")
    assert [getattr(came, name) for name in rest] == [getattr(sent, name) for name in rest]
