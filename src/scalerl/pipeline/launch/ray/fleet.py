"""The generators of a run on a cluster: who writes what, new weights for all of them, and what happens when one dies.

Owned by the feed in the trainer's actor; the trainer's thread submits, shares and receives, a thread of the fleet's own
listens to the actors, so that they are never without work while a step is made. Every request is with one generator at
most. If that one dies, the request goes to another one, with the same seeds: it is complete once, whatever happens. A
new generator takes the place of the dead one as soon as the cluster has room for it.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import Tensor

from scalerl.compute import Usage
from scalerl.errors import ScaleRLError
from scalerl.pipeline.launch.process import failure
from scalerl.pipeline.launch.ray import delivery
from scalerl.pipeline.launch.ray.cluster import Actor, ActorLostError, Ref
from scalerl.pipeline.launch.ray.delivery import Delivery
from scalerl.pipeline.launch.ray.generator import News
from scalerl.pipeline.launch.worker import Failed, Progress
from scalerl.pipeline.types import Group, GroupRequest

_NEWS_S = 1.0
"""An actor that has nothing to tell says so after this time: what is lost with one is at most so much of its books."""
_LISTEN_S = 0.2
_END_S = 5.0
_TRIES = 3
"""Generators that may die one after the other, in one place, before they have begun."""
_ALONE_S = 600.0
"""How long a run waits for the cluster to have room for a generator, when none is left."""
_NOTHING = Progress((), Usage(), busy_s=0.0, idle_s=0.0, memory_bytes=0)


class Calls(delivery.Calls, Protocol):
    """What the fleet needs of a `Cluster`."""

    def wait(self, refs: Sequence[Ref], timeout_s: float) -> list[Ref]: ...
    def get(self, ref: Ref) -> Any: ...
    def kill(self, actor: Actor) -> None: ...


class NoGeneratorError(ScaleRLError, RuntimeError):
    """All generators are gone and none can be had. The last checkpoint is valid."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"no generator is left ({self.why}); the run can be resumed from its last checkpoint"


@dataclass
class _Member:
    """A generator, from the moment it was asked for."""

    place: int
    actor: Actor
    news: Ref
    ready: bool = False
    now: Progress = _NOTHING
    requests: dict[int, tuple[GroupRequest, int]] = field(default_factory=dict)
    """With it now, and the version that each needs."""
    num_rollouts: int = 0
    """Of these."""


