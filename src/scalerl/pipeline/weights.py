"""Weights on their way from the trainer to generators: in shared memory, or in a parcel.

`SharedWeights` is for a process on the same machine: the trainer publishes, the generator fetches between two steps.
One copy lies in shared memory, in the dtypes of the policy, behind one lock: what is fetched is one version, never half
of one and half of the next. A side that dies while it holds the lock is noticed by the other one (`peer_alive`). Memory
with a name is unlinked by its creator, or if that is killed by Python's resource tracker; `nameless` memory, which the
`local` launcher uses, needs nobody.

`Parcel` is one block of bytes that can be sent anywhere. Used by the `ray` launcher.

Knows nothing about models: named tensors in, named tensors out.
"""

from __future__ import annotations

import math
import struct
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalerl.errors import InputError, ScaleRLError

_VERSION = struct.Struct("q")
"""The policy version stands at the beginning of the memory."""
_ALIGNMENT_BYTES = 64
"""A tensor begins on a cache line."""
_PEER_CHECK_S = 1.0
"""A lock that is held longer than this makes one look whether the other side is still there."""
_NOTHING_YET = -1


class Shared(Protocol):
    """`SharedMemory`, or `nameless.Memory`."""

    @property
    def name(self) -> str: ...

    @property
    def buf(self) -> Any: ...

    def close(self) -> None: ...

    def unlink(self) -> None: ...


class Lock(Protocol):
    """That both processes know."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


class PeerLostError(ScaleRLError, RuntimeError):
    """The process on the other side died while it held the weights."""

    def __str__(self) -> str:
        return "the other process died while it held the shared weights"


@dataclass(frozen=True)
class Place:
    """Where a tensor lies."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset_bytes: int

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True)
class Handle:
    """What the other process needs to find the weights."""

    memory: str
    places: Mapping[str, Place]


class SharedWeights:
    """One version of all weights, in memory that two processes see. Made with `create` and `attach`."""

    def __init__(
        self, memory: Shared, handle: Handle, lock: Lock, peer_alive: Callable[[], bool], *, owner: bool
    ) -> None:
        self.handle = handle
        self._memory = memory
        self._lock = lock
        self._peer_alive = peer_alive
        self._tensors = {name: _view(memory, place) for name, place in handle.places.items()}
        self._release = weakref.finalize(self, _release, memory, self._tensors, owner)

    @classmethod
    def create(
        cls,
        weights: Mapping[str, Tensor],
        lock: Lock,
        peer_alive: Callable[[], bool],
        allocate: Callable[[int], Shared] | None = None,
    ) -> SharedWeights:
        """Room for tensors like these; nothing is published yet. `allocate`: memory of so many bytes; unless given it
        has a name."""
        places = _places(weights)
        size = max(place.end_bytes for place in places.values())
        memory = SharedMemory(create=True, size=size) if allocate is None else allocate(size)
        _write_version(memory, _NOTHING_YET)
        return cls(memory, Handle(memory.name, places), lock, peer_alive, owner=True)

    @classmethod
    def attach(
        cls, handle: Handle, lock: Lock, peer_alive: Callable[[], bool], memory: Shared | None = None
    ) -> SharedWeights:
        """The weights that another process has created; `memory`: where it has no name."""
        return cls(memory or SharedMemory(handle.memory), handle, lock, peer_alive, owner=False)

    @property
    def version(self) -> int:
        """Of what was published last; -1 before."""
        assert self._memory.buf is not None, "closed"
        version: int = _VERSION.unpack_from(self._memory.buf)[0]
        return version

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Replace what is there. Versions only grow, and the tensors are always of the same names and shapes."""
        if _places(weights) != self.handle.places:
            raise InputError("published weights have other names, dtypes or shapes", allowed="those of the first ones")
        with self._held():
            if version <= self.version:
                raise InputError("published version", version, f"more than {self.version}")
            for name, tensor in weights.items():
                self._tensors[name].copy_(tensor.detach())
            _write_version(self._memory, version)

    def fetch(self, newer_than: int, load: Callable[[Mapping[str, Tensor], int], None]) -> bool:
        """Call `load(weights, version)` if there is a newer version. It must copy what it wants to keep."""
        if self.version <= newer_than:  # one aligned word, read at every decode step: not worth the lock
            return False
        with self._held():
            load(self._tensors, self.version)
        return True

    def close(self) -> None:
        """Let go of the memory; it is gone once both sides have."""
        self._release()

    @contextmanager
    def _held(self) -> Iterator[None]:
        while not self._lock.acquire(timeout=_PEER_CHECK_S):
            if not self._peer_alive():
                raise PeerLostError
        try:
            yield
        finally:
            self._lock.release()


@dataclass(frozen=True)
class Parcel:
    """One version of all weights as a block of bytes: numpy, so that a cluster's object store passes it on uncopied."""

    version: int
    block: NDArray[np.uint8]
    places: Mapping[str, Place]

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], version: int, before: Parcel | None = None) -> Parcel:
        """`before`: an earlier one that nobody needs any more; its memory is used again. New memory costs more than the
        copy: the system hands it out page by page."""
        places = _places(weights)
        block = None if before is None or before.places != places else torch.from_numpy(before.block)
        if block is None:
            block = torch.empty(max(place.end_bytes for place in places.values()), dtype=torch.uint8)
        for name, place in places.items():
            flat = block[place.offset_bytes : place.end_bytes].view(place.dtype)
            flat.view(place.shape).copy_(weights[name].detach())
        return cls(version, block.numpy(), places)

    def tensors(self) -> dict[str, Tensor]:
        """Views into the block: to be read only, for it may be memory that others read too."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            block = torch.from_numpy(self.block)
        return {
            name: block[place.offset_bytes : place.end_bytes].view(place.dtype).view(place.shape)
            for name, place in self.places.items()
        }


def _places(weights: Mapping[str, Tensor]) -> dict[str, Place]:
    """One tensor after the other, behind the version."""
    places: dict[str, Place] = {}
    end = _VERSION.size
    for name, tensor in weights.items():
        places[name] = Place(tensor.dtype, tuple(tensor.shape), -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES)
        end = places[name].end_bytes
    return places


def _write_version(memory: Shared, version: int) -> None:
    assert memory.buf is not None, "closed"
    _VERSION.pack_into(memory.buf, 0, version)


def _view(memory: Shared, place: Place) -> Tensor:
    assert memory.buf is not None, "closed"
    count = math.prod(place.shape)
    flat = torch.frombuffer(memory.buf, dtype=place.dtype, count=count, offset=place.offset_bytes)
    return flat.view(place.shape)


def _release(memory: Shared, tensors: dict[str, Tensor], owner: bool) -> None:
    tensors.clear()  # memory with views into it cannot be closed
    memory.close()
    if owner:
        memory.unlink()
