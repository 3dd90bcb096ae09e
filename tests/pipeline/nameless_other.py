"""The second process of test_nameless.py."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

from scalerl.pipeline.nameless import Memory, PipeLock


def add_one(memory: Memory, lock: PipeLock, link: Connection) -> None:
    """To the first byte, whenever it is told to; or hold the lock and wait to be killed."""
    while link.recv() == "go":
        assert lock.acquire(timeout=60)
        content = memory.buf or memory.open().buf
        assert content is not None
        content[0] += 1
        link.send(content[0])
        lock.release()
    assert lock.acquire(timeout=60)
    link.send("held")
    time.sleep(600)
