"""What a study needs from a trainer: start it, look how far it is, read its curve. And nothing else about it.

Implemented by `own_runner` (scalerl train) and `command_runner` (any other trainer); a test brings its own. `workers`
starts and waits, `status` looks, `race` and `analyse` get the curves. A runner knows one job at a time: which jobs
there are, and which of them goes on, is not its business. `place` is the job's folder, jobs/NAME of the study's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scalerl.config.study import CommandTrainer, StudyConfig
from scalerl.series import Series
from scalerl.study.jobs import Job

RUN = "run"
"""Below a job's folder: the run directory, or {out} of a command."""


@dataclass(frozen=True)
class Progress:
    """How far a job is, at a glance. What is not known is None."""

    share: float | None = None
    """Of the full budget."""
    value: float | None = None
    """The last measurement."""
    wall_s: float | None = None
    """Time that it took so far."""


class Process(Protocol):
    """A trainer under way."""

    def poll(self) -> int | None:
        """The exit code; None while it runs. 128 + n: ended by signal n."""

    def stop(self) -> None:
        """Ask it to save what it can and end."""

    def kill(self) -> None:
        """End it at once."""


class Runner(Protocol):
    """How to train one job. Two calls never work on one job at the same time: see `process`."""

    def check(self, jobs: Sequence[Job], prune: bool) -> None:
        """Refuse what cannot work, before anything starts: an `InputError`."""

    def start(self, job: Job, place: Path, share: float) -> Process:
        """Train up to this share of the budget; go on where an earlier call has stopped, if there was one."""

    def curve(self, job: Job, place: Path) -> list[Series]:
        """What was measured so far, one series; `InputError` if there is nothing to read."""

    def downstream(self, job: Job, place: Path) -> dict[str, Series]:
        """What was measured on each downstream set of the job, by name; empty if it has none."""

    def progress(self, job: Job, place: Path) -> Progress:
        """From the files alone, in a millisecond; never an error."""


def open_runner(config: StudyConfig) -> Runner:
    """The runner that the study names."""
    from scalerl.study.command_runner import CommandRunner
    from scalerl.study.own_runner import OwnRunner

    if isinstance(config.runner, CommandTrainer):
        return CommandRunner(config.runner)
    return OwnRunner(config.fit.x)
