"""What is known about a run while it goes on: events in, figures out. No terminal here.

Fed by the views in `live`, which show what it holds. Times come from a clock that tests can turn by hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from scalerl.cli.outlook import Outlook, end_of_budget, look_ahead
from scalerl.compute import Ledger
from scalerl.runs.budget import used

if TYPE_CHECKING:
    from scalerl.config import RunConfig
    from scalerl.pipeline.types import EvalPoint, StepRecord, StopReason
    from scalerl.policy import Progress
    from scalerl.runs.events import Event

RECENT_STEPS = 20
"""Steps over which speeds are taken: enough to be calm, few enough to show a change."""


@dataclass
class RunProgress:
    """The state of one run as its observer knows it."""

    run: RunConfig
    clock: Callable[[], float]
    step: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    points: list[EvalPoint] = field(default_factory=list)
    record: StepRecord | None = None
    warm_start: Progress | None = None
    """None once the run itself has begun."""
    generating: tuple[int, int] | None = None
    """Groups finished and wanted, of the evaluation under way."""
    saved: tuple[int, Path] | None = None
    stopping: bool = False
    """The user has asked to stop."""
    reason: StopReason | None = None
    event: Event | None = None
    """The last alarm, skipped step, or whatever else went wrong."""
    outlook: Outlook = field(default_factory=lambda: Outlook(reason="after the first evaluations"))
    started_s: float | None = None
    _pace_from: tuple[float, float] | None = None
    """Seconds and budget used at the end of this session's first step: before it, processes were starting."""
    _recent: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS + 1))

    def started(self, step: int, ledger: Ledger, points: Sequence[EvalPoint]) -> None:
        self.step, self.ledger, self.points = step, ledger, list(points)
        self.warm_start = None
        self.started_s = self.clock()
        self._pace_from = None  # a run that was rolled back begins again
        self._recent.clear()
        self._look_ahead()

    def stepped(self, record: StepRecord) -> None:
        self.step, self.ledger, self.record = record.step, record.ledger, record
        self.generating = None
        self._recent.append(record)
        if self._pace_from is None:
            self._pace_from = (self.clock(), self.used)

    def evaluated(self, point: EvalPoint) -> None:
        self.points.append(point)
        self.generating = None
        self._look_ahead()

    def noticed(self, event: Event) -> None:
        if event.name != "resumed":
            self.event = event

    def stopped(self, reason: StopReason, step: int, ledger: Ledger) -> None:
        self.step, self.ledger, self.reason = step, ledger, reason
        self.generating = None

    @property
    def used(self) -> float:
        """Of the budget, in its unit."""
        return used(self.run.scale.budget, self.step, self.ledger)

    @property
    def share(self) -> float:
        return min(1.0, self.used / self.run.scale.budget.amount)

    @property
    def elapsed_s(self) -> float:
        """Since this session began; a warm start counts until the run itself begins."""
        if self.warm_start is not None:
            return self.warm_start.wall_s
        return 0.0 if self.started_s is None else self.clock() - self.started_s

    @property
    def left_s(self) -> float | None:
        """At the rate of this session, evaluations included; None before there is one."""
        if self.warm_start is not None:
            done, total = self.warm_start.step, self.warm_start.steps
            return self.warm_start.wall_s * (total - done) / done if done else None
        if self._pace_from is None or self.used <= self._pace_from[1]:
            return None
        seconds = (self.clock() - self._pace_from[0]) / (self.used - self._pace_from[1])
        return seconds * max(0.0, self.run.scale.budget.amount - self.used)

    @property
    def end_flops(self) -> float | None:
        """Where the budget will end on the x axis of the curve."""
        return end_of_budget(self.used, self.run.scale.budget.amount, self.ledger.total.flops)

    @property
    def seconds_a_step(self) -> float | None:
        """The usual step lately; evaluations, which fall on few steps, do not count in a median."""
        times = [record.wall_s for record in self._recent]
        gaps = [after - before for before, after in pairwise(times)]
        usual = median(gaps) if gaps else 0.0
        return usual if usual > 0 else None

    @property
    def rollouts_per_s(self) -> float | None:
        batch = self.run.scale.batch
        return None if self.seconds_a_step is None else batch.prompts * batch.rollouts / self.seconds_a_step

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of generation."""
        if self.seconds_a_step is None:
            return None
        counts = [record.ledger.generation.tokens for record in self._recent]
        return fmean(after - before for before, after in pairwise(counts)) / self.seconds_a_step

    def value(self, name: str) -> float | None:
        """One of the last step's figures."""
        found = None if self.record is None else self.record.values.get(name)
        return float(found) if isinstance(found, int | float) else None

    def _look_ahead(self) -> None:
        self.outlook = look_ahead(self.points, self.end_flops)
