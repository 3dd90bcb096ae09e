"""The generator's process, seen from the trainer: start it, talk to it, notice its death, end it.

The `Generators` of `local`; on a cluster each actor has one. A thread empties the pipe at all times, so the generator
never waits for a trainer that is busy with a step; what it read is handled by the caller's thread alone. Knows nothing
about slots or batches.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

from torch import Tensor

from scalerl.errors import ScaleRLError
from scalerl.pipeline.launch.worker import (
    Build,
    Failed,
    Progress,
    Ready,
    Received,
    ReceiveWeights,
    Stop,
    Submit,
    UseWeights,
    serve,
)
from scalerl.pipeline.nameless import Memory, PipeLock
from scalerl.pipeline.types import GroupRequest
from scalerl.pipeline.weights import SharedWeights
from scalerl.pipeline.wire import End

_END_S = 5.0
"""How long a process may take to end before it is killed."""

_Inbox = queue.SimpleQueue[Progress | Received | Failed | None]
"""None: the pipe has ended."""


class GeneratorDiedError(ScaleRLError, RuntimeError):
    """The generator's process ended without being told to. The last checkpoint is valid."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return f"the generator process {self.how}; the run can be resumed from its last checkpoint"


class GeneratorLostError(GeneratorDiedError):
    """It was killed, or crashed, without a word."""


class RemoteTraceback(Exception):  # noqa: N818  # a text that stands in front of another error, never raised alone
    """Where an error happened in the other process."""

    def __str__(self) -> str:
        return f"in the generator process:\n{self.args[0]}"


class GeneratorProcess:
    """A child process that runs `worker.serve`. `build` makes its generator there: it must be picklable.

    `has_children`: the generator starts processes of its own, which Python allows to processes that are no daemons.
    `gather_s`: how long a complete group may wait for others (`worker.Loop`).
    `received` is told the version that came over a wire, in the thread that calls `receive`.
    """

    def __init__(
        self,
        build: Build,
        threads: int,
        *,
        has_children: bool = False,
        gather_s: float = 0.0,
        received: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._received = received
        context = get_context("spawn")
        self._lock, self._memory = PipeLock(context), Memory()
        self._weights: SharedWeights | None = None
        self._link, there = context.Pipe()
        self._process = context.Process(
            target=serve, args=(there, self._lock, self._memory, threads, build, gather_s),
            name="scalerl-generator", daemon=not has_children,
        )  # fmt: skip
        with without_interrupts():
            self._process.start()
        there.close()  # or the end of the child would not end the pipe
        self._inbox: _Inbox = queue.SimpleQueue()
        self._ready = threading.Event()
        self._listener = threading.Thread(target=_collect, args=(self._link, self._inbox, self._ready), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.is_alive()

    def wait_until_started(self) -> None:
        """Until the process has read its policy, or ended without: the folder may go."""
        self._ready.wait()

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        """Weights are looked for after requests were taken, so these meet no older ones than those that are out now."""
        del version
        self._send(Submit(requests))

    def share(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Publish weights; the process looks for new ones before every token."""
        if self._weights is not None:
            self._weights.publish(weights, version)
            return
        self._weights = SharedWeights.create(weights, self._lock, self.alive, self._memory.reserve)
        self._weights.publish(weights, version)
        self._send(UseWeights(self._weights.handle))

    def ask(self, end: End) -> None:
        """Have newer weights fetched over a wire, if there are any."""
        self._send(ReceiveWeights(end))

    def _send(self, message: Submit | UseWeights | ReceiveWeights) -> None:
        try:
            self._link.send(message)
        except ConnectionError:
            while True:  # the reason comes after whatever it sent before
                self.receive()

    def receive(self, *, wait: bool = True, most_s: float | None = None) -> Progress | None:
        """The next message; None: there is none now, or for `most_s`. Errors of the process are raised here, its death
        is one."""
        try:
            while isinstance(message := self._inbox.get(block=wait, timeout=most_s), Received):
                self._received(message.version)
        except queue.Empty:
            return None
        if isinstance(message, Progress):
            return message
        self._inbox.put(message)  # everybody who asks again gets the same answer
        raise self._death() if message is None else failure(message)

    def close(self) -> None:
        """End the process; it is gone when this returns. Its work is lost: a checkpoint holds the requests."""
        if not self._link.closed:
            with suppress(ConnectionError):
                self._link.send(Stop())
            self._process.join(_END_S)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._listener.join()
            self._link.close()
        if self._weights is not None:
            self._weights.close()
        self._memory.close()

    def _death(self) -> ScaleRLError:
        self._process.join(_END_S)
        return GeneratorLostError(how_it_ended(self._process.exitcode))


def _collect(link: Connection, inbox: _Inbox, ready: threading.Event) -> None:
    try:
        while True:
            message = link.recv()
            if isinstance(message, Ready):
                ready.set()
            else:
                inbox.put(message)
    except (EOFError, OSError):
        pass
    finally:  # also after a message that cannot be read: whoever waits must not wait for ever
        inbox.put(None)
        ready.set()


def failure(failed: Failed) -> ScaleRLError:
    """The last words of a generator as an error on this side."""
    error = failed.error or GeneratorDiedError(f"failed ({failed.summary})")
    error.__cause__ = RemoteTraceback(failed.traceback)
    return error


def how_it_ended(code: int | None) -> str:
    """The exit code of a process in words."""
    if code is None:
        return "closed its pipe and hangs"
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    return f"was killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


@contextmanager
def without_interrupts() -> Iterator[None]:
    """A child that is started here inherits that Ctrl-C does not reach it, from its first moment on."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
