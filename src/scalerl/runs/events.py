"""What happens to a run besides steps and evaluations: one line each in events.jsonl.

Written by the session, read by views, reports and `runs verify`. The names:

    resumed             a session went on with the run
    damaged_checkpoint  a digest was wrong; the checkpoint was set aside, and the one before it is used
    skipped_step        loss or gradient was not finite: nothing was changed
    unjudged            no answer of an evaluation could be judged: its point is missing; `set` says which evaluation
    alarm               a guard saw an early sign of instability; `alarm` says which
    rolled_back         the run went back to an earlier checkpoint
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Name = Literal["resumed", "damaged_checkpoint", "skipped_step", "unjudged", "alarm", "rolled_back"]
_HEAD = ("time", "step", "event", "message")


@dataclass(frozen=True)
class Event:
    """One of them."""

    step: int
    """Steps made when it happened."""
    name: str
    message: str
    """For people: one line."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""
    time: str = ""
    """ISO 8601, by the clock of the machine."""

    @classmethod
    def now(cls, step: int, name: Name, message: str, **values: Any) -> Event:
        return cls(step, name, message, values, datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Event:
        """Of whatever version wrote it."""
        values = {key: value for key, value in line.items() if key not in _HEAD}
        step, name, message, time = (line.get(key) for key in ("step", "event", "message", "time"))
        return cls(step if isinstance(step, int) else 0, str(name or ""), str(message or ""), values, str(time or ""))

    def to_line(self) -> dict[str, Any]:
        head = {"time": self.time, "step": self.step, "event": self.name, "message": self.message}
        return head | {key: value for key, value in self.values.items() if key not in head}
