"""Memory and a lock without a name, with a real second process."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from scalerl.errors import StorageError
from scalerl.pipeline.nameless import Memory, PipeLock

CONTEXT = multiprocessing.get_context("spawn")


def test_the_other_process_sees_the_memory_and_waits_for_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of either has a name; the lock of one that was killed is gone with it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    other = importlib.import_module("nameless_other")
    memory, lock = Memory(), PipeLock(CONTEXT)
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=other.add_one, args=(memory, lock, there), daemon=True)
    process.start()
    memory.reserve(8)
    assert memory.buf is not None
    for value in (1, 7, 41):
        memory.buf[0] = value
        assert lock.acquire(timeout=1)
        here.send("go")
        assert not here.poll(0.1)  # it waits
        lock.release()
        assert here.recv() == value + 1
        assert memory.buf[0] == value + 1
    here.send("hold")
    assert here.recv() == "held"
    assert not lock.acquire(timeout=0.05)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not lock.acquire(timeout=0.05)
    maps = Path("/proc/self/maps")
    assert not maps.exists() or "/memfd:scalerl-weights (deleted)" in maps.read_text()
    memory.close()
    memory.close()
    assert memory.buf is None


def test_a_lock_is_held_by_one() -> None:
    lock = PipeLock(CONTEXT)
    assert lock.acquire(timeout=0)
    assert not lock.acquire(timeout=0.01)
    lock.release()
    assert lock.acquire(timeout=0)


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    memory = Memory()
    with pytest.raises(StorageError, match=r"memory for weights \(4,096 bytes\): cannot be written \(No space left"):
        memory.reserve(4096)
    memory.close()
