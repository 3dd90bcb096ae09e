"""The queue: groups that wait for rows, and the one group of which only a part has found rows so far.

Owned by the embedded engine. A prompt is prefilled when its first rollout finds a row; where the group is larger than
the rows that are free, its keys and values are kept for the rest. Groups start in order, so there is at most one such.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from scalerl.pipeline.engines.cache import Prompts
from scalerl.pipeline.types import GroupRequest


@dataclass(frozen=True)
class Share:
    """Rollouts first .. last - 1 of a group, which start now."""

    request: GroupRequest
    first: int
    last: int


@dataclass(frozen=True)
class Leftover:
    """The prompt of the group at the head of the queue, and the version of the weights that read it."""

    prompt: Prompts
    version: int


class Waiting:
    """First come, first served."""

    def __init__(self) -> None:
        self.requests: deque[GroupRequest] = deque()
        self.started = 0
        """Rollouts of the first group that have found a row."""
        self.leftover: Leftover | None = None

    def take(self, num_rows: int) -> Iterator[Share]:
        """Shares for so many free rows. `leftover` belongs to the first share where that begins after rollout 0."""
        while num_rows and self.requests:
            request = self.requests[0]
            last = min(len(request.seeds), self.started + num_rows)
            share = Share(request, self.started, last)
            num_rows -= last - self.started
            self.started = last
            if last == len(request.seeds):
                self.requests.popleft()
                self.started = 0
            yield share
