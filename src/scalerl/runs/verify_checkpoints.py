"""Checkpoints without torch: marker, digests, state, and whether the logs have the lines that they refer to.

Called by `verify` and by its repair. Files are digested as bytes; what is in the tensors is not looked at.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from scalerl.compute import Ledger
from scalerl.errors import InputError
from scalerl.plain_file import read_plain
from scalerl.runs import layout
from scalerl.runs.verify_findings import Finding, Subject
from scalerl.runs.verify_lines import ledger_of, record_ending_at, step_of

_NAME = re.compile(rf"step-\d{{6,}}({re.escape(layout.NEXT)})?")
SET_ASIDE = "--repair sets it aside, and the one before it is used"
_LOGS = {"metrics": layout.METRICS, "evals": layout.EVALS}


@dataclass(frozen=True)
class Saved:
    """One folder, looked at."""

    folder: Path
    step: int
    num_files: int = 0
    num_bytes: int = 0
    state: Mapping[str, Any] | None = None
    """The values of its parts; None when it is damaged."""
    problem: str | None = None
    """Why it cannot be used."""
    strange: tuple[str, ...] = ()
    """Files that the marker does not name."""

    @property
    def complete(self) -> bool:
        """It has a marker, so that going on would choose it."""
        return (self.folder / layout.COMPLETE).is_file()

    @property
    def offsets(self) -> dict[str, int] | None:
        """Bytes of each log that belong to it; None when they cannot be read."""
        found = _inside(self.state, "session", "offsets")
        if not isinstance(found, dict) or not all(type(found.get(log)) is int and found[log] >= 0 for log in _LOGS):
            return None
        return {log: found[log] for log in _LOGS}

    @property
    def ledger(self) -> Ledger | None:
        found = _inside(self.state, "session")
        return ledger_of(found) if isinstance(found, dict) else None

    @property
    def admitted(self) -> int | None:
        """Groups admitted so far; None where the state does not say."""
        found = _inside(self.state, "feed", "buffer", "admitted")
        return found if type(found) is int else None


def checkpoint_folders(root: Path) -> list[Path]:
    """Those that are named like one, oldest first; of two of one step the replacement last."""
    if not root.is_dir():
        return []
    named = [folder for folder in root.iterdir() if _NAME.fullmatch(folder.name) and folder.is_dir()]
    return sorted(named, key=lambda one: (layout.step_of(one), one.name))


def look_at_all(root: Path) -> list[Saved]:
    """Every one of them, checked by itself."""
    found = [look_at(folder) for folder in checkpoint_folders(root)]
    return [saved for saved in found if saved.folder.is_dir()]  # a run that goes on removes old ones meanwhile


def look_at(folder: Path) -> Saved:
    """Check one folder by itself."""
    step = layout.step_of(folder)
    try:
        names = _check_marker(folder, step)
        num_bytes = sum(_check_file(folder / name, name, digest) for name, digest in names.items())
        state = _read_state(folder / layout.STATE, step)
    except InputError as error:
        return Saved(folder, step, problem=str(error))
    except OSError as error:
        return Saved(folder, step, problem=f"cannot be read ({error.strerror})")
    there = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    strange = tuple(sorted(there - {*names, layout.COMPLETE}))
    return Saved(folder, step, len(names), num_bytes, state, strange=strange)


def check_checkpoints(subject: Subject, found: list[Saved], last_step: int) -> list[Finding]:
    """`last_step`: how far the run got, by its log."""
    usable = [saved for saved in found if saved.problem is None]
    findings = [_finding(subject, saved, bool(usable)) for saved in found]
    every = 0 if subject.config is None else subject.config.scale.checkpoint_every
    if not any(saved.complete for saved in found):
        if every and last_step > every:
            todo = "copy the folder before --resume: it would begin again at step 0 and forget the logs"
            words = f"none is there, although {last_step:,} steps were made"
            return [*findings, Finding("checkpoints", "error", words, layout.CHECKPOINTS, todo)]
        return [*findings, Finding("checkpoints", "ok", "none yet", layout.CHECKPOINTS)]
    return findings


def _finding(subject: Subject, saved: Saved, another: bool) -> Finding:
    where = f"{layout.CHECKPOINTS}/{saved.folder.name}"
    check = f"checkpoint {saved.step}"
    if saved.problem is not None:
        todo = SET_ASIDE if another or not saved.complete else "go back to a copy: there is no other one to go on from"
        return Finding(check, "error", saved.problem, where, todo)
    try:
        _check_logs(subject.folder, saved)
    except InputError as error:
        todo = f"go back to a copy of the log; or rename the folder to {saved.folder.name}{layout.DAMAGED}"
        return Finding(check, "error", str(error), where, todo)
    if saved.strange:
        words = f"files that its marker does not name: {', '.join(saved.strange[:3])}"
        return Finding(check, "warning", words, where, "nothing, if you put them there")
    return Finding(check, "ok", f"{saved.num_files} files, {_size(saved.num_bytes)}, every digest is right", where)


def _check_logs(folder: Path, saved: Saved) -> None:
    """The lines it refers to are there, and are those of its step."""
    offsets, ledger = saved.offsets, saved.ledger
    if offsets is None or ledger is None:
        raise InputError(f"{layout.STATE} does not say where the logs stood")
    for log, file in _LOGS.items():
        if not offsets[log]:
            if log == "metrics" and saved.step:
                raise InputError(f"it refers to no line of {file}, at step {saved.step:,}")
            continue
        try:
            record = record_ending_at(folder / file, offsets[log])
        except InputError as error:
            raise InputError(f"{file}: {error.what}") from None
        step, booked = step_of(record), ledger_of(record)
        if step is None or booked is None or step > saved.step or (log == "metrics" and step != saved.step):
            raise InputError(f"its line of {file} is of step {step}")
        if log == "metrics" and (booked.generation, booked.training) != (ledger.generation, ledger.training):
            raise InputError(f"its ledger is not that of step {step:,} in {file}")


def _check_marker(folder: Path, step: int) -> dict[str, str]:
    """The digests by name."""
    marker = _json(folder / layout.COMPLETE)
    if not isinstance(marker, dict) or marker.get("format") != layout.FORMAT:
        raise InputError(f"unknown format in {layout.COMPLETE}", allowed=f"format {layout.FORMAT}")
    if marker.get("step") != step:
        raise InputError(f"{layout.COMPLETE} is of step {marker.get('step')!r:.40}")
    files = marker.get("files")
    if not isinstance(files, dict) or layout.STATE not in files:
        raise InputError(f"{layout.COMPLETE} does not name the files")
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise InputError(f"{layout.COMPLETE} names a file elsewhere", name)
    return files


def _check_file(file: Path, name: str, digest: str) -> int:
    """Its size."""
    if not file.is_file():
        raise InputError(f"{name} is missing")
    with file.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
            raise InputError(f"{name} is damaged (wrong SHA-256)")
    return file.stat().st_size


def _read_state(file: Path, step: int) -> dict[str, Any]:
    state = _json(file)
    if not isinstance(state, dict) or not isinstance(state.get("parts"), dict):
        raise InputError(f"{file.name} has no parts")
    if state.get("step") != step:
        raise InputError(f"{file.name} is of step {state.get('step')!r:.40}")
    version = _inside(state["parts"], "feed", "buffer", "version")
    if version is not None and version != step:
        raise InputError(f"{file.name}: the buffer is at version {version!r:.40}")
    parts: dict[str, Any] = state["parts"]
    return parts


def _json(file: Path) -> Any:
    try:
        return json.loads(read_plain(file))
    except FileNotFoundError:
        raise InputError(f"{file.name} is missing") from None
    except (ValueError, RecursionError):
        raise InputError(f"{file.name} is broken") from None


def _inside(values: Any, *names: str) -> Any:
    """The value below these names; None where one is missing."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:,.1f} kB"
