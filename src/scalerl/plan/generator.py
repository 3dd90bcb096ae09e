"""One simulated generator: rows that all advance by one token in each decode step, and a queue behind them.

Driven by `simulate`. Between two events (a row ends, a row begins, new weights) nothing changes but the number of
tokens looked back on, so many decode steps are one formula. Which version wrote which token follows from the number of
the decode step. It knows neither slots nor the trainer.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scalerl.plan.outcome import GeneratorTime
from scalerl.plan.rates import Rates


@dataclass(slots=True)
class SimulatedGroup:
    """A group in the making, and its own request: what `Slots` needs to know of both."""

    index: int
    prompt: int
    """Tokens."""
    missing: int
    """Rollouts that are not complete."""
    tokens: int = 0
    """Written so far."""
    attended: float = 0.0
    """Positions that its tokens look at when they are trained on, prompts included."""
    by_version: dict[int, int] = field(default_factory=dict)
    """Tokens that each policy version wrote."""
    read_by: set[int] = field(default_factory=set)
    """Generators that have read the prompt."""

    @property
    def request(self) -> SimulatedGroup:
        return self

    @property
    def rollouts(self) -> tuple[_Versions, ...]:
        """One stands for all: only the oldest and the newest version are asked for."""
        return (_Versions(np.array([min(self.by_version), max(self.by_version)], dtype=np.int32)),)


@dataclass(frozen=True)
class _Versions:
    versions: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.versions)


@dataclass(slots=True)
class SimulatedRollout:
    group: SimulatedGroup
    length: int
    begun: int = 0
    """Number of the decode step that wrote its first token."""


class SimulatedGenerator:
    """Continuous batching: a finished row is refilled at once."""

    def __init__(self, number: int, rates: Rates, rows: int) -> None:
        self.number = number
        self.clock = 0.0
        self.spent = GeneratorTime()
        self.row_seconds = 0.0
        """Rows times the seconds they were decoded for."""
        self.empty_since: float | None = 0.0
        self._rates, self._rows = rates, rows
        self._decode_s = [rates.decode_s(n) for n in range(rows + 1)]
        self._steps = 0
        self._live: list[tuple[int, int, SimulatedRollout]] = []  # a heap by the decode step that ends the row
        self._waiting: deque[SimulatedRollout] = deque()
        self._order = 0
        self._due_s = 0.0  # until the next event, as it was asked for last
        self._context = 0  # tokens in the caches of live rows
        self._versions = [(0, 0)]  # (decode step from which on, version)

    @property
    def num_pending(self) -> int:
        return len(self._live) + len(self._waiting)

    def submit(self, rollout: SimulatedRollout) -> None:
        """It begins as soon as a row is free; call `begin` afterwards."""
        self._waiting.append(rollout)

    def begin(self, now: float) -> None:
        """Free rows to those that wait."""
        if self._waiting and len(self._live) < self._rows:
            self.clock = max(self.clock, now)
            self._fill()

    def load(self, version: int, now: float) -> None:
        """New weights, between two decode steps; rows go on."""
        self.clock = max(self.clock, now) + self._rates.load_s
        self.spent.loading += self._rates.load_s
        self._versions.append((self._steps, version))

    def next_event(self) -> float:
        """When the next row ends."""
        if not self._live:
            return math.inf
        self._due_s = self._elapsed(self._live[0][0] - self._steps)
        return self.clock + self._due_s

    def advance(self, until: float) -> None:
        """Whole decode steps, the last of which may end a little later; no row may end before."""
        if self._live and self.clock < until:
            steps = min(self._steps_until(until - self.clock), self._live[0][0] - self._steps)
            self._pass(steps, self._elapsed(steps))

    def finish(self) -> list[SimulatedRollout]:
        """Go on to the event that `next_event` gave; the rows that end there. Their places are taken at once."""
        self._pass(self._live[0][0] - self._steps, self._due_s)
        ended = []
        while self._live and self._live[0][0] <= self._steps:
            rollout = heapq.heappop(self._live)[2]
            self._context -= rollout.group.prompt + rollout.length
            ended.append(rollout)
        self._fill()
        if not self._live:
            self.empty_since = self.clock
        return ended

    def book(self, rollout: SimulatedRollout) -> None:
        """Write down in its group who wrote a rollout that has just ended."""
        group, end = rollout.group, rollout.begun + rollout.length
        for first, version in reversed(self._versions):
            start = max(first, rollout.begun)
            if end > start:
                group.by_version[version] = group.by_version.get(version, 0) + end - start
                end = start
            if first <= rollout.begun:
                break
        group.missing -= 1
        group.tokens += rollout.length
        whole = group.prompt + rollout.length
        group.attended += whole * (whole + 1) / 2

    def _fill(self) -> None:
        read = False
        while self._waiting and len(self._live) < self._rows:
            rollout = self._waiting.popleft()
            read |= self._read(rollout.group)
            rollout.begun = self._steps
            self._order += 1
            heapq.heappush(self._live, (self._steps + rollout.length, self._order, rollout))
            self._context += rollout.group.prompt
            self.empty_since = None
        if read:
            self._spend_reading(self._rates.prompts_s)

    def _read(self, group: SimulatedGroup) -> bool:
        """A prompt is read once for all rollouts of its group that are written here."""
        if self.number in group.read_by:
            return False
        group.read_by.add(self.number)
        self._spend_reading(group.prompt * self._rates.prompt_token_s)
        return True

    def _spend_reading(self, seconds: float) -> None:
        self.clock += seconds
        self.spent.reading += seconds

    def _pass(self, steps: int, seconds: float) -> None:
        rows = len(self._live)
        self.clock += seconds
        self.spent.writing += seconds
        self.row_seconds += rows * seconds
        self._steps += steps
        self._context += rows * steps

    def _elapsed(self, steps: int) -> float:
        """Each step looks back on one token more for each row."""
        first, more = self._first_and_more()
        return steps * first + more * steps * (steps - 1) / 2

    def _steps_until(self, seconds: float) -> int:
        """The fewest steps that take at least so long."""
        first, more = self._first_and_more()
        if more <= 0 or more * seconds < 1e-9 * first * first:
            return max(1, math.ceil(seconds / first))
        half = first / more - 0.5
        return max(1, math.ceil(math.sqrt(half * half + 2 * seconds / more) - half))

    def _first_and_more(self) -> tuple[float, float]:
        rows = len(self._live)
        return self._decode_s[rows] + self._rates.context_s * self._context, self._rates.context_s * rows
