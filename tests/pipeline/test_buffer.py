"""The buffer: a state machine tries histories against a plain model, then single cases, threads and snapshots."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scalerl.config.recipe import Asynchrony, Pipeline, PpoOffPolicy, Sync
from scalerl.errors import InputError
from scalerl.pipeline.buffer import Buffer, ClosedError, OrderError, StalenessError
from scalerl.pipeline.schedule import Schedule, schedule_of
from scalerl.pipeline.types import Group, GroupRequest, Rollout, Snapshot
from scalerl.tasks import Verdict

ASYNCHRONIES: list[Asynchrony] = [
    Sync(kind="sync"),
    *(Pipeline(kind="pipeline", k=k) for k in range(4)),
    *(PpoOffPolicy(kind="ppo_off_policy", k=k) for k in (1, 2, 4)),
]
WAIT_S = 10.0
"""Far more than any of the waits takes: reached only when something hangs."""


def make_request(index: int) -> GroupRequest:
    return GroupRequest(index, "train", 3 * index, f"problem-{index}", (1, 2, 3), (index, index + 1), (None, 5))


def make_group(request: GroupRequest, versions: Sequence[int]) -> Group:
    """Two rollouts that share the versions of their tokens out."""
    half = len(versions) // 2
    rollouts = tuple(make_rollout(request.index, part) for part in (versions[:half], versions[half:]))
    return Group(request, rollouts, (Verdict("correct"), Verdict("timeout", "after 3 s")))


def make_rollout(index: int, versions: Sequence[int]) -> Rollout:
    length = len(versions)
    return Rollout(
        tokens=np.arange(index, index + length),
        logprobs=-np.arange(1, length + 1, dtype=np.float32) / np.float32(3 + index),
        versions=np.array(versions, dtype=np.int32),
        own=np.arange(length) % 3 != 1,
        truncated=index % 2 == 0,
        interrupted=index % 3 == 0,
    )


def admit(buffer: Buffer, num: int) -> None:
    for _ in range(num):
        buffer.admit(make_request(buffer.next_index))


def finish(buffer: Buffer, indices: Sequence[int], version: int = 0) -> None:
    for index in indices:
        buffer.put(make_group(make_request(index), [version]))


def indices_of(batch: Sequence[Group] | None) -> list[int] | None:
    return None if batch is None else [group.request.index for group in batch]


class Histories(RuleBasedStateMachine):
    """A generator and a trainer that do what they may in any order; the model is a few plain lists.

    The generator may be slow to fetch weights. Its one promise is the launchers' promise: it works on a request with
    weights that are at least as new as those released when the request was admitted.
    """

    @initialize(asynchrony=st.sampled_from(ASYNCHRONIES), prompts=st.integers(1, 3))
    def start(self, asynchrony: Asynchrony, prompts: int) -> None:
        self.schedule, self.prompts = schedule_of(asynchrony), prompts
        self.buffer = Buffer(self.schedule, prompts)
        self.version = 0
        self.generator_version = 0
        self.ended = False
        self.floor: list[int] = []  # for each admission, the oldest weights it may meet
        self.written: dict[int, list[int]] = {}  # in flight: the version of each token
        self.done: dict[int, Group] = {}
        self.taken: list[int] = []
        self.trained: list[int] = []

    def released(self) -> int:
        return self.version // self.schedule.stride * self.schedule.stride

    def in_flight(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.written)))

    @precondition(lambda self: self.buffer.free_slots)
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, self.buffer.free_slots))):
            index = len(self.floor)
            self.buffer.admit(make_request(index))
            self.floor.append(self.released())
            self.written[index] = []

    @precondition(lambda self: self.written)
    @rule(data=st.data(), num_tokens=st.integers(1, 2))
    def write(self, data: st.DataObject, num_tokens: int) -> None:
        index = self.in_flight(data)
        self.generator_version = max(self.generator_version, self.floor[index])
        self.written[index] += [self.generator_version] * num_tokens

    @rule()
    def fetch(self) -> None:
        self.generator_version = self.released()

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        index = self.in_flight(data)
        self.done[index] = make_group(make_request(index), self.written.pop(index))
        self.buffer.put(self.done[index])

    @precondition(lambda self: self.written)
    @rule()
    def finish_all(self) -> None:
        for index in sorted(self.written, reverse=True):
            self.generator_version = max(self.generator_version, self.floor[index])
            self.done[index] = make_group(make_request(index), [*self.written.pop(index), self.generator_version])
            self.buffer.put(self.done[index])

    @precondition(lambda self: not self.taken and not self.ended)
    @rule(data=st.data())
    def whole_step(self, data: st.DataObject) -> None:
        """Histories get far only if some of their moves are large."""
        if self.buffer.free_slots:
            self.admit(data)
        self.finish_all()
        self.take()
        if self.taken:
            self.train()

    @precondition(lambda self: not self.taken)
    @rule()
    def take(self) -> None:
        batch = self.buffer.take(timeout=0)
        assert (batch is not None) == self.may_begin()
        if batch is not None:
            first = self.version * self.prompts
            self.taken = list(range(first, first + self.prompts))
            assert indices_of(batch) == self.taken
            assert_same_groups(batch, [self.done[index] for index in self.taken])
            ages = [self.version - int(v) for group in batch for each in group.rollouts for v in each.versions]
            assert all(0 <= age <= self.schedule.max_age for age in ages)

    def may_begin(self) -> bool:
        whole = len(self.floor) // self.prompts
        needed = self.released() + self.schedule.stride
        needed = min(needed, whole) if self.ended else needed
        return needed > self.version and all(i in self.done for i in range(needed * self.prompts))

    @precondition(lambda self: self.taken)
    @rule()
    def train(self) -> None:
        self.version += 1
        self.buffer.trained(self.version)
        self.trained += self.taken
        self.taken = []

    @rule()
    def save_and_restore(self) -> None:
        saved = self.buffer.snapshot()
        self.buffer = Buffer(self.schedule, self.prompts)
        self.buffer.restore(Snapshot(json.loads(json.dumps(saved.values)), saved.tensors))
        self.taken = []  # the step did not happen: its batch comes again

    @precondition(lambda self: self.version > 1)
    @rule()
    def end(self) -> None:
        self.ended = True
        self.buffer.end_of_admissions()

    @invariant()
    def slots(self) -> None:
        free = (self.released() + self.schedule.ahead) * self.prompts - len(self.floor)
        assert self.buffer.free_slots == (0 if self.ended else free)
        assert free >= 0

    @invariant()
    def nothing_lost(self) -> None:
        assert self.trained == list(range(self.version * self.prompts))
        assert [request.index for request in self.buffer.outstanding] == sorted(self.written)
        assert self.buffer.num_waiting == len(self.done) - len(self.trained) - len(self.taken)
        assert self.buffer.next_index == len(self.floor)

    @invariant()
    def never_stuck(self) -> None:
        """With nothing in flight there is always something to do: admit, begin a step, finish it, or stop."""
        if not self.written:
            assert self.buffer.free_slots or self.taken or self.may_begin() or self.buffer.exhausted


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=80, stateful_step_count=40)


def assert_same_groups(got: Sequence[Group], wanted: Sequence[Group]) -> None:
    """Equal to the last bit and of the same types."""
    for group, other in zip(got, wanted, strict=True):
        assert (group.request, group.verdicts) == (other.request, other.verdicts)
        for rollout, twin in zip(group.rollouts, other.rollouts, strict=True):
            assert (rollout.truncated, rollout.interrupted) == (twin.truncated, twin.interrupted)
            for name in ("tokens", "logprobs", "versions", "own"):
                array, reference = getattr(rollout, name), getattr(twin, name)
                assert (array.dtype, array.tobytes()) == (reference.dtype, reference.tobytes())


@pytest.mark.parametrize("asynchrony", ASYNCHRONIES, ids=str)
def test_the_bound_is_attained(asynchrony: Asynchrony) -> None:
    """Everything that may be admitted at once is written at version 0; the last of it is as old as the bound says."""
    schedule = schedule_of(asynchrony)
    buffer = Buffer(schedule, prompts=1)
    admit(buffer, buffer.free_slots)
    finish(buffer, range(buffer.next_index))
    ages = []
    for version in range(schedule.ahead):
        batch = buffer.take(timeout=0)
        assert batch is not None
        ages.append(version - int(batch[0].rollouts[1].versions[0]))
        buffer.trained(version + 1)
    assert ages == list(range(schedule.ahead))
    assert ages[-1] == schedule.max_age


@pytest.mark.parametrize(
    ("asynchrony", "max_age", "slots"),
    [
        (Sync(kind="sync"), 0, [2, 2, 2, 2]),
        (Pipeline(kind="pipeline", k=0), 0, [2, 2, 2, 2]),
        (Pipeline(kind="pipeline", k=2), 2, [6, 2, 2, 2]),
        (PpoOffPolicy(kind="ppo_off_policy", k=3), 2, [6, 0, 0, 6]),
    ],
    ids=str,
)
def test_slots_become_free(asynchrony: Asynchrony, max_age: int, slots: list[int]) -> None:
    """Free slots at versions 0 to 3 with two prompts a batch, everything admitted and finished as soon as it can be."""
    schedule = schedule_of(asynchrony)
    buffer = Buffer(schedule, prompts=2)
    seen = []
    for version in range(4):
        seen.append(buffer.free_slots)
        first = buffer.next_index
        admit(buffer, buffer.free_slots)
        finish(buffer, range(first, buffer.next_index), schedule.released(version))
        assert buffer.take(timeout=0) is not None
        buffer.trained(version + 1)
    assert (schedule.max_age, seen) == (max_age, slots)


def test_a_straggler_is_waited_for() -> None:
    """Groups 1 to 5 are complete before group 0: no batch may go ahead of it."""
    buffer = Buffer(Schedule(ahead=3, stride=1), prompts=2)
    admit(buffer, 6)
    finish(buffer, [5, 4, 3, 2, 1])
    assert buffer.take(timeout=0) is None
    assert buffer.free_slots == 0
    finish(buffer, [0])
    assert indices_of(buffer.take(timeout=0)) == [0, 1]


def test_off_policy_waits_for_every_batch_of_its_round() -> None:
    buffer = Buffer(Schedule(ahead=2, stride=2), prompts=1)
    admit(buffer, 2)
    finish(buffer, [0])
    assert buffer.take(timeout=0) is None
    finish(buffer, [1])
    assert indices_of(buffer.take(timeout=0)) == [0]


@pytest.mark.parametrize("version", [0, 4], ids=["too old", "from the future"])
def test_an_impossible_age_is_an_error(version: int) -> None:
    buffer = Buffer(Schedule(ahead=2, stride=1), prompts=1)
    for step in range(3):
        admit(buffer, buffer.free_slots)
        finish(buffer, [step], step)
        if step < 2:
            buffer.take(timeout=0)
            buffer.trained(step + 1)
    admit(buffer, buffer.free_slots)
    buffer.take(timeout=0)
    buffer.trained(3)
    buffer.put(make_group(make_request(3), [3, 3, 3, version]))
    with pytest.raises(StalenessError, match=r"group 3: got -?\d; allowed: 0 to 1"):
        buffer.take(timeout=0)


def test_a_rollout_without_tokens_has_no_age() -> None:
    buffer = Buffer(Schedule(ahead=1, stride=1), prompts=1)
    admit(buffer, 1)
    buffer.put(make_group(make_request(0), []))
    assert indices_of(buffer.take(timeout=0)) == [0]


def test_the_last_batch_is_trained_only_if_it_is_full() -> None:
    buffer = Buffer(Schedule(ahead=4, stride=4), prompts=2)
    admit(buffer, 5)
    buffer.end_of_admissions()
    assert not buffer.wait_for_slot(timeout=WAIT_S)
    finish(buffer, [0, 1, 2])
    assert (buffer.take(timeout=0), buffer.exhausted) == (None, False)
    finish(buffer, [3, 4])
    for version, batch in enumerate([[0, 1], [2, 3]]):
        assert indices_of(buffer.take(timeout=0)) == batch
        buffer.trained(version + 1)
    assert (buffer.take(), buffer.exhausted) == (None, True)


def test_out_of_order_calls_are_errors() -> None:
    buffer = Buffer(Schedule(ahead=1, stride=1), prompts=2)
    with pytest.raises(OrderError, match="index of an admission: got 1; allowed: 0"):
        buffer.admit(make_request(1))
    admit(buffer, 2)
    with pytest.raises(OrderError, match="no free slot at version 0 with 2 groups admitted"):
        admit(buffer, 1)
    finish(buffer, [0])
    with pytest.raises(OrderError, match="group 0 is complete already"):
        finish(buffer, [0])
    with pytest.raises(OrderError, match="group 2 was never admitted"):
        finish(buffer, [2])
    with pytest.raises(OrderError, match="batch taken: False"):
        buffer.trained(1)
    finish(buffer, [1])
    buffer.take(timeout=0)
    with pytest.raises(OrderError, match="taken and not yet trained"):
        buffer.take(timeout=0)
    with pytest.raises(OrderError, match="version 2 after version 0"):
        buffer.trained(2)
    buffer.trained(1)
    with pytest.raises(OrderError, match="group 1 is complete already"):
        finish(buffer, [1])


def test_a_snapshot_of_another_run_is_refused() -> None:
    saved = Buffer(Schedule(ahead=3, stride=1), prompts=2).snapshot()
    with pytest.raises(InputError, match="saved buffer of another run: its ahead: got 3; allowed: 2"):
        Buffer(Schedule(ahead=2, stride=1), prompts=2).restore(saved)


def in_threads(num: int, work: Callable[[], object]) -> tuple[list[threading.Thread], list[object]]:
    """Run `work` in threads; the list fills with what they return or raise."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except ClosedError as error:
            results.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(num)]
    for thread in threads:
        thread.start()
    return threads, results


