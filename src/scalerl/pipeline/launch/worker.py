"""The generator's process, seen from inside: take requests, fetch weights, write one token for every row, send groups.

Started by `process`, for `local` and for each actor of a cluster. The order of the loop carries the bound on the age:
weights are looked for after requests were taken, so a request never meets weights older than those that were out when
it was admitted (docs/staleness.md).

The process ends when it is told to (`Stop`), and by itself when the trainer's process is gone: its pipe ends then.
Ctrl-C and SIGTERM are the trainer's business, also when they are sent to the whole group of processes.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from scalerl.compute import Usage
from scalerl.errors import ScaleRLError
from scalerl.pipeline.launch.memory import peak_memory_bytes
from scalerl.pipeline.nameless import Memory, PipeLock
from scalerl.pipeline.packing import Arrays, flat_groups, groups_of
from scalerl.pipeline.types import Group, GroupRequest
from scalerl.pipeline.weights import Handle, PeerLostError, SharedWeights
from scalerl.pipeline.wire import End

if TYPE_CHECKING:  # it imports transformers, which this file does not need
    from scalerl.pipeline.generator import GeneratorStep


_SIGN_S = 1.0
"""A generator that completes nothing for so long says what it has done: what is lost with it is at most so much."""


class Writer(Protocol):
    """What this process needs of a `Generator`."""

    @property
    def version(self) -> int: ...

    @property
    def num_pending(self) -> int: ...

    def submit(self, request: GroupRequest) -> None: ...

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None: ...

    def receive_weights(self, end: End) -> int: ...

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
class ReceiveWeights:
    """To the generator: ask for newer weights over this wire, and say which version it has then."""

    end: End


@dataclass(frozen=True)
class Stop:
    """To the generator: the end."""


Order = Submit | UseWeights | ReceiveWeights | Stop


@dataclass(frozen=True)
class Ready:
    """From the generator: it has read its policy, whose folder is not needed any more."""


@dataclass(frozen=True)
class Received:
    """From the generator: the version that it has, after it has asked over a wire."""

    version: int


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
    num_lost: int = 0
    """Generators that have died, where one may."""
    num_repeated: int = 0
    """Requests that others took over from them."""
    exam: Usage = field(default_factory=Usage)
    """Of `usage` and `busy_s`, what exams took."""

    def __reduce__(self) -> tuple[Callable[..., Progress], tuple[Any, ...]]:
        """Four arrays for all groups: a batch has thousands, each of which costs as much to pickle as all tokens."""
        rest = tuple(getattr(self, item.name) for item in fields(self)[1:])
        return _unpickled, (*flat_groups(self.groups), rest)


def _unpickled(values: Mapping[str, Any], arrays: Arrays, rest: tuple[Any, ...]) -> Progress:
    return Progress(groups_of(values, arrays), *rest)


@dataclass(frozen=True)
class Failed:
    """From the generator: its last words."""

    error: ScaleRLError | None
    """To be raised again on the other side; None: something that was not raised on purpose."""
    summary: str
    traceback: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """While it is handled: the traceback is taken here."""
        known = error if isinstance(error, ScaleRLError) else None
        return cls(known, f"{type(error).__name__}: {error}", traceback.format_exc())


class Link(Protocol):
    """What the loop needs of the way to the other side: the end of a pipe, for example."""

    def poll(self) -> bool:
        """Whether an order has come."""

    def recv(self) -> Any:
        """The next `Order`, waiting for it."""

    def send(self, obj: Progress | Received, /) -> None: ...


def serve(link: Connection, lock: PipeLock, memory: Memory, threads: int, build: Build, gather_s: float = 0.0) -> None:
    """The whole life of the process; `gather_s` as of `Loop`."""

    def attach(handle: Handle) -> SharedWeights:
        return SharedWeights.attach(handle, lock, _parent_alive, memory.open())

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        writer = build()
        link.send(Ready())
        Loop(link, writer, attach, gather_s).run()
    except (EOFError, ConnectionError, PeerLostError):
        return  # the trainer is gone, there is nobody to tell
    except Exception as error:  # noqa: BLE001  # the boundary of the process: everything is reported to the other side
        with suppress(ConnectionError):
            link.send(Failed.of(error))


class Loop:
    """`attach` finds weights in shared memory, where that is how they come.

    `gather_s`: how long a complete group may wait for others, where messages are dear. When nothing is left to write
    somebody may wait for it, and it goes at once.
    """

    def __init__(
        self, link: Link, writer: Writer, attach: Callable[[Handle], SharedWeights], gather_s: float = 0.0
    ) -> None:
        self._link = link
        self._writer = writer
        self._attach = attach
        self._gather_s = gather_s
        self._done: list[Group] = []
        self._done_s = 0.0  # when the first of them was complete
        self._weights: SharedWeights | None = None
        self._usage = self._exam = Usage()
        self._busy_s = self._idle_s = 0.0
        self._sent_s = 0.0

    def run(self) -> None:
        self._tell()
        while self._receive():
            started = time.monotonic()
            if self._weights is not None:
                self._weights.fetch(self._writer.version, self._writer.load_weights)
            step = self._writer.advance()
            self._usage += step.usage
            self._exam += step.exam
            self._busy_s += time.monotonic() - started
            if step.groups and not self._done:
                self._done_s = time.monotonic()
            self._done += step.groups
            if self._has_news():
                self._timed(self._tell)

    def _has_news(self) -> bool:
        now = time.monotonic()
        if self._done and (not self._writer.num_pending or now - self._done_s >= self._gather_s):
            return True
        return now - self._sent_s > _SIGN_S

    def _tell(self) -> None:
        groups, self._done = tuple(self._done), []
        memory = peak_memory_bytes()
        self._link.send(Progress(groups, self._usage, self._busy_s, self._idle_s, memory, exam=self._exam))
        self._sent_s = time.monotonic()

    def _receive(self) -> bool:
        """Everything that has been sent; waits while there is nothing to write. False: it is over."""
        while not self._writer.num_pending or self._link.poll():
            started = time.monotonic()
            order: Order = self._link.recv()
            self._idle_s += time.monotonic() - started
            match order:
                case Stop():
                    return False
                case UseWeights(handle):
                    self._weights = self._attach(handle)
                case ReceiveWeights(end):
                    self._timed(partial(self._ask, end))
                case Submit(requests):
                    for request in requests:
                        self._writer.submit(request)
        return True

    def _ask(self, end: End) -> None:
        self._link.send(Received(self._writer.receive_weights(end)))

    def _timed(self, work: Callable[[], None]) -> None:
        started = time.monotonic()
        work()
        self._busy_s += time.monotonic() - started


def _parent_alive() -> bool:
    parent = parent_process()
    return parent is not None and parent.is_alive()
