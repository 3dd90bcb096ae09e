"""The inline launcher: generator and trainer in one process, interleaved in virtual time.

There are two virtual devices. A decode step and an optimiser step take as long as their FLOPs, those of decoding
counted `decode_slowdown` times, because a decoder waits for memory most of the time. While the trainer's device is busy
with a step, the generator's device goes on decoding with the weights it has; then the new ones are swapped in. So the
same seed gives the same curve, ages included, on any machine under any load. Used by studies, tests and the demo.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from scalerl.compute import Usage
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.generator import Generator, part
from scalerl.pipeline.launch.feed import FeedReport
from scalerl.pipeline.schedule import Schedule
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Group, Snapshot


class InlineFeed:
    """Two devices in virtual time; a clock is in training FLOPs."""

    exams = None
    """Time stands still while something is measured."""

    def __init__(
        self, generator: Generator, source: Source, buffer: Buffer, schedule: Schedule, decode_slowdown: float
    ) -> None:
        self._generator = generator
        self._source = source
        self._buffer = buffer
        self._schedule = schedule
        self._decode_slowdown = decode_slowdown
        self._generator_clock = 0.0
        self._trainer_clock = 0.0
        self._begin_report()

    def batch(self, version: int) -> tuple[Group, ...] | None:
        assert version == self._buffer.version
        while (groups := self._buffer.take(timeout=0)) is None:
            self._admit()
            if self._buffer.exhausted:  # what is under way would never make a whole batch
                return None
            self._advance()
            # The trainer waits while the generator decodes for it.
            self._trainer_idle += self._generator_clock - self._trainer_clock
            self._trainer_clock = self._generator_clock
        return groups

    def publish(self, weights: Mapping[str, Tensor], version: int, training_flops: float) -> None:
        self._trainer_clock += training_flops
        self._decode_until(self._trainer_clock)
        if self._schedule.released(version) == version:
            self._generator.load_weights(weights, version)
        self._buffer.trained(version)

    def attend(self) -> None:
        """Nothing happens while something else is done."""

    def report(self) -> FeedReport:
        elapsed = self._trainer_clock - self._report_clock
        idle = (self._generator_idle, self._trainer_idle)
        shares = [waited / elapsed if elapsed > 0 else None for waited in idle]
        report = FeedReport(self._usage, generator_idle=shares[0], trainer_idle=shares[1])
        self._begin_report()
        return report

    def snapshot(self) -> Snapshot:
        """The generator's weights are not in it: they are the trainer's, or, between the releases of an off-policy
        round, of no use, because the round was complete before its first step."""
        buffer, generator = self._buffer.snapshot(), self._generator.snapshot()
        values = {
            "buffer": buffer.values, "generator": generator.values, "source": self._source.snapshot(),
            "clocks": [self._generator_clock, self._trainer_clock],
        }  # fmt: skip
        tensors = {f"buffer.{name}": tensor for name, tensor in buffer.tensors.items()}
        tensors |= {f"generator.{name}": tensor for name, tensor in generator.tensors.items()}
        return Snapshot(values, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        values = snapshot.values
        self._buffer.restore(part(snapshot, "buffer"))
        self._source.restore(values["source"])
        self._generator.restore(part(snapshot, "generator"))
        self._generator_clock, self._trainer_clock = values["clocks"]
        self._begin_report()

    def close(self) -> None:
        self._buffer.close()

    def _decode_until(self, clock: float) -> None:
        """What the generator does while the trainer is busy."""
        while self._generator_clock < clock:
            self._admit()
            if not self._generator.num_pending:
                self._generator_idle += clock - self._generator_clock
                self._generator_clock = clock
                return
            self._advance()

    def _admit(self) -> None:
        """Charge every free slot."""
        while self._buffer.free_slots:
            request = self._source.next_request(self._buffer.next_index)
            if request is None:
                self._buffer.end_of_admissions()
                return
            self._buffer.admit(request)
            self._generator.submit(request)

    def _advance(self) -> None:
        step = self._generator.advance()
        self._usage += step.usage
        self._generator_clock += step.usage.flops * self._decode_slowdown
        for group in step.groups:
            self._source.record(group)
            self._buffer.put(group)

    def _begin_report(self) -> None:
        self._usage = Usage()
        self._generator_idle = self._trainer_idle = 0.0
        self._report_clock = self._trainer_clock
