"""The training problems of a mixture: one endless pool, in which every part has its share.

Used by `mixture`. The pool is made of blocks of `BLOCK` places. In each block every part has the same number of places,
by its weight, in an order of its own; a part's problems follow one another from block to block, shuffled anew each time
they are through. So the same index is the same problem for ever, and any problem is found again at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from scalerl.errors import InputError
from scalerl.tasks.pools import Endless
from scalerl.tasks.problem import Problem, Problems
from scalerl.tasks.seeds import seeded

BLOCK = 1000
"""Places; a weight is exact to half a place in a block."""
_REMEMBERED = 8
"""Orders kept: rollouts of the block before may still be under way."""

Place = Callable[[Problem, str, int], Problem]
"""Problem, part, index in the mixture -> the problem as the mixture names it."""


class MixedPool(Endless):
    """Without an end, whatever its parts are."""

    def __init__(self, pools: Mapping[str, Problems], weights: Mapping[str, float], seed: int, place: Place) -> None:
        self._pools = pools
        self._counts = apportioned(weights, BLOCK)
        self._seed = seed
        self._place = place
        for name, count in self._counts.items():
            if not count:
                allowed = f"at least one in {2 * BLOCK} of all weights, or its problems never come"
                raise InputError(f"task.parts.{name}.weight", weights[name], allowed)
        self._block = lru_cache(_REMEMBERED)(self._block_order)
        self._epoch = lru_cache(_REMEMBERED)(self._epoch_order)

    def _at(self, index: int) -> Problem:
        block, place = divmod(index, BLOCK)
        part, before = self._block(block)[place]
        return self._place(self._nth(part, block * self._counts[part] + before), part, index)

    def _nth(self, part: str, count: int) -> Problem:
        """The problem of a part that comes after `count` others of it."""
        pool = self._pools[part]
        if pool.size is None:
            return pool[count]
        epoch, place = divmod(count, pool.size)
        return pool[self._epoch(part, pool.size, epoch)[place]]

    def _block_order(self, block: int) -> list[tuple[str, int]]:
        """For each place of a block its part, and how many places of the block that part had before."""
        names = [name for name, count in self._counts.items() for _ in range(count)]
        seeded(self._seed, "mixture", block).shuffle(names)
        before = dict.fromkeys(self._counts, 0)
        order = []
        for name in names:
            order.append((name, before[name]))
            before[name] += 1
        return order

    def _epoch_order(self, part: str, size: int, epoch: int) -> list[int]:
        order = list(range(size))
        seeded(self._seed, "mixture", part, "epoch", epoch).shuffle(order)
        return order


def apportioned(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """`total` shared out by weight in whole numbers: each part its exact share rounded down, the rest to those that
    lost most by it."""
    exact = {name: total * weight / math.fsum(weights.values()) for name, weight in weights.items()}
    shares = {name: math.floor(share) for name, share in exact.items()}
    most = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in most[: total - sum(shares.values())]:
        shares[name] += 1
    return shares
