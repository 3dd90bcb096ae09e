"""What a generator reports, on its way to another process."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from scalerl.compute import Usage
from scalerl.pipeline.launch import worker
from scalerl.pipeline.launch.worker import Loop, Progress, Stop
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


class Both:
    """A `Writer`, and the `Link` to it: it is told to stop after five steps. `pending`: requests that are left after
    each of them, of seven; without it none is ever complete."""

    version = 0

    def __init__(self, pending: tuple[int, ...] = (7, 7, 7, 7, 7)) -> None:
        self.said: list[Any] = []
        self._pending = (7, *pending)
        self._steps = 0

    @property
    def num_pending(self) -> int:
        return self._pending[self._steps]

    def submit(self, request: GroupRequest) -> None: ...

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None: ...

    def receive_weights(self, end: Any) -> int:
        raise AssertionError(end)

    def advance(self) -> Any:
        before = self.num_pending
        self._steps += 1
        groups = tuple(map(group, range(self.num_pending, before)))
        return SimpleNamespace(groups=groups, usage=Usage(0.1, 1.0, 1), exam=Usage(0.05, 0.5, 0))

    def poll(self) -> bool:
        return self._steps == 5

    def recv(self) -> Stop:
        return Stop()

    def send(self, obj: Any, /) -> None:
        self.said.append(obj)


@pytest.mark.parametrize(("after_s", "said"), [(-1.0, [0, 1, 2, 3, 4, 5]), (3600.0, [0])])
def test_work_that_completes_nothing_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch, after_s: float, said: list[int]
) -> None:
    """What is lost with a generator that dies is not more than since the last time."""
    monkeypatch.setattr(worker, "_SIGN_S", after_s)
    both = Both()
    Loop(both, both, lambda _: pytest.fail("no weights here")).run()
    assert [one.usage.tokens for one in both.said] == said


@pytest.mark.parametrize(
    ("gather_s", "pending", "said"),
    [
        (0.0, (6, 5, 5, 3, 2), [0, 1, 1, 2, 1]),
        (3600.0, (6, 5, 5, 3, 2), [0]),  # the rest is lost with the stop
        (3600.0, (6, 5, 5, 3, 0), [0, 7]),  # nothing is left to write: somebody may wait for them
    ],
)
def test_groups_wait_for_others_where_messages_are_dear(
    gather_s: float, pending: tuple[int, ...], said: list[int]
) -> None:
    both = Both(pending)
    Loop(both, both, lambda _: pytest.fail("no weights here"), gather_s).run()
    assert [len(one.groups) for one in both.said] == said


def test_groups_wait_no_longer_than_they_are_to(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr("scalerl.pipeline.launch.worker.time.monotonic", lambda: 1e-3 * next(seconds))
    both = Both((6, 5, 4, 3, 2))
    Loop(both, both, lambda _: pytest.fail("no weights here"), gather_s=0.007).run()
    assert [len(one.groups) for one in both.said][:2] == [0, 3]
