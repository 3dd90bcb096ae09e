"""The actor that writes rollouts: the loop of `worker`, with orders that come as calls and progress that is asked for.

Started by `fleet`. Ray runs calls in several threads and not always in order, so requests wait here for the weights
that they must be written with: the bound on the age holds whatever overtakes what. It ends with its owner, the
trainer's actor. Does not import Ray.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from scalerl.pipeline.launch.worker import (
    Failed,
    LoadWeights,
    Loop,
    Order,
    Progress,
    ReceiveWeights,
    Stop,
    Submit,
    Writer,
)
from scalerl.pipeline.types import GroupRequest
from scalerl.pipeline.weights import Parcel
from scalerl.pipeline.wire import End

_GATHER_S = 0.04
"""With a small policy a group is written in milliseconds: few larger messages in the place of one for each. Where the
generator has nothing left to write, somebody may wait for them, and they go at once."""
CALLS = 6
"""At once: one that waits for progress, and orders."""


@dataclass(frozen=True)
class News:
    """What `GeneratorActor.news` says."""

    progress: tuple[Progress, ...] = ()
    """In order; the last one holds the sums so far. None yet: it is still starting."""
    failed: Failed | None = None
    """It has ended."""


class GeneratorActor:
    """One generator. `build` makes it, in the thread that it works in."""

    def __init__(self, build: Callable[[], Writer], version: int, threads: int) -> None:
        self._orders = _Orders(version)
        self._loop: Loop | None = None
        self._failed: Failed | None = None
        self._thread = threading.Thread(target=self._live, args=(build, threads), name="generator", daemon=True)
        self._thread.start()

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        """Write these, with weights of at least this version."""
        self._orders.submit(requests, version)

    def load(self, parcel: Parcel) -> None:
        self._orders.load(parcel)

    def receive(self, end: End) -> None:
        """Newer weights, if there are any, over a wire."""
        self._orders.receive(end)

    def news(self, wait_s: float) -> News:
        """What is complete, waiting a moment for it; without that, what was done so far."""
        done = self._orders.sent(wait_s)
        if self._loop is not None and not done:
            done = (self._loop.progress(),)
        return News(done, self._failed)

    def stop(self) -> None:
        """The end; what is under way is lost."""
        self._orders.stop()
        self._thread.join()

    def _live(self, build: Callable[[], Writer], threads: int) -> None:
        torch.set_num_threads(threads)
        try:
            self._loop = Loop(self._orders, build())
            self._orders.wake()
            self._loop.run()
        except Exception as error:  # noqa: BLE001  # the boundary of the actor: everything is reported
            self._failed = Failed.of(error)
            self._orders.wake()


@dataclass
class _Orders:
    """A `Link` between the threads of the actor: orders in, progress out."""

    version: int
    """Of the newest weights that have come."""
    _inbox: queue.SimpleQueue[Order] = field(default_factory=queue.SimpleQueue)
    _outbox: queue.SimpleQueue[Progress | None] = field(default_factory=queue.SimpleQueue)
    _early: list[tuple[int, Submit]] = field(default_factory=list)
    """Requests that have overtaken their weights."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: threading.Event = field(default_factory=threading.Event)
    """Nothing is being written."""

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        with self._lock:
            if version > self.version:
                self._early.append((version, Submit(requests)))
            else:
                self._inbox.put(Submit(requests))

    def load(self, parcel: Parcel) -> None:
        with self._lock:
            if parcel.version <= self.version:
                return  # newer ones have overtaken them
            self._inbox.put(LoadWeights(parcel.tensors(), parcel.version))
            self._have_come(parcel.version)

    def receive(self, end: End) -> None:
        self._inbox.put(ReceiveWeights(end, self._received))

    def _received(self, version: int) -> None:
        """Only the wire says which version it was: a question may have been answered with newer ones."""
        with self._lock:
            self._have_come(version)

    def _have_come(self, version: int) -> None:
        """Requests that waited for weights come right behind them."""
        self.version = max(self.version, version)
        for order in [order for needed, order in self._early if needed <= self.version]:
            self._inbox.put(order)
        self._early = [(needed, order) for needed, order in self._early if needed > self.version]

    def stop(self) -> None:
        self._inbox.put(Stop())

    def sent(self, wait_s: float) -> tuple[Progress, ...]:
        """All progress that was reported, waiting for the first, and a little for those that come right after it."""
        found = []
        try:
            item = self._outbox.get(timeout=wait_s)
            if item is not None:
                self._idle.wait(_GATHER_S)
            while True:
                if item is not None:
                    found.append(item)
                item = self._outbox.get_nowait()
        except queue.Empty:
            return tuple(found)

    def wake(self) -> None:
        """Whoever waits in `sent`."""
        self._outbox.put(None)

    # what the loop calls

    def poll(self) -> bool:
        return not self._inbox.empty()

    def recv(self) -> Order:
        if self._inbox.empty():  # it would not ask if it had anything to write
            self._idle.set()
        order = self._inbox.get()
        self._idle.clear()
        return order

    def send(self, obj: Progress) -> None:
        self._outbox.put(obj)
