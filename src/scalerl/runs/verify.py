"""Whether a run directory holds what it promises: every check by name, with what to do where something is wrong.

Called by `scalerl runs verify` and by the tests that break things. Nothing is written (`verify_repair` does that), no
torch is needed, and logs of any length are read in constant memory. While a process holds the run everything is checked
that can be: lines and checkpoints that are just being written are not errors.

After a crash a run goes on from its newest checkpoint, and whatever its logs hold behind it is cut off and happens
again. So what is wrong there is a warning, and what is wrong before it an error. Of a run that has ended everything
counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import layout, status
from scalerl.runs.lock import holder
from scalerl.runs.status import name_of
from scalerl.runs.verify_checkpoints import Saved, check_checkpoints, look_at_all
from scalerl.runs.verify_files import check_config, check_ending, check_events, check_leftovers, check_provenance
from scalerl.runs.verify_findings import LEVELS, Finding, Level, Subject
from scalerl.runs.verify_results import check_results
from scalerl.runs.verify_steps import check_steps

Check = Callable[[], Sequence[Finding]]


@dataclass(frozen=True)
class Verification:
    """Everything that was found out about one run."""

    name: str
    path: Path
    held_by: str | None
    """The process that writes it now."""
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        """The worst of them."""
        return max((finding.level for finding in self.findings), key=LEVELS.index, default="ok")

    def count(self, level: Level) -> int:
        return sum(finding.level == level for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        found = [asdict(finding) for finding in self.findings]
        head = {"name": self.name, "path": str(self.path), "level": self.level, "held_by": self.held_by}
        return {**head, "errors": self.count("error"), "warnings": self.count("warning"), "findings": found}


def verify(path: str | Path) -> Verification:
    """Check one run directory; never an error for what is in it."""
    folder = Path(path)
    held = holder(folder / layout.LOCK)
    saved = look_at_all(folder / layout.CHECKPOINTS)  # before the logs: those of a run that goes on only grow
    if held is not None and any(one.problem for one in saved):
        saved = look_at_all(folder / layout.CHECKPOINTS)  # one may have been replaced while it was read
    config_finding, config = check_config(folder)
    subject = _subject(folder, config, held is not None, saved)
    usable = [one.step for one in saved if one.problem is None]
    try:
        logs, last_step = check_steps(subject)
    except OSError as error:
        logs, last_step = [_unreadable("metrics", folder, error)], 0
    others: dict[str, Check] = {
        "provenance": lambda: [check_provenance(folder)],
        "ending": lambda: [check_ending(subject, last_step, max(usable, default=None))],
        "results": lambda: check_results(subject),
        "events": lambda: check_events(subject),
        "checkpoints": lambda: check_checkpoints(subject, saved, last_step),
        "leftovers": lambda: check_leftovers(subject),
    }
    rest = [finding for name, check in others.items() for finding in _guarded(name, folder, check)]
    return Verification(name_of(folder), folder, None if held is None else str(held), (config_finding, *logs, *rest))


def find_runs(path: str | Path) -> list[Path]:
    """The run itself, or every run in and below a folder (those of a study, too), damaged ones included."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(
            "no such run directory", allowed="a run directory, or a folder with runs in it", where=str(path)
        )
    found = sorted(status.find_runs(folder, _is_run))
    if not found:
        raise InputError("no run in or below this folder", allowed="a run directory, or runs below it", where=str(path))
    return found


def check_free(paths: Sequence[Path]) -> None:
    """Nobody may hold any of these runs: said before the first of them is repaired."""
    for path in paths:
        if (held := holder(path / layout.LOCK)) is not None:
            allowed = "a run that nobody works on; wait for it, or stop it"
            raise InputError("the run directory is in use", str(held), allowed, str(path))


def _is_run(folder: Path) -> bool:
    """Also one whose config can no longer be read."""
    return is_run_directory(folder) or all((folder / name).is_file() for name in (layout.EVALS, layout.LOCK))


def _subject(folder: Path, config: RunConfig | None, held: bool, saved: Sequence[Saved]) -> Subject:
    """What going on would keep is what the newest checkpoint says; if that is damaged, everything counts."""
    complete = [one for one in saved if one.complete]
    if not complete:
        return Subject(folder, config, held, {} if held or not _has_ended(folder) else None)
    newest = complete[-1]
    if newest.problem is not None or newest.offsets is None:
        return Subject(folder, config, held)
    admitted = None if newest.admitted is None else (newest.step, newest.admitted)
    return Subject(folder, config, held, newest.offsets, admitted)


def _has_ended(folder: Path) -> bool:
    return (folder / layout.STOPPED).exists()


def _guarded(check: str, folder: Path, function: Check) -> list[Finding]:
    """A file that cannot be read is a finding, and the other checks go on."""
    try:
        return list(function())
    except OSError as error:
        return [_unreadable(check, folder, error)]


def _unreadable(check: str, folder: Path, error: OSError) -> Finding:
    where = None if error.filename is None else os.path.relpath(str(error.filename), folder)
    words = f"cannot be read ({error.strerror or error})"
    return Finding(check, "error", words, where, "look after the disk and its permissions")
