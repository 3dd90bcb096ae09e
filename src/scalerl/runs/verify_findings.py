"""What a check of a run directory says: a finding for each check, and how many wrong lines become one.

Used by the modules `verify_*`. Knows no file and no format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from scalerl.config import RunConfig

Level = Literal["ok", "warning", "error"]
"""error: something is lost, or cannot be trusted. warning: what a crash may leave behind; going on takes care of it."""
LEVELS: tuple[Level, ...] = ("ok", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One check of one run."""

    check: str
    level: Level
    message: str
    where: str | None = None
    """The file, from the run directory on."""
    todo: str | None = None
    """What to do about it; None where nothing is to be done."""


@dataclass(frozen=True)
class Subject:
    """The run in question, as far as it is known before its lines are read."""

    folder: Path
    config: RunConfig | None
    """None: it cannot be read."""
    held: bool = False
    """A process writes at this moment."""
    kept: Mapping[str, int] | None = None
    """Bytes of each log that going on would keep; what is behind them happens again. None: all of it counts."""
    admitted: tuple[int, int] | None = None
    """A step, and the number of groups that had been admitted by then."""

    def keeps(self, log: str, end: int) -> bool:
        """Whether a line that ends there is one that going on would keep."""
        return self.kept is None or end <= self.kept.get(log, 0)


@dataclass
class Tally:
    """One check of many lines: how often it failed, and the first time in words."""

    check: str
    where: str
    todo: str
    _counts: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    _first: dict[bool, str] = field(default_factory=dict)

    def wrong(self, words: str, *, kept: bool = True) -> None:
        """`kept`: it matters. Otherwise it lies behind the last checkpoint."""
        self._counts[kept] += 1
        self._first.setdefault(kept, words)

    def finding(self, fine: str) -> Finding:
        """`fine`: what to say if nothing was wrong."""
        for kept in (True, False):
            if num := self._counts[kept]:
                more = f" (the first of {num:,})" if num > 1 else ""
                words = self._first[kept] + more
                if kept:
                    return Finding(self.check, "error", words, self.where, self.todo)
                behind = f"{words}; behind the last checkpoint"
                return Finding(self.check, "warning", behind, self.where, "nothing: --resume begins again before it")
        return Finding(self.check, "ok", fine, self.where)
