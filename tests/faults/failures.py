"""Every operation that writes, refused once: what the command says, what is kept, and whether the run goes on.

The points are those of `write_points`, counted in an undisturbed run. Whatever fails, the command must end with one
line that names the reason, or not care; what was complete before must still be so; and once the disk works again, the
run must come to the same end, bit for bit. Used by the tests and by `python -m tests.faults`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import books
from .nursery import Nursery, Ran
from .small import Small
from .write_points import NO_SPACE_NEEDED

RUN = Small(steps=4, evaluate_every=3, save_every=2)


@dataclass(frozen=True)
class Failure:
    """The k-th operation, and how it fails."""

    at: int
    error: str
    lasting: bool

    @property
    def reason(self) -> str:
        return os.strerror(getattr(errno, self.error))


@dataclass
class Outcome:
    """One line of the log."""

    failure: Failure
    point: str
    """The operation and its file."""
    code: int = 0
    said: str | None = None
    """None: the command did not care, and went on."""
    wrong: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    command: str = "train"

    def to_dict(self) -> dict[str, Any]:
        return {"campaign": "write failures", **asdict(self)}


def points_of(nursery: Nursery, folder: Path) -> list[str]:
    """Every operation of an undisturbed run, which is left in `folder/run`."""
    log = nursery.folder / "points.json"
    ran = nursery.run(RUN.begin("run"), folder, tampering=[("writes", {"root": str(folder / "run"), "log": str(log)})])
    assert ran.code == 0, ran.err
    return [str(point) for point in books.read_json(log)]


def failures_at(number: int, point: str) -> tuple[Failure, ...]:
    """Both errors; what needs no space does not fail on a full disk. Every second operation fails for good."""
    errors = ("EIO",) if point.partition(" ")[0] in NO_SPACE_NEEDED else ("ENOSPC", "EIO")
    return tuple(Failure(number, error, lasting=(number + turn) % 2 == 0) for turn, error in enumerate(errors))


def strike(nursery: Nursery, folder: Path, failure: Failure, point: str, reference: Path) -> Outcome:
    """The run that meets the failure, and the one that goes on after it."""
    started, place = time.monotonic(), folder / "run"
    options = {"root": str(place), "at": failure.at, "error": failure.error, "lasting": failure.lasting}
    ran = nursery.run(RUN.begin("run"), folder, tampering=[("writes", options)])
    outcome = Outcome(failure, point, ran.code, ran.refusal)
    outcome.wrong += words_of(ran, failure, ("run",))
    if place.is_dir():
        outcome.wrong += [text for one in books.checkpoints(place) for text in books.damage(one)]
        safe = books.kept(place)
        outcome.wrong += books.verified(place)
        outcome.wrong += _gone_on(nursery, folder, ran.code)
        outcome.wrong += books.lost(place, safe)
    else:
        outcome.wrong += _gone_on(nursery, folder, ran.code)
    outcome.wrong += books.complaints(place, RUN) + books.difference(place, reference) + books.verified(place)
    outcome.wall_s = round(time.monotonic() - started, 3)
    return outcome


def words_of(ran: Ran, failure: Failure, places: Sequence[str]) -> list[str]:
    """A command that fails says so in one line, with the reason and one of the places."""
    if ran.code == 0:
        return [f"code 0, and it said {ran.err!r}"] if "error" in ran.err else []
    if ran.refusal is None:
        return [f"code {ran.code}, not in one line: {ran.err[-800:]!r}"]
    if failure.reason not in ran.refusal or not any(place in ran.refusal for place in places):
        return [f"neither reason nor place: {ran.refusal!r}"]
    return []


def _gone_on(nursery: Nursery, folder: Path, code: int) -> list[str]:
    """On a disk that works again."""
    if code == 0:
        return []
    begun = (folder / "run" / "config.json").is_file()
    ran = nursery.run(RUN.go_on("run") if begun else RUN.begin("run"), folder)
    return [] if ran.code == 0 else [f"it does not go on: {ran.err[-500:]!r}"]
