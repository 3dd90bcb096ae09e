"""The words of a study as data: cell, job, outcome. Plain and frozen; nothing is read or run here.

A cell is the base with a patch; a job is one seed of a cell. A job's identity is the digest of what it runs, so that a
finished one is never run again, and a changed cell is another job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["waiting", "running", "interrupted", "finished", "failed", "pruned"]
"""waiting: never started. interrupted: started, not running, can go on. pruned: stopped by the race, kept."""


@dataclass(frozen=True)
class Cell:
    """One choice to study."""

    name: str
    """Unique in the study; "base" is the one that all are compared with."""
    values: Mapping[str, Any]
    """Dotted key -> value that differs from the base (free parameters for a command runner); empty for the base."""
    recipe: str | None = None
    """A recipe preset that replaces the base's; None keeps it."""
    paper: str | None = None
    """What the paper found for this choice, in words, if it says something."""


@dataclass(frozen=True)
class Job:
    """One seed of one cell."""

    cell: str
    seed: int
    identity: str
    """SHA-256 of what runs: the resolved config without its budget, or command and parameters, and the seed."""
    settings: Mapping[str, Any]
    """What the runner needs: {"config": ...} of scalerl's own runner, the parameters of a command."""

    @property
    def name(self) -> str:
        """The job's folder: readable, and unique by the digest."""
        return f"{_slug(self.cell)}-seed{self.seed}-{self.identity[:10]}"


@dataclass(frozen=True)
class Outcome:
    """How a job ended, as its outcome.json says."""

    state: Literal["finished", "failed", "pruned"]
    share: float
    """Of the budget that was used."""
    error: str | None = None
    """One line; only for a failed one."""


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-=" else "_" for char in name)[:60]
