"""The generator's process, seen from inside: take requests, fetch weights, write one token for every row, send groups.

Started by `process`. The order of the loop carries the bound on the age: weights are looked for after requests were
taken, so a request never meets weights older than those that were out when it was admitted (docs/staleness.md).

The process ends when it is told to (`Stop`), and by itself when the trainer's process is gone: its pipe ends then.
Ctrl-C and SIGTERM are the trainer's business, also when they are sent to the whole group of processes.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from scalerl.compute import Usage
from scalerl.errors import ScaleRLError
from scalerl.pipeline.launch.memory import peak_memory_bytes
from scalerl.pipeline.types import Group, GroupRequest
from scalerl.pipeline.weights import Handle, PeerLostError, SharedWeights

if TYPE_CHECKING:  # it imports transformers, which this file does not need
    from scalerl.pipeline.generator import GeneratorStep


class Writer(Protocol):
    """What this process needs of a `Generator`."""

    @property
    def version(self) -> int: ...

    @property
    def num_pending(self) -> int: ...

    def submit(self, request: GroupRequest) -> None: ...

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None: ...

    def advance(self) -> GeneratorStep: ...


Build = Callable[[], Writer]


@dataclass(frozen=True)
class Submit:
    """To the generator: requests that were admitted."""

    requests: tuple[GroupRequest, ...]


@dataclass(frozen=True)
class UseWeights:
    """To the generator: where weights are published from now on."""

    handle: Handle


@dataclass(frozen=True)
class Stop:
    """To the generator: the end."""


@dataclass(frozen=True)
class Progress:
    """From the generator: complete groups, and what it has done since it began."""

    groups: tuple[Group, ...]
    usage: Usage
    busy_s: float
    idle_s: float
    """Waiting for requests."""
    memory_bytes: int
    """Peak of the process."""


@dataclass(frozen=True)
class Failed:
    """From the generator: its last words."""

    error: ScaleRLError | None
    """To be raised again on the other side; None: something that was not raised on purpose."""
    summary: str
    traceback: str


def serve(link: Connection, lock: Lock, threads: int, build: Build) -> None:
    """The whole life of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        _Loop(link, lock, build()).run()
    except (EOFError, ConnectionError, PeerLostError):
        return  # the trainer is gone, there is nobody to tell
    except Exception as error:  # noqa: BLE001  # the boundary of the process: everything is reported to the other side
        known = error if isinstance(error, ScaleRLError) else None
        with suppress(ConnectionError):
            link.send(Failed(known, f"{type(error).__name__}: {error}", traceback.format_exc()))


class _Loop:
    def __init__(self, link: Connection, lock: Lock, writer: Writer) -> None:
        self._link = link
        self._lock = lock
        self._writer = writer
        self._weights: SharedWeights | None = None
        self._usage = Usage()
        self._busy_s = self._idle_s = 0.0

    def run(self) -> None:
        while self._receive():
            started = time.monotonic()
            if self._weights is not None:
                self._weights.fetch(self._writer.version, self._writer.load_weights)
            step = self._writer.advance()
            self._usage += step.usage
            self._busy_s += time.monotonic() - started
            if step.groups:
                self._report(step.groups)

    def _receive(self) -> bool:
        """Everything that has been sent; waits while there is nothing to write. False: it is over."""
        while not self._writer.num_pending or self._link.poll():
            started = time.monotonic()
            message: Submit | UseWeights | Stop = self._link.recv()
            self._idle_s += time.monotonic() - started
            if isinstance(message, Stop):
                return False
            if isinstance(message, UseWeights):
                self._weights = SharedWeights.attach(message.handle, self._lock, _parent_alive)
                continue
            for request in message.requests:
                self._writer.submit(request)
        return True

    def _report(self, groups: tuple[Group, ...]) -> None:
        progress = Progress(groups, self._usage, self._busy_s, self._idle_s, peak_memory_bytes())
        started = time.monotonic()
        self._link.send(progress)
        self._busy_s += time.monotonic() - started


def _parent_alive() -> bool:
    parent = parent_process()
    return parent is not None and parent.is_alive()
