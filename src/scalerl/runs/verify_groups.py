"""Which groups a run has trained on, from `groups` in metrics.jsonl: each at most once, all of them admitted.

Used by `verify_steps`. Numbers are those of admission (`pipeline.slots`). Ranges are kept, not numbers: a run of any
length needs a few bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_RANGES = re.compile(r"\d{1,15}(-\d{1,15})?(,\d{1,15}(-\d{1,15})?)*")

Range = tuple[int, int]
"""First and last number, both included."""


def parse_ranges(text: object) -> list[Range] | None:
    """`0-15,18`; None for anything else."""
    if not isinstance(text, str) or not _RANGES.fullmatch(text):
        return None
    pairs = [part.split("-") for part in text.split(",")]
    found = [(int(pair[0]), int(pair[-1])) for pair in pairs]
    return found if all(first <= last for first, last in found) else None


class Trained:
    """The numbers so far."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []  # sorted, neither touching nor overlapping

    @property
    def num_groups(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def missing(self) -> int:
        """Numbers below the highest that are not there."""
        return self._ranges[-1][1] + 1 - self.num_groups if self._ranges else 0

    def add(self, new: Range) -> int | None:
        """Put them in; the first number that was there already, None if there is none."""
        place = bisect_right(self._ranges, (new[0], new[0] - 1))
        before = self._ranges[place - 1] if place else None
        after = self._ranges[place] if place < len(self._ranges) else None
        if before is not None and before[1] >= new[0]:
            return new[0]
        if after is not None and after[0] <= new[1]:
            return after[0]
        low = high = place
        if before is not None and before[1] + 1 == new[0]:
            low, new = place - 1, (before[0], new[1])
        if after is not None and after[0] - 1 == new[1]:
            high, new = place + 1, (new[0], after[1])
        self._ranges[low:high] = [new]
        return None
