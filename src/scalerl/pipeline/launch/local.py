"""The local launcher: the generator in a process of its own, the trainer in this one, both busy at the same time.

Requests and groups go through a pipe, weights through shared memory. Nothing depends on timing except the ages, which
the buffer bounds. A resumed run asks again for everything that was in flight, with the same seeds and newer weights.

Opened by `open_feed`; all of it runs in the trainer's thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from scalerl.compute import Usage
from scalerl.config import RunConfig
from scalerl.pipeline.assemble import Ground, ground
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.engines.open import read_outline
from scalerl.pipeline.generator import Generator, part
from scalerl.pipeline.launch.feed import FeedReport
from scalerl.pipeline.launch.memory import peak_memory_bytes
from scalerl.pipeline.launch.process import GeneratorProcess
from scalerl.pipeline.launch.worker import Progress, Submit, UseWeights
from scalerl.pipeline.schedule import Schedule
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Group, GroupRequest, Snapshot
from scalerl.pipeline.weights import SharedWeights
from scalerl.policy.pretrained import read_tokenizer


class LocalFeed:
    """A `Feed` whose generator is another process."""

    def __init__(self, process: GeneratorProcess, source: Source, buffer: Buffer, schedule: Schedule) -> None:
        self._process = process
        self._source = source
        self._buffer = buffer
        self._schedule = schedule
        self._weights: SharedWeights | None = None
        self._now = self._reported = Progress((), Usage(), busy_s=0.0, idle_s=0.0, memory_bytes=0)
        self._report_s = time.monotonic()
        self._waited_s = 0.0

    def batch(self, version: int) -> tuple[Group, ...] | None:
        assert version == self._buffer.version
        started = time.monotonic()
        self._admit()
        while (groups := self._buffer.take(timeout=0)) is None and not self._buffer.exhausted:
            self._handle(self._process.receive())
        self._waited_s += time.monotonic() - started
        return groups

    def publish(self, weights: Mapping[str, Tensor], version: int, training_flops: float) -> None:
        """Weights first, then slots: whatever is admitted from now on is written with them."""
        del training_flops  # real time passes here
        if self._schedule.released(version) == version:
            self._share(weights, version)
        self._buffer.trained(version)
        self._handle_all()
        self._admit()

    def report(self) -> FeedReport:
        now = time.monotonic()
        elapsed_s, self._report_s = now - self._report_s, now
        waited_s, self._waited_s = self._waited_s, 0.0
        last, self._reported = self._reported, self._now
        idle_s = self._now.idle_s - last.idle_s
        lived_s = idle_s + self._now.busy_s - last.busy_s
        return FeedReport(
            usage=Usage(
                device_s=lived_s,  # held, whether it had work or not
                flops=self._now.usage.flops - last.usage.flops,
                tokens=self._now.usage.tokens - last.usage.tokens,
            ),
            generator_idle=idle_s / lived_s if lived_s > 0 else None,
            trainer_idle=waited_s / elapsed_s if elapsed_s > 0 else None,
            trainer_waited_s=waited_s,
            generator_memory_bytes=self._now.memory_bytes or None,
            trainer_memory_bytes=peak_memory_bytes(),
        )

    def snapshot(self) -> Snapshot:
        self._handle_all()
        buffer = self._buffer.snapshot()
        tensors = {f"buffer.{name}": tensor for name, tensor in buffer.tensors.items()}
        return Snapshot({"buffer": buffer.values, "source": self._source.snapshot()}, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        self._buffer.restore(part(snapshot, "buffer"))
        self._source.restore(snapshot.values["source"])
        self._submit(self._buffer.outstanding)

    def close(self) -> None:
        self._buffer.close()
        self._process.close()
        if self._weights is not None:
            self._weights.close()

    def _share(self, weights: Mapping[str, Tensor], version: int) -> None:
        if self._weights is None:
            self._weights = SharedWeights.create(weights, self._process.lock, self._process.alive)
            self._weights.publish(weights, version)
            self._process.send(UseWeights(self._weights.handle))
        else:
            self._weights.publish(weights, version)

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
            self._process.send(Submit(requests))

    def _handle_all(self) -> None:
        while (progress := self._process.receive(wait=False)) is not None:
            self._handle(progress)

    def _handle(self, progress: Progress | None) -> None:
        assert progress is not None
        self._now = progress
        for group in progress.groups:
            self._source.record(group)
            self._buffer.put(group)


def open_local(base: Ground, folder: Path, buffer: Buffer, schedule: Schedule, version: int) -> LocalFeed:
    """Start the generator with the policy in `folder`; it builds everything else from the config, as this side did."""
    source = base.source()  # before there is a process that an error would leave behind
    build = partial(build_generator, base.run, folder, version)
    process = GeneratorProcess(
        build, base.run.scale.launcher.threads, has_children=base.run.scale.generator.engine == "vllm"
    )
    return LocalFeed(process, source, buffer, schedule)


def build_generator(run: RunConfig, folder: Path, version: int) -> Generator:
    """In the generator's process."""
    base = ground(run, read_tokenizer(folder))
    return base.generator(read_outline(run, folder), version, folder)
