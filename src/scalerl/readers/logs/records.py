"""What every trainer's log looks like to us: `Record`s in the order they were written, and a `Tally` of what was lost.

Each format (`tensorboard`, `wandb_offline`, `verl`, ...) is a `Log`; everything behind it (which metrics there are, how
restarts are merged, what the compute is) is the same for all of them. Formats know nothing about curves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Record:
    """What a trainer wrote at one moment."""

    values: Mapping[str, float]
    """Metrics by the name the log gives them; a value may be NaN or infinite."""
    step: float | None = None
    """The trainer's own step; None when this log has none here."""
    time_s: float | None = None
    """Wall clock, in seconds since any fixed moment; None when the log does not tell."""
    session: int = 0
    """Counts the files (or restarts) that a log consists of; between two sessions the wall clock does not count."""


@dataclass
class Tally:
    """What could not be read and was skipped, and how far reading has come. One for each pass over a log."""

    progress: Callable[[int, int], None] | None = None
    """Called with bytes read so far and bytes in all."""
    skipped: dict[str, int] = field(default_factory=dict)
    """How many of what: {"broken lines": 3}. Formats choose short plural nouns."""
    first: dict[str, str] = field(default_factory=dict)
    """Where the first of each was: "line 17"."""

    def skip(self, what: str, where: str, count: int = 1) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + count
        self.first.setdefault(what, where)

    def read(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    def notes(self) -> list[str]:
        """One line for each kind of loss."""
        return [f"skipped {counted(count, what)} (first: {self.first[what]})" for what, count in self.skipped.items()]


_ONE = (
    (re.compile(r"^((?:\w+ )*?)(line|file|end|row|cell|message|metric|dict|byte|part|record|value)s\b"), r"\1\2"),
    (re.compile(r"^((?:\w+ )*?)entries\b"), r"\1entry"),
    (re.compile(r"\bthat are not numbers\b"), "that is not a number"),
    (re.compile(r"\bthat are no events\b"), "that is no event"),
    (re.compile(r"\bthat are\b"), "that is"),
)
"""What formats call their losses, for one of them; the noun is the first of these in the phrase."""


def counted(count: int, what: str) -> str:
    """`1 broken line`, `3 broken lines`."""
    if count == 1:
        for plural, one in _ONE:
            what = plural.sub(one, what, count=1)
    return f"{count:,} {what}"


class Log(Protocol):
    """One run of somebody's trainer. It can be read again and again, and never has to be in memory."""

    @property
    def kind(self) -> str:
        """The format in words: "TensorBoard event files"."""

    @property
    def label(self) -> str:
        """How messages name it: the path as the user gave it."""

    @property
    def name(self) -> str | None:
        """What the log calls the run; None when it has no name of its own."""

    def records(self, tally: Tally) -> Iterator[Record]:
        """Everything from the beginning, in the order written. What cannot be read is counted in `tally`, never raised.

        InputError only when nothing at all can be read (no such file, no permission, not this format).
        """
