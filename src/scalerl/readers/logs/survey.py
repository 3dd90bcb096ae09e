"""The first pass over a log: which metrics there are, how often, in which range. Nothing is kept but that.

Called by `curve` and by `scalerl read --list`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scalerl.readers.logs.records import Log, Record, Tally
from scalerl.readers.logs.restarts import RestartFinder


@dataclass
class Metric:
    """One metric over the whole log."""

    name: str
    count: int = 0
    """Finite values."""
    num_unusable: int = 0
    """NaN and infinite values."""
    low: float = math.inf
    high: float = -math.inf
    first: float = math.nan
    last: float = math.nan
    first_step: float | None = None
    last_step: float | None = None
    num_falls: int = 0
    """How often a value was below the one before it: a running total never is."""

    def add(self, value: float, step: float | None) -> None:
        if not math.isfinite(value):
            self.num_unusable += 1
            return
        if not self.count:
            self.first, self.first_step = value, step
        self.num_falls += value < self.last
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.last, self.last_step = value, step
        self.count += 1


@dataclass
class Survey:
    """What a log has."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    restarts: RestartFinder = field(default_factory=RestartFinder)
    has_times: bool = False
    has_steps: bool = False
    tally: Tally = field(default_factory=Tally)

    @property
    def names(self) -> list[str]:
        """Metrics with at least one usable value, in order of appearance."""
        return [metric.name for metric in self.metrics.values() if metric.count]

    def add(self, record: Record) -> None:
        self.restarts.feed(record)
        self.has_times |= record.time_s is not None
        self.has_steps |= record.step is not None
        for name, value in record.values.items():
            metric = self.metrics.get(name)
            if metric is None:
                metric = self.metrics[name] = Metric(name)
            metric.add(value, record.step)


def survey(log: Log, tally: Tally) -> Survey:
    """Read `log` once."""
    found = Survey(tally=tally)
    for record in log.records(tally):
        found.add(record)
    return found
