"""Checkpoints that are damaged on the disk: a bit turned, the end cut off, a file gone. Seeded by their number.

The newest is damaged: the one before it is used, and that is said. All are: one line says so and nothing is changed.
Used by the tests and by `python -m tests.faults`.
"""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import books
from .nursery import Nursery
from .small import Small

ENDED = Small()
LONGER = Small(steps=10)
"""What the damaged run is to become: the same as one that was never stopped."""
KINDS = ("bit", "cut", "emptied", "removed", "longer")


@dataclass
class Outcome:
    """One line of the log."""

    number: int
    file: str
    kind: str
    said: str = ""
    wrong: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"campaign": "damaged checkpoints", **asdict(self)}


def files_of(run: Path) -> list[str]:
    """Of the newest checkpoint."""
    newest = books.checkpoints(run)[-1]
    return sorted(str(path.relative_to(newest)) for path in newest.rglob("*") if path.is_file())


def spoil(file: Path, kind: str, rng: random.Random) -> None:
    content = bytearray(file.read_bytes())
    match kind:
        case "bit":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        case "cut":
            del content[rng.randrange(1, len(content)) :]
        case "emptied":
            content.clear()
        case "longer":
            content += rng.randbytes(rng.randint(1, 99))
    file.write_bytes(content)
    if kind == "removed":
        file.unlink()


def damage_newest(nursery: Nursery, folder: Path, number: int, ended: Path, longer: Path) -> Outcome:
    """`ended`: the run that is damaged, in a copy; `longer`: what it must become."""
    rng, started = random.Random(f"damage {number}"), time.monotonic()
    names = files_of(ended)
    outcome = Outcome(number, names[number % len(names)], KINDS[(number // len(names) + number) % len(KINDS)])
    place = folder / "run"
    shutil.copytree(ended, place)
    newest = books.checkpoints(place)[-1]
    spoil(newest / outcome.file, outcome.kind, rng)
    ran = nursery.run(ENDED.go_on("run", "--budget", str(LONGER.steps)), folder)
    if ran.code != 0:
        outcome.wrong.append(f"it does not go on: {ran.err[-500:]!r}")
        return outcome
    if outcome.file == "complete.json" and outcome.kind == "removed":  # then it never was a checkpoint
        outcome.said = "no marker"
    else:
        events = [line for line in books.lines(place / "events.jsonl") if line["event"] == "damaged_checkpoint"]
        outcome.said = events[0]["message"] if events else ""
        if len(events) != 1 or newest.name not in outcome.said or newest.name not in ran.err:
            outcome.wrong.append(f"it was not said: {events}, {ran.err[-300:]!r}")
    outcome.wrong += books.complaints(place, LONGER) + books.difference(place, longer) + books.verified(place)
    outcome.wall_s = round(time.monotonic() - started, 3)
    return outcome
