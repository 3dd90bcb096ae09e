"""The second pass over a log: a few chosen metrics as columns against the step, restarts settled.

Called by `curve`. Memory is proportional to the metrics asked for, never to the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from scalerl.readers.cells import FloatArray
from scalerl.readers.logs.records import Log, Record, Tally
from scalerl.readers.logs.restarts import RestartFinder, from_the_start

Restarts = Literal["replace", "continue"]
CLOCK = "\0clock"
"""The track of the wall clock: seconds at work so far. No metric can have this name."""


@dataclass
class Track:
    """One metric in the order of its steps."""

    steps: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: float, value: float) -> bool:
        """False when the step was there already and is replaced."""
        if self.steps and self.steps[-1] == step:
            self.values[-1] = value
            return False
        self.steps.append(step)
        self.values.append(value)
        return True

    def cut(self, step: float) -> int:
        """Forget everything from `step` on; how many that was."""
        keep = len(self.steps)
        while keep and self.steps[keep - 1] >= step:
            keep -= 1
        dropped = len(self.steps) - keep
        del self.steps[keep:], self.values[keep:]
        return dropped

    def columns(self) -> tuple[FloatArray, FloatArray]:
        """Steps and values, sorted, the later of two at one step; interleaved writers leave them in any order."""
        steps, values = np.array(self.steps), np.array(self.values)
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
        last = np.append(steps[1:] > steps[:-1], True) if steps.size else np.zeros(0, dtype=bool)
        return steps[last], values[last]


@dataclass
class Tracks:
    """What `collect` found."""

    tracks: dict[str, Track]
    replaced: dict[str, int]
    """Points of each metric that a restart or a second writing at the same step replaced."""
    unusable: dict[str, int]
    """Values of each metric that are not finite numbers."""
    numbered: bool = False
    """The log has no steps; points were counted instead."""

    def columns(self, name: str) -> tuple[FloatArray, FloatArray]:
        return self.tracks[name].columns()


class _Clock:
    """Seconds at work up to each step: time between two records of one session; the gap of a restart does not count.

    How long the first step after a restart took is not known; it gets the pace of the steps before.
    """

    def __init__(self) -> None:
        self.at_work_s = 0.0
        self._time_s: float | None = None
        self._session = 0
        self._first_step = 0.0
        self._step = 0.0

    def tick(self, time_s: float, session: int, step: float) -> None:
        if self._time_s is None:
            self._first_step = step
        elif session == self._session:
            self.at_work_s += max(0.0, time_s - self._time_s)
        elif self._step > self._first_step:
            pace = self.at_work_s / (self._step - self._first_step)
            self.at_work_s += pace * max(0.0, step - self._step)
        self._time_s, self._session, self._step = time_s, session, max(step, self._step)

    def rewind(self, seconds: float, step: float) -> None:
        """What follows is another session, and goes on from here."""
        self.at_work_s, self._step, self._session = seconds, step, -1


def collect(log: Log, wanted: Collection[str], tally: Tally, *, interleaved: bool, restarts: Restarts) -> Tracks:
    """Read `log` again and keep the metrics wanted, and the clock."""
    tracks = {name: Track() for name in (*wanted, CLOCK)}
    found = Tracks(tracks, dict.fromkeys(tracks, 0), dict.fromkeys(tracks, 0))
    finder, clock, offset = RestartFinder(), _Clock(), 0.0
    for count, record in enumerate(log.records(tally), 1):
        restart = None if interleaved else finder.feed(record)
        if restart is not None:
            if restarts == "continue" and from_the_start(restart, finder.first_step or 0.0):
                offset += restart.reached
            else:
                _cut(found, restart.step + offset)
            past = tracks[CLOCK]
            clock.rewind(past.values[-1] if past.values else 0.0, past.steps[-1] if past.steps else 0.0)
        found.numbered |= record.step is None
        step = float(count) if record.step is None else record.step + offset
        _add(found, record, step, clock, interleaved=interleaved)
    return found


def _cut(found: Tracks, step: float) -> None:
    for name, track in found.tracks.items():
        found.replaced[name] += track.cut(step)


def _add(found: Tracks, record: Record, step: float, clock: _Clock, *, interleaved: bool) -> None:
    if record.time_s is not None and not interleaved:
        clock.tick(record.time_s, record.session, step)
        track = found.tracks[CLOCK]
        if not track.steps or step >= track.steps[-1]:  # metrics of an earlier step may be written late
            track.add(step, clock.at_work_s)
    for name in found.tracks.keys() & record.values.keys():
        value = record.values[name]
        if not np.isfinite(value):
            found.unusable[name] += 1
        elif not found.tracks[name].add(step, value):
            found.replaced[name] += 1
