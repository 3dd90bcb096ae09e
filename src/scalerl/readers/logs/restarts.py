"""Where a log goes back: a run that was resumed from an earlier step, or started anew, in the same log.

Called by `survey` (to count) and `tracks` (to let the later part win). A metric's own steps never fall while a run goes
on, whatever order the metrics of one step are written in; when they do, the run was restarted there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scalerl.readers.logs.records import Record

TOLERATED = 10
"""So many restarts are believed of any log, and one for each fifty records beyond that."""


@dataclass(frozen=True)
class Restart:
    """The step fell from `reached` to `step`."""

    reached: float
    step: float


@dataclass
class RestartFinder:
    """Fed with every record of a log, in order."""

    found: list[Restart] = field(default_factory=list)
    num_records: int = 0
    first_step: float | None = None
    _last: dict[str, float] = field(default_factory=dict)
    _reached: float = float("-inf")
    _session: int = 0

    def feed(self, record: Record) -> Restart | None:
        """The restart that this record begins, if it does."""
        self.num_records += 1
        if record.step is None:
            return None
        restart = self._restart(record.step, record)
        if restart is not None:
            self.found.append(restart)
            self._last.clear()
            self._reached = record.step
        self._session = record.session
        self.first_step = record.step if self.first_step is None else min(self.first_step, record.step)
        self._reached = max(self._reached, record.step)
        for name in record.values:
            self._last[name] = record.step
        return restart

    def _restart(self, step: float, record: Record) -> Restart | None:
        """A new session may also begin at the very step where the old one ended."""
        again = record.session != self._session
        last = [self._last[name] for name in record.values if name in self._last]
        fell = any(step < before or (again and step == before) for before in last)
        return Restart(self._reached, step) if fell else None

    @property
    def interleaved(self) -> bool:
        """Steps fall all the time: several writers share the log, nothing was restarted."""
        return len(self.found) > TOLERATED + self.num_records / 50


def from_the_start(restart: Restart, first_step: float) -> bool:
    """The step was reset: the run began anew, or went on with its counter at the beginning."""
    return restart.step <= max(first_step, 1)


def notes(restarts: Iterable[Restart], first_step: float, *, going_on: bool) -> list[str]:
    """What was found, one line for each restart, the first few of them."""
    lines = []
    for restart in restarts:
        went = f"the step went back from {restart.reached:g} to {restart.step:g}"
        if not from_the_start(restart, first_step):
            only = " (--restarts continue counts on only where steps begin anew)" if going_on else ""
            lines.append(f"resumed: {went}; the later part replaces the earlier one{only}")
        elif going_on:
            lines.append(
                f"step reset: {went}; later steps are counted on from {restart.reached:g} (--restarts continue)"
            )
        else:
            lines.append(
                f"step reset: {went}; the later part replaces everything before (if the run went on with its "
                "counter at zero: --restarts continue)"
            )
    more = len(lines) - 3
    return [*lines[:3], f"and {more} more restarts"] if more > 0 else lines
