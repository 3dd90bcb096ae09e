"""Early signs of instability in what a run measures anyway: truncation, importance ratio, held-out pass rate.

Asked by the session after each step and each evaluation; it decides nothing and changes nothing. An alarm rings once
and again only after its cause was gone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scalerl import numbers
from scalerl.config.guards import Guards
from scalerl.pipeline.types import EvalPoint

_SURE = 3.0
"""Standard errors beyond which a fall is no noise."""


@dataclass(frozen=True)
class Alarm:
    """One sign, with the figure behind it."""

    name: str
    message: str
    value: float
    limit: float


class Watchdog:
    """Follows one session of a run."""

    def __init__(self, guards: Guards, step: int, points: Sequence[EvalPoint]) -> None:
        self._guards = guards
        self._truncation: deque[float] = deque(maxlen=guards.window)
        self._ratio: deque[float] = deque(maxlen=guards.window)
        self._ringing: set[str] = set()
        self._best = max(points, key=lambda point: point.pass_rate, default=None)
        self._good_step = self._good_point = step

    @property
    def good_step(self) -> int:
        """The last step that nothing speaks against: later than the last evaluation, nobody knows."""
        return min(self._good_step, self._good_point)

    def stepped(self, step: int, values: Mapping[str, Any]) -> list[Alarm]:
        """Of the steps so far; `values` are those of metrics.jsonl."""
        _add(self._truncation, values.get("truncation_rate"))
        _add(self._ratio, values.get("ratio_mean"))
        found = [alarm for alarm in (self._truncated(), self._exploded()) if alarm is not None]
        if not found:
            self._good_step = max(self._good_step, step - self._guards.window)
        return self._new({"truncation", "ratio"}, found)

    def evaluated(self, point: EvalPoint) -> list[Alarm]:
        """Of the held-out problems."""
        best = self._best
        if best is None or point.pass_rate >= best.pass_rate:
            self._best = best = point
        noise = _SURE * math.hypot(point.standard_error or 0.0, best.standard_error or 0.0)
        limit = min(best.pass_rate * (1 - self._guards.collapse), best.pass_rate - noise)
        if point.pass_rate >= limit:
            self._good_point = point.step
            return self._new({"collapse"}, [])
        words = f"held-out pass rate {point.pass_rate:.3f}, after {best.pass_rate:.3f} at step {best.step:,}"
        return self._new({"collapse"}, [Alarm("collapse", words, point.pass_rate, limit)])

    def _truncated(self) -> Alarm | None:
        mean, limit = _mean(self._truncation), self._guards.truncation
        if mean is None or mean <= limit:
            return None
        shares = numbers.percent(mean), numbers.percent(limit)
        words = "{} of the rollouts of the last {} steps were cut off (limit {})"
        words = words.format(shares[0], self._guards.window, shares[1])
        return Alarm("truncation", words, mean, limit)

    def _exploded(self) -> Alarm | None:
        mean, limit = _mean(self._ratio), self._guards.ratio
        if mean is None or 1 / limit <= mean <= limit:
            return None
        words = f"mean importance ratio {mean:.3g} over the last {self._guards.window} steps (limit {limit:g})"
        return Alarm("ratio", words, mean, limit)

    def _new(self, asked: set[str], found: Sequence[Alarm]) -> list[Alarm]:
        """Those that were silent before."""
        new = [alarm for alarm in found if alarm.name not in self._ringing]
        self._ringing = (self._ringing - asked) | {alarm.name for alarm in found}
        return new


def _add(values: deque[float], value: object) -> None:
    """A step with nothing in the loss has no ratio."""
    if isinstance(value, int | float):
        values.append(float(value))


def _mean(values: deque[float]) -> float | None:
    """None until there are enough."""
    return fmean(values) if len(values) == values.maxlen else None
