"""A feed whose generators are elsewhere, at work at the same time as the trainer: what `local` and `ray` share.

Nothing depends on timing except the ages, which the buffer bounds. A resumed run asks again for everything that was in
flight, with the same seeds and newer weights. All of it runs in the trainer's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Protocol

from torch import Tensor

from scalerl.compute import Usage
from scalerl.pipeline.buffer import Buffer, OrderError
from scalerl.pipeline.evaluate import Watch
from scalerl.pipeline.generator import part
from scalerl.pipeline.launch.feed import FeedReport
from scalerl.pipeline.launch.memory import peak_memory_bytes
from scalerl.pipeline.launch.worker import Progress
from scalerl.pipeline.schedule import Schedule
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Group, GroupRequest, Snapshot


class Generators(Protocol):
    """One or more, in other processes."""

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        """Have these written, with weights of at least this version, which has been shared."""

    def share(self, weights: Mapping[str, Tensor], version: int) -> None:
        """New weights for all of them. The tensors may change after the call."""

    def receive(self, *, wait: bool = True) -> Progress | None:
        """What one of them has done, with the sums of all; None: nothing now. Errors of theirs are raised here."""

    def close(self) -> None:
        """End them; they are gone when it returns."""


class RemoteFeed:
    """A `Feed` in front of them."""

    def __init__(
        self,
        generators: Generators,
        source: Source,
        buffer: Buffer,
        schedule: Schedule,
        before_saving: Callable[[], None] | None = None,
    ) -> None:
        """`before_saving`: waits while a generator still reads the checkpoint that the run goes on from, which newer
        ones replace. A trainer that resumes with enough groups in its buffer is faster than a generator that starts."""
        self._before_saving = before_saving
        self._generators = generators
        self._source = source
        self._buffer = buffer
        self._schedule = schedule
        self._now = self._reported = Progress((), Usage(), busy_s=0.0, idle_s=0.0, memory_bytes=0)
        self._report_s = time.monotonic()
        self._waited_s = 0.0
        self._shared = -1  # the version that was sent to the generators last
        self._answered: list[Group] = []  # of the evaluation under way
        self._owed = Usage()
        """Of the life before a checkpoint: its groups are in the buffer, and had not been booked."""

    def batch(self, version: int) -> tuple[Group, ...] | None:
        assert version == self._buffer.version
        started = time.monotonic()
        self._admit()
        while (groups := self._buffer.take(timeout=0)) is None and not self._buffer.exhausted:
            self._handle(self._generators.receive())
        self._waited_s += time.monotonic() - started
        return groups

    def publish(self, weights: Mapping[str, Tensor], version: int, training_flops: float) -> None:
        """Weights first, then slots: whatever is admitted from now on is written with them."""
        del training_flops  # real time passes here
        if self._schedule.released(version) == version:
            self._share(weights, version)
        self._buffer.trained(version)
        self.attend()
        self._admit()

    def attend(self) -> None:
        while (progress := self._generators.receive(wait=False)) is not None:
            self._handle(progress)

    def exams(
        self, requests: Sequence[GroupRequest], weights: Mapping[str, Tensor], version: int, watch: Watch
    ) -> tuple[list[Group], Usage]:
        """Nothing is trained meanwhile, so no newer weights can come in between. What is under way goes on beside it,
        but in the middle of an off-policy round: then nothing is, and weights may go out that the round does not use.
        """
        before, self._answered = self._now.exam, []
        if self._schedule.released(version) != version and self._shared != version:
            assert not self._buffer.outstanding, "an off-policy round is complete before its first step"
            self._share(weights, version)
        self._generators.submit(tuple(requests), version)
        self._admit()
        while (num_answered := len(self._answered)) < len(requests):
            self._handle(self._generators.receive())
            if len(self._answered) > num_answered:
                watch(len(self._answered), len(requests))
        groups, self._answered = self._answered, []
        _check_version(groups, version)
        return groups, _less(self._now.exam, before)

    def report(self) -> FeedReport:
        now = time.monotonic()
        elapsed_s, self._report_s = now - self._report_s, now
        waited_s, self._waited_s = self._waited_s, 0.0
        usage, idle_s = self._not_booked(), self._now.idle_s - self._reported.idle_s
        self._reported, owed, self._owed = self._now, self._owed, Usage()
        return FeedReport(
            usage=usage + owed,
            generator_idle=idle_s / usage.device_s if usage.device_s > 0 else None,
            trainer_idle=waited_s / elapsed_s if elapsed_s > 0 else None,
            trainer_waited_s=waited_s,
            generator_memory_bytes=self._now.memory_bytes or None,
            trainer_memory_bytes=peak_memory_bytes(),
            generators_lost=self._now.num_lost,
            requests_repeated=self._now.num_repeated,
        )

    def snapshot(self) -> Snapshot:
        if self._before_saving is not None:
            self._before_saving()
        self.attend()
        buffer = self._buffer.snapshot()
        tensors = {f"buffer.{name}": tensor for name, tensor in buffer.tensors.items()}
        owed = asdict(self._not_booked() + self._owed)
        return Snapshot({"buffer": buffer.values, "source": self._source.snapshot(), "owed": owed}, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        self._buffer.restore(part(snapshot, "buffer"))
        self._source.restore(snapshot.values["source"])
        self._owed = Usage(**snapshot.values.get("owed", {}))  # older checkpoints have none
        self._submit(self._buffer.outstanding)

    def close(self) -> None:
        self._buffer.close()
        self._generators.close()

    def _not_booked(self) -> Usage:
        """Since the last report, without exams. A generator is held whether it has work or not."""
        now, last = self._now, self._reported
        held_s = now.idle_s + now.busy_s - last.idle_s - last.busy_s
        used = replace(_less(now.usage, last.usage), device_s=held_s)
        return _less(used, _less(now.exam, last.exam))

    def _admit(self) -> None:
        """Charge every free slot."""
        requests = []
        while self._buffer.free_slots:
            request = self._source.next_request(self._buffer.next_index)
            if request is None:
                self._buffer.end_of_admissions()
                break
            self._buffer.admit(request)
            requests.append(request)
        self._submit(tuple(requests))

    def _submit(self, requests: tuple[GroupRequest, ...]) -> None:
        if requests:
            self._generators.submit(requests, self._schedule.released(self._buffer.version))

    def _handle(self, progress: Progress | None) -> None:
        assert progress is not None
        self._now = progress
        for group in progress.groups:
            if group.request.exam is not None:
                self._answered.append(group)
                continue
            self._source.record(group)
            self._buffer.put(group)

    def _share(self, weights: Mapping[str, Tensor], version: int) -> None:
        self._generators.share(weights, version)
        self._shared = version


def _less(usage: Usage, other: Usage) -> Usage:
    return Usage(usage.device_s - other.device_s, usage.flops - other.flops, usage.tokens - other.tokens)


def _check_version(groups: Sequence[Group], version: int) -> None:
    for group in groups:
        for rollout in group.rollouts:
            if (rollout.versions != version).any():
                found = sorted({int(one) for one in rollout.versions})
                raise OrderError(f"an evaluation of version {version} was answered by {found}")
