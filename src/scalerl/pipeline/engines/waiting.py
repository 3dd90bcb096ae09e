"""The queues: groups that wait for rows, and the one group of which only a part has found rows so far.

Owned by the embedded engine. A prompt is prefilled when its first rollout finds a row; where the group is larger than
the rows that are free, its keys and values are kept for the rest. The next group starts when all of that one have
rows, so there is at most one such. Exams start before all others: the trainer waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
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
    """First come, first served, among exams and among the rest."""

    def __init__(self, requests: Iterable[GroupRequest] = (), started: int = 0) -> None:
        """As `requests` and `started` of another one were."""
        self._begun: GroupRequest | None = None
        self._exams: deque[GroupRequest] = deque()
        self._others: deque[GroupRequest] = deque()
        self.started = started
        """Rollouts of the first group that have found a row."""
        self.leftover: Leftover | None = None
        waiting = iter(requests)
        if started:
            self._begun = next(waiting)
        for request in waiting:
            self.add(request)

    @property
    def requests(self) -> tuple[GroupRequest, ...]:
        """In the order in which they start."""
        begun = () if self._begun is None else (self._begun,)
        return (*begun, *self._exams, *self._others)

    def add(self, request: GroupRequest) -> None:
        (self._others if request.exam is None else self._exams).append(request)

    def take(self, num_rows: int) -> Iterator[Share]:
        """Shares for so many free rows. `leftover` belongs to the first share where that begins after rollout 0."""
        while num_rows:
            if self._begun is None:
                queue = self._exams or self._others
                if not queue:
                    return
                self._begun = queue.popleft()
            request = self._begun
            last = min(len(request.seeds), self.started + num_rows)
            share = Share(request, self.started, last)
            num_rows -= last - self.started
            self.started = last
            if last == len(request.seeds):
                self._begun, self.started = None, 0
            yield share
