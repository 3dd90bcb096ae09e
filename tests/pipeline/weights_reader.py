"""The second process of test_weights.py: a generator that does nothing but fetch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock

from torch import Tensor

from scalerl.pipeline.weights import Handle, SharedWeights


def fetch_until(last: int, handle: Handle, lock: Lock, link: Connection) -> None:
    """Fetch as often as possible; report every version seen with the values found; die inside the last fetch."""
    parent = parent_process()
    assert parent is not None
    shared = SharedWeights.attach(handle, lock, parent.is_alive)
    seen: list[tuple[int, set[float]]] = []

    def load(weights: Mapping[str, Tensor], version: int) -> None:
        seen.append((version, {float(value) for tensor in weights.values() for value in tensor.unique()}))
        if version == last:
            link.send(seen)
            os._exit(1)

    link.send("ready")
    while True:
        shared.fetch(seen[-1][0] if seen else -1, load)
