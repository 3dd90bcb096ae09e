"""What the training loop knows of a launcher: batches come out, weights go in.

Implemented by `inline` (one process, virtual time) and `remote` (generators elsewhere); used by `session`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol

from torch import Tensor

from scalerl.compute import Usage
from scalerl.pipeline.evaluate import Answers
from scalerl.pipeline.types import Group, Snapshot


@dataclass(frozen=True)
class FeedReport:
    """What happened on the generator's side since the last report."""

    usage: Usage
    """Of the generator."""
    generator_idle: float | None
    """Share of the time in which it had nothing to do; None: no time has passed."""
    trainer_idle: float | None
    """Share of the time that the trainer waited for a batch."""
    trainer_waited_s: float = 0.0
    """Seconds that the trainer's device was held while it waited; none in virtual time."""
    generator_memory_bytes: int | None = None
    """Peak of the generator's process; None in virtual time, where equal runs have equal reports."""
    trainer_memory_bytes: int | None = None
    """Peak of the trainer's process."""
    generators_lost: int = 0
    """Generators that have died in this session."""
    requests_repeated: int = 0
    """Requests of theirs that others have taken over; each is trained once all the same."""

    @property
    def values(self) -> dict[str, float | None]:
        """What metrics.jsonl holds of it; the rest is in the ledger. Of losses only when there was one."""
        booked = {"usage", "trainer_waited_s"}
        if not self.generators_lost:
            booked |= {"generators_lost", "requests_repeated"}
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in booked}


class Feed(Protocol):
    """A generator behind a buffer."""

    @property
    def exams(self) -> Answers | None:
        """How the generators answer an evaluation; None: they are not at work while it is made."""

    def batch(self, version: int) -> tuple[Group, ...] | None:
        """The next batch, waiting for it; None when there are no problems left to make one of."""

    def publish(self, weights: Mapping[str, Tensor], version: int, training_flops: float) -> None:
        """The step that cost so much is done: free its slots and hand the new weights to the generator. The tensors
        may change after the call."""

    def attend(self) -> None:
        """Take in what has come while something else is done, such as an evaluation; what failed is raised now."""

    def report(self) -> FeedReport:
        """Called once after each step."""

    def snapshot(self) -> Snapshot:
        """Everything that is admitted and not yet trained, and where the problems stand."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, before the first batch."""

    def close(self) -> None:
        """End all work; processes are gone when it returns."""
