"""What goes wrong in a run and does not end it at once: said, counted, and acted upon as `scale.guards` wants.

Used by the session, which stops when `trouble` says why, and begins again at `RollBackError`. Everything is a line in
events.jsonl, which is never cut back: how often a run was rolled back is counted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from transformers import PreTrainedTokenizerBase

from scalerl.pipeline.guards import Alarm, Watchdog
from scalerl.pipeline.records import rollout_lines
from scalerl.pipeline.types import EvalPoint, Group, Observer, Point, Unjudged
from scalerl.runs import RunDirectory
from scalerl.runs.events import Event, Name


class RollBackError(Exception):
    """From the loop to whoever holds the run: begin again before the trouble."""

    def __init__(self, good_step: int) -> None:
        super().__init__(good_step)
        self.good_step = good_step


class Incidents:
    """Of one session."""

    def __init__(
        self,
        directory: RunDirectory,
        observer: Observer,
        tokenizer: PreTrainedTokenizerBase,
        step: int,
        points: Sequence[Point],
    ) -> None:
        self.trouble: str | None = None
        """Why a guard ends the run."""
        self._directory, self._observer, self._tokenizer, self._step = directory, observer, tokenizer, step
        self._guards = directory.config.scale.guards
        self._watchdog = Watchdog(self._guards, step, [point for point in points if isinstance(point, EvalPoint)])
        self._blind: str | None = None
        """Why to stop: nobody knows how good the policy is."""
        self._unjudged_in_a_row = sum(1 for _ in takewhile(_is_unjudged, reversed(points)))
        self._alarms: list[Alarm] = []
        before = [Event.from_line(line) for line in directory.events.read()]
        self._rollbacks = sum(event.name == "rolled_back" for event in before)
        self._skipped = sum(event.name == "skipped_step" for event in before)
        self._skipped_in_a_row = 0

    @property
    def slowed(self) -> float:
        """What the learning rate is multiplied with."""
        return float(self._guards.rollback_rate**self._rollbacks)

    @property
    def good_step(self) -> int | None:
        """Where a roll back would go; None: there will be none."""
        return self._watchdog.good_step if self._guards.on_alarm == "roll_back" else None

    def begin(self, *, resumed: bool, damaged: Sequence[str]) -> None:
        """The session begins; `damaged`: what is wrong with newer checkpoints."""
        if resumed:
            self._say("resumed", f"the run goes on at step {self._step:,}")
        for words in damaged:
            self._say("damaged_checkpoint", f"{words}; the checkpoint of step {self._step:,} is used instead")

    def stepped(
        self, step: int, groups: Sequence[Group], skipped: str | None, values: Mapping[str, Any]
    ) -> dict[str, int]:
        """A step was made, or skipped for a reason; more for its line of metrics, once there was a skipped one."""
        self._step = step
        self._alarms += self._watchdog.stepped(step, values)
        self._skipped_in_a_row = 0 if skipped is None else self._skipped_in_a_row + 1
        if skipped is not None:
            self._skip(groups, skipped)
        return {"skipped_steps": self._skipped} if self._skipped else {}

    def evaluated(self, point: Point) -> None:
        """The held-out problems were measured, and the sets that were due; what nobody could judge is said."""
        for name, one in ({"held_out": point} | dict(point.downstream)).items():
            if isinstance(one, Unjudged):
                words = f"no answer of the evaluation ({name}) at step {point.step:,} could be judged"
                self._say("unjudged", f"{words}; the point is missing, not zero", set=name)
        if isinstance(point, EvalPoint):
            self._unjudged_in_a_row, self._blind = 0, None
            self._alarms += self._watchdog.evaluated(point)
            return
        self._unjudged_in_a_row += 1
        if self._unjudged_in_a_row >= self._guards.unjudged_in_a_row:
            times = f"{self._unjudged_in_a_row} in a row; allowed: a verifier that works"
            self._blind = f"no answer of the evaluation at step {point.step:,} could be judged, the last of {times}"

    def attend(self) -> None:
        """Say what rings, and do what the config wants done."""
        said = self.say_alarms()
        self.trouble = self._blind or self.trouble
        if not said or self._guards.on_alarm == "log":
            return
        if self._guards.on_alarm == "roll_back" and self._rollbacks < self._guards.rollbacks:
            self._roll_back()
        before = f"; it was rolled back {self._rollbacks} times before" if self._rollbacks else ""
        self.trouble = said[0] + before

    def say_alarms(self) -> list[str]:
        """What rings, in words; at the end of a run there is nothing else to do about it."""
        alarms, self._alarms = self._alarms, []
        said = [f"alarm {alarm.name} at step {self._step:,}: {alarm.message}" for alarm in alarms]
        for alarm, words in zip(alarms, said, strict=True):
            self._say("alarm", words, alarm=alarm.name, value=alarm.value, limit=alarm.limit)
        return said

    def _skip(self, groups: Sequence[Group], why: str) -> None:
        self._skipped += 1
        file = self._directory.write_inspection(self._step, rollout_lines(groups, self._tokenizer))
        words = f"step {self._step:,} was skipped: loss or gradient is not finite ({why}); its batch: {file}"
        self._say("skipped_step", words, file=file.relative_to(self._directory.path).as_posix())
        if self._skipped_in_a_row >= self._guards.skipped_in_a_row:
            self.trouble = f"{words}; it was the last of {self._skipped_in_a_row} in a row"

    def _roll_back(self) -> None:
        good_step, rate = self._watchdog.good_step, self.slowed * self._guards.rollback_rate
        where = f"the last checkpoint up to step {good_step:,}, or the oldest there is"
        words = f"back to {where}, with {rate:g} of the learning rate"
        self._say("rolled_back", words, good_step=good_step, rate=rate)
        raise RollBackError(good_step)

    def _say(self, name: Name, words: str, **values: object) -> None:
        event = Event.now(self._step, name, words, **values)
        self._directory.events.append(event.to_line(), to_disk=True)
        self._observer.noticed(event)


def _is_unjudged(point: Point) -> bool:
    return isinstance(point, Unjudged)
