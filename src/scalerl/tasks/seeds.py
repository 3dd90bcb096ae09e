"""Random generators named by what they are for: the one place that makes them.

Used by the pools, the stream and the warm start. A generator named by a text has the same numbers in every process and
Python version, and two names share nothing.
"""

from __future__ import annotations

import random


def seeded(*name: object) -> random.Random:
    """`seeded(seed, "epoch", 3)`: the generator of this name."""
    return random.Random("/".join(map(str, name)))  # noqa: S311  # shuffles problems, guards nothing