class Fleet:
    """`start` asks the cluster for the generator of a place; `most` is how many rollouts one may be asked for at
    a time, but for the last request."""

    def __init__(
        self,
        calls: Calls,
        start: Callable[[int], Actor],
        size: int,
        most: int,
        notice: Callable[[str], None],
        weights: Delivery | None = None,
    ) -> None:
        """`weights`: how they get to the generators; unless given, through the object store."""
        self._calls, self._start, self._most, self._notice = calls, start, most, notice
        self._weights = weights or delivery.StoreDelivery(calls)
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Progress | ScaleRLError] = queue.SimpleQueue()
        self._waiting: list[tuple[int, GroupRequest, int]] = []  # a heap: exams, then the oldest admission first
        self._gone = _NOTHING  # sums of those that have died
        self._tries = dict.fromkeys(range(size), 0)
        self._alone_since: float | None = None
        self._closed = threading.Event()
        self._members = [self._recruit(place) for place in range(size)]
        self._listener = threading.Thread(target=self._listen, name="fleet", daemon=True)
        self._listener.start()

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        with self._lock:
            for request in requests:
                heapq.heappush(self._waiting, (request.index, request, version))
            self._dispatch()

    def share(self, weights: Mapping[str, Tensor], version: int) -> None:
        self._weights.pack(weights, version)  # a generator that begins just now may be sent them twice
        with self._lock:
            for member in self._members:
                self._weights.send(member.actor)

    def receive(self, *, wait: bool = True) -> Progress | None:
        try:
            message = self._inbox.get(block=wait)
        except queue.Empty:
            return None
        if isinstance(message, Progress):
            return message
        self._inbox.put(message)  # everybody who asks again gets the same answer
        raise message

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        self._listener.join()
        stops = [self._calls.call(member.actor, "stop") for member in self._members]  # a killed one would not tidy up
        end_s = time.monotonic() + _END_S
        while stops and (left_s := end_s - time.monotonic()) > 0:
            ended = self._calls.wait(stops, left_s)
            stops = [ref for ref in stops if ref not in ended]
        for member in self._members:
            self._weights.forget(member.actor)
            self._calls.kill(member.actor)

    @property
    def actors(self) -> tuple[Actor, ...]:
        """Of the generators that are at work."""
        with self._lock:
            return tuple(member.actor for member in self._members if member.ready)

    def _recruit(self, place: int) -> _Member:
        actor = self._start(place)
        self._weights.send(actor)
        return _Member(place, actor, self._calls.call(actor, "news", _NEWS_S))

    def _listen(self) -> None:
        try:
            while not self._closed.is_set():
                refs = {member.news: member for member in self._members}
                for ref in self._calls.wait(list(refs), _LISTEN_S):
                    self._hear(refs[ref])
                self._check_somebody_is_there()
        except ScaleRLError as error:
            self._inbox.put(error)
        except Exception as error:  # noqa: BLE001  # a thread must not end in silence: the trainer would wait for ever
            self._inbox.put(failure(Failed.of(error)))

    def _hear(self, member: _Member) -> None:
        try:
            news: News = self._calls.get(member.news)
        except ActorLostError as error:
            self._bury(member, error.how)
            return
        if news.lost is not None:
            self._calls.kill(member.actor)
            self._bury(member, news.lost)
            return
        with self._lock:
            done = self._accept(member, news.progress) if news.progress else ()
            if news.progress and not member.ready:
                member.ready, self._tries[member.place] = True, 0
            self._inbox.put(replace(self._sums(), groups=done))
            if news.failed is not None:
                raise failure(news.failed)
            self._dispatch()
            member.news = self._calls.call(member.actor, "news", _NEWS_S)

    def _accept(self, member: _Member, progress: Progress) -> tuple[Group, ...]:
        member.now = replace(progress, groups=())
        done = tuple(group for group in progress.groups if member.requests.pop(group.request.index, None))
        member.num_rollouts -= sum(len(group.request.seeds) for group in done)
        return done

    def _bury(self, member: _Member, how: str) -> None:
        """What it had goes to the others; another one takes its place."""
        with self._lock:
            self._members.remove(member)
            self._weights.forget(member.actor)
            self._gone = _added(self._gone, member.now)
            if member.ready:
                self._gone = replace(self._gone, num_lost=self._gone.num_lost + 1)
            self._gone = replace(self._gone, num_repeated=self._gone.num_repeated + len(member.requests))
            for index, (request, version) in member.requests.items():
                heapq.heappush(self._waiting, (index, request, version))
            self._tries[member.place] += 1
            given_up = self._tries[member.place] > _TRIES
            if not given_up:
                self._members.append(self._recruit(member.place))
            self._dispatch()
        after = "is not replaced" if given_up else "another one takes its place"
        self._notice(f"a generator died ({how}); {len(member.requests)} requests go to others, {after}")
        if not self._members:
            raise NoGeneratorError(how)

    def _dispatch(self) -> None:
        """Those that wait, to whoever has the least; called with the lock held."""
        ready = [member for member in self._members if member.ready]
        shares: dict[int, list[tuple[GroupRequest, int]]] = {}
        while self._waiting and ready:
            least = min(ready, key=lambda member: member.num_rollouts)
            if least.num_rollouts >= self._most:
                break
            index, request, version = heapq.heappop(self._waiting)
            least.requests[index] = (request, version)
            least.num_rollouts += len(request.seeds)
            shares.setdefault(id(least), []).append((request, version))
        for member in ready:
            if share := shares.get(id(member)):
                requests = tuple(request for request, _ in share)
                self._calls.call(member.actor, "submit", requests, max(version for _, version in share))

    def _sums(self) -> Progress:
        total = self._gone
        for member in self._members:
            total = _added(total, member.now)
        return total

    def _check_somebody_is_there(self) -> None:
        if any(member.ready for member in self._members) or self._closed.is_set():
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > _ALONE_S:
            raise NoGeneratorError(f"the cluster has had no room for one for {_ALONE_S / 60:g} minutes")


def _added(one: Progress, other: Progress) -> Progress:
    return replace(
        one,
        usage=one.usage + other.usage,
        exam=one.exam + other.exam,
        busy_s=one.busy_s + other.busy_s,
        idle_s=one.idle_s + other.idle_s,
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
    )
