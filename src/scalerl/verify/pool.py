"""Several judges at once, results in order. A judge is one process, or one after the other; a thread waits for each.

Used by the verifiers that work in other processes. Nothing is started before it is needed, and nothing is left behind:
not after `close`, not after Ctrl-C, not when the pool is forgotten.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from scalerl.verify.verdict import Verdict

MOST_WORKERS = 8
"""Of the choice that is made when nothing is said."""

Item = TypeVar("Item")
Item_contra = TypeVar("Item_contra", contravariant=True)


class Judge(Protocol[Item_contra]):
    """Judges one item at a time."""

    def judge(self, item: Item_contra) -> Verdict:
        """Takes a limited time, and does not raise for anything in the item."""

    def close(self) -> None:
        """End the process; may come from another thread while an item is judged, which then has no result."""


class Pool(Generic[Item]):
    """At most `size` judges; 0: as many as there are cores, up to `MOST_WORKERS`."""

    def __init__(self, make: Callable[[], Judge[Item]], size: int = 0) -> None:
        self._make = make
        self._size = size or min(num_cores(), MOST_WORKERS)
        self._judges: list[Judge[Item]] = []
        self._lock = threading.Lock()

    def verdicts(self, items: Sequence[Item]) -> list[Verdict]:
        """One for each item, in their order."""
        with self._lock:
            while len(self._judges) < min(self._size, len(items)):
                self._judges.append(self._make())
            try:
                return (
                    self._together(items) if len(items) > 1 < self._size else [self._judges[0].judge(i) for i in items]
                )
            except BaseException:  # Ctrl-C above all
                self._close()
                raise

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        for judge in self._judges:
            judge.close()

    def _together(self, items: Sequence[Item]) -> list[Verdict]:
        idle: queue.SimpleQueue[Judge[Item]] = queue.SimpleQueue()
        for judge in self._judges:
            idle.put(judge)

        def judged(item: Item) -> Verdict:
            judge = idle.get()
            try:
                return judge.judge(item)
            finally:
                idle.put(judge)

        with ThreadPoolExecutor(min(len(self._judges), len(items))) as threads:
            futures = [threads.submit(judged, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._close()  # so that nobody has to be waited for
                raise


def num_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
