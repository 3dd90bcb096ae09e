"""The actor that has rollouts written: the door to a generator's process, which is the one of `local`.

Started by `fleet`. In one process the generator would share Python's interpreter with Ray's threads. Ray runs calls in
several threads and not always in order, so requests wait here for the weights that they must be written with: the bound
on the age holds whatever overtakes what. It ends with its owner, the trainer's actor, and the process with it. Does not
import Ray.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from scalerl.errors import ScaleRLError
from scalerl.pipeline.launch.process import GeneratorLostError, GeneratorProcess
from scalerl.pipeline.launch.worker import Build, Failed, Progress
from scalerl.pipeline.types import GroupRequest
from scalerl.pipeline.weights import Parcel
from scalerl.pipeline.wire import End

_GATHER_S = 0.04
"""With a small policy a group is written in milliseconds: few larger messages in the place of one for each."""
CALLS = 6
"""At once: one that waits for progress, and orders."""


@dataclass(frozen=True)
class News:
    """What `GeneratorActor.news` says."""

    progress: Progress | None = None
    """None: it is still starting."""
    failed: Failed | None = None
    """It has ended."""
    lost: str | None = None
    """How its process was killed or crashed: another one may do better."""


class GeneratorActor:
    """One generator. `build` makes it, in its process; `version` is the one of the policy that it begins with."""

    def __init__(self, build: Build, version: int, threads: int, *, has_children: bool = False) -> None:
        torch.set_num_threads(threads)
        self._version = version  # of the newest weights that have come
        self._early: list[tuple[int, tuple[GroupRequest, ...]]] = []  # requests that have overtaken their weights
        self._last: Progress | None = None  # told, without its groups
        self._lock = threading.RLock()  # for these, and for what is sent
        self.process = GeneratorProcess(
            build, threads, has_children=has_children, gather_s=_GATHER_S, received=self._have_come
        )

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        """Write these, with weights of at least this version."""
        with self._lock, suppress(ScaleRLError):  # `news` says what has happened
            self._early.append((version, requests))
            self._have_come(self._version)

    def load(self, parcel: Parcel) -> None:
        with self._lock, suppress(ScaleRLError):
            if parcel.version > self._version:  # else newer ones have overtaken them
                self.process.share(parcel.tensors(), parcel.version)
                self._have_come(parcel.version)

    def receive(self, end: End) -> None:
        """Newer weights, if there are any, over a wire."""
        with self._lock, suppress(ScaleRLError):
            self.process.ask(end)

    def news(self, wait_s: float) -> News:
        """What is complete, waiting a moment for it; without that, what was done so far."""
        try:
            progress = self.process.receive(most_s=wait_s)
        except GeneratorLostError as error:
            return News(lost=error.how)
        except ScaleRLError as error:
            return News(failed=Failed.of(error))
        if progress is None:
            return News(self._last)
        self._last = replace(progress, groups=())
        return News(progress)

    def stop(self) -> None:
        """The end; what is under way is lost."""
        with self._lock:
            self.process.close()

    def _have_come(self, version: int) -> None:
        """Weights; requests that waited for them come right behind. Only a wire itself says which version it brought: a
        question may have been answered with newer ones."""
        with self._lock:
            self._version = max(self._version, version)
            ready = [requests for needed, requests in self._early if needed <= self._version]
            self._early = [(needed, requests) for needed, requests in self._early if needed > self._version]
            for requests in ready:
                self.process.submit(requests, self._version)
