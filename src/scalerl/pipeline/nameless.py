"""Memory and a lock that two processes share and that have no name anywhere.

Used by the `local` launcher for its weights. What has a name in the system (POSIX shared memory, semaphores) stays when
every process that knows it is killed at once, Python's tracker of such names among them: gigabytes that nobody frees.
What is only open is gone with the last process that has it, however that one ends. On Linux it is not limited by the
size of /dev/shm either, which in containers is small.

`Memory` has what `SharedWeights` needs of `multiprocessing.shared_memory.SharedMemory`, `PipeLock` what it needs of a
lock. Both are handed to the other process when that is started. Needs a POSIX system.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.reduction import DupFd
from typing import Any, Self

from scalerl.errors import StorageError


class Memory:
    """Empty at first; one side reserves it, then the other one opens it."""

    name = ""

    def __init__(self, file: int | None = None) -> None:
        """`file`: one that is open already; it is closed with the memory."""
        self._file = _open_nameless() if file is None else file
        self._map: mmap.mmap | None = None

    def __reduce__(self) -> tuple[Callable[[Any], Memory], tuple[Any]]:
        return _received, (DupFd(self._file),)

    @property
    def buf(self) -> mmap.mmap | None:
        """Its bytes; None before it is reserved or opened, and once it is closed."""
        return self._map

    def reserve(self, size: int) -> Self:
        """So many bytes, taken now: too little memory is an error here, and not the end of the process later."""
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, 0, size)
            else:
                os.ftruncate(self._file, size)
        except OSError as error:
            raise StorageError.of(error, f"memory for weights ({size:,} bytes)") from None
        return self.open()

    def open(self) -> Self:
        """What was reserved, by whichever side."""
        self._map = mmap.mmap(self._file, 0)
        return self

    def close(self) -> None:
        """Also of memory that was never used."""
        if self._map is not None:
            self._map.close()
        if self._file >= 0:
            os.close(self._file)
        self._map, self._file = None, -1

    def unlink(self) -> None:
        """There is no name to remove."""


class PipeLock:
    """Whoever has the one byte of a pipe holds the lock; one that dies with it takes it along."""

    def __init__(self, context: BaseContext) -> None:
        self._taking, self._giving = context.Pipe(duplex=False)
        os.set_blocking(self._taking.fileno(), False)
        self.release()

    def acquire(self, *, timeout: float) -> bool:
        """False: time is up (seconds)."""
        deadline = time.monotonic() + timeout
        while self._taking.poll(max(0.0, deadline - time.monotonic())):
            try:
                os.read(self._taking.fileno(), 1)
            except BlockingIOError:  # the other one was faster
                continue
            return True
        return False

    def release(self) -> None:
        os.write(self._giving.fileno(), b"x")


def _received(file: Any) -> Memory:
    return Memory(file.detach())


def _open_nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("scalerl-weights")
    with tempfile.TemporaryFile() as stream:
        return os.dup(stream.fileno())