def join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_close_wakes_every_waiter() -> None:
    buffer = Buffer(Schedule(ahead=1, stride=1), prompts=1)
    admit(buffer, 1)
    takers, taken = in_threads(3, buffer.take)
    admitters, admitted = in_threads(3, buffer.wait_for_slot)
    buffer.close()
    join([*takers, *admitters])
    assert len(taken) == len(admitted) == 3
    assert all(isinstance(result, ClosedError) for result in [*taken, *admitted])
    for call in (buffer.take, buffer.wait_for_slot, lambda: admit(buffer, 1), lambda: finish(buffer, [0])):
        with pytest.raises(ClosedError, match="the buffer is closed"):
            call()
    assert buffer.snapshot().values["admitted"] == 1


def test_a_group_wakes_the_trainer_and_a_step_wakes_the_source() -> None:
    buffer = Buffer(Schedule(ahead=1, stride=1), prompts=1)
    admit(buffer, 1)
    takers, taken = in_threads(1, lambda: indices_of(buffer.take()))
    finish(buffer, [0])
    join(takers)
    assert taken == [[0]]
    admitters, admitted = in_threads(2, buffer.wait_for_slot)
    buffer.trained(1)
    join(admitters)
    assert admitted == [True, True]


def test_the_end_of_admissions_wakes_the_trainer() -> None:
    buffer = Buffer(Schedule(ahead=1, stride=1), prompts=2)
    admit(buffer, 1)
    takers, taken = in_threads(1, buffer.take)
    buffer.end_of_admissions()
    join(takers)
    assert taken == [None]


def test_threads_lose_nothing() -> None:
    """A source, three generators that finish in any order, and a trainer, all at once."""
    buffer = Buffer(Schedule(ahead=4, stride=1), prompts=5)
    lock = threading.Lock()
    steps = 40

    def generate() -> None:
        while True:
            with lock:
                if not buffer.wait_for_slot(timeout=WAIT_S):
                    return
                request = make_request(buffer.next_index)
                buffer.admit(request)
            buffer.put(make_group(request, [request.index // 5 - 3 if request.index >= 15 else 0]))

    threads, results = in_threads(3, generate)
    seen: list[int] = []
    for version in range(steps):
        batch = indices_of(buffer.take(timeout=WAIT_S))
        assert batch is not None
        seen += batch
        buffer.trained(version + 1)
    buffer.close()
    join(threads)
    assert seen == list(range(5 * steps))
    assert all(isinstance(result, ClosedError) for result in results)
