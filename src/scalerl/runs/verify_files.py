"""The small files of a run directory, and the names in it: config, provenance, how it ended, events, leftovers.

Called by `verify`. The logs are `verify_steps`, the checkpoints `verify_checkpoints`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.folder import PARTIAL
from scalerl.plain_file import check_ours, read_plain
from scalerl.runs import layout
from scalerl.runs.directory import RunDirectory, read_sessions
from scalerl.runs.verify_findings import Finding, Subject, Tally
from scalerl.runs.verify_lines import read_lines, step_of
from scalerl.runs.verify_steps import NO_REMEDY, torn_finding

REASONS = ("budget", "exhausted", "interrupted", "guard")
EVENTS_REMEDY = "mend the line, or move the file away: --resume counts the roll backs in it, and forgets them with it"
_FILES = {
    layout.CONFIG, layout.PROVENANCE, layout.LOCK, layout.STOPPED, layout.METRICS, layout.EVALS, layout.EVENTS,
    layout.EVALUATIONS, layout.CHECKPOINTS, layout.INSPECTION,
}  # fmt: skip
_WRITTEN = (layout.LOCK, layout.METRICS, layout.EVALS, layout.EVENTS)
_FOLDERS = (layout.CHECKPOINTS, layout.EVALUATIONS, layout.INSPECTION)


def check_config(folder: Path) -> tuple[Finding, RunConfig | None]:
    """Whether it can be read and is the one that the run began with."""
    try:
        json.loads(read_plain(folder / layout.CONFIG))
        directory = RunDirectory.open(folder)
    except FileNotFoundError:
        return Finding("config", "error", "missing", layout.CONFIG, NO_REMEDY), None
    except InputError as error:
        return Finding("config", "error", error.what, layout.CONFIG, error.allowed or NO_REMEDY), None
    except OSError as error:
        words = f"cannot be read ({error.strerror})"
        return Finding("config", "error", words, layout.CONFIG, "look after the disk and its permissions"), None
    except (ValueError, RecursionError) as error:
        return Finding("config", "error", f"broken JSON ({error})", layout.CONFIG, NO_REMEDY), None
    return Finding("config", "ok", f"identity {directory.identity[:12]}", layout.CONFIG), directory.config


def check_provenance(folder: Path) -> Finding:
    """Which sessions there were."""
    try:
        sessions = read_sessions(folder)
    except InputError as error:
        todo = "move it away: nothing else depends on it, and the next session begins a new one"
        return Finding("provenance", "error", error.what, layout.PROVENANCE, todo)
    if not sessions:
        return Finding("provenance", "warning", "missing: nobody knows where it was run", layout.PROVENANCE)
    named = [_started(session) for session in sessions]
    if None in named:
        return Finding("provenance", "warning", "a session without its beginning", layout.PROVENANCE)
    many = f"{len(sessions)} sessions, the last" if len(sessions) > 1 else "one session,"
    return Finding("provenance", "ok", f"{many} begun {named[-1]}", layout.PROVENANCE)


def _started(session: object) -> str | None:
    found = session.get("started") if isinstance(session, dict) else None
    return found if isinstance(found, str) else None


def read_ending(folder: Path) -> dict[str, Any] | None:
    """What stopped.json says; None while a session runs and after a crash. `InputError` when it is broken."""
    try:
        found = json.loads(read_plain(folder / layout.STOPPED))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise InputError("broken JSON") from None
    if not isinstance(found, dict) or found.get("reason") not in REASONS or type(found.get("step")) is not int:
        raise InputError("no reason, or no step")
    return found


def check_ending(subject: Subject, last_step: int, newest: int | None) -> Finding:
    """`newest`: the step of the newest checkpoint that can be used."""
    try:
        ending = read_ending(subject.folder)
    except InputError as error:
        todo = "remove it: the run then counts as crashed, and --resume goes on"
        return Finding("ending", "error", error.what, layout.STOPPED, todo)
    if ending is None:
        if subject.held:
            return Finding("ending", "ok", "it is running", layout.STOPPED)
        if not last_step and newest is None:
            return Finding("ending", "ok", "it has not begun", layout.STOPPED)
        words = "the last session was cut off: killed, or the machine went down"
        return Finding("ending", "warning", words, None, "scalerl train --resume goes on")
    reason, step = ending["reason"], ending["step"]
    if last_step > step:
        words = f"it ended at step {step:,}, but there is a step {last_step:,}: the session behind it was cut off"
        return Finding("ending", "warning", words, layout.STOPPED, "scalerl train --resume goes on")
    if last_step < step:
        words = f"it ended at step {step:,}, but the last line is of step {last_step:,}"
        return Finding("ending", "error", words, layout.STOPPED, NO_REMEDY)
    if newest != step:
        found = "no checkpoint can be used" if newest is None else f"the newest usable checkpoint is of step {newest:,}"
        todo = "scalerl train --resume makes the steps behind it again"
        return Finding("ending", "error", f"it ended at step {step:,}, but {found}", layout.STOPPED, todo)
    return Finding("ending", "ok", f"{reason}, at step {step:,}", layout.STOPPED)


def check_events(subject: Subject) -> list[Finding]:
    """events.jsonl: never cut back, so every line counts."""
    tally, torn, num = Tally("events", layout.EVENTS, EVENTS_REMEDY), None, 0
    for line in read_lines(subject.folder / layout.EVENTS):
        if line.torn:
            torn = torn_finding("events", layout.EVENTS, line, subject)
            continue
        num += 1
        if line.record is None:
            tally.wrong(f"line {line.number:,}: {line.problem}")
        elif step_of(line.record) is None or not all(
            isinstance(line.record.get(name), str) for name in ("time", "event", "message")
        ):
            tally.wrong(f"line {line.number:,}: no time, step, event or message")
    found = [tally.finding(f"{num:,} events")]
    return found if torn is None else [*found, torn]


def check_leftovers(subject: Subject) -> list[Finding]:
    """What a crash left behind, what was set aside, and what is not ours."""
    left = [_name(subject.folder, path) for path in leftovers(subject.folder)]
    aside = [_name(subject.folder, path) for path in _entries(subject.folder) if layout.DAMAGED in path.suffixes]
    strange = sorted(path.name for path in subject.folder.iterdir() if path.name not in _FILES)
    strange = [name for name in strange if not name.endswith(PARTIAL)]
    found = _not_ours(subject.folder)
    if left and not subject.held:
        words = f"{len(left)} that a crash left behind: {_some(left)}"
        found.append(Finding("leftovers", "warning", words, None, "nothing: nobody reads them; or --repair"))
    if strange:
        words = f"{len(strange)} that no run has written: {_some(strange)}"
        found.append(Finding("leftovers", "warning", words, None, "nothing, if you put them there"))
    if aside:
        words = f"{len(aside)} set aside as damaged: {_some(aside)}"
        found.append(Finding("leftovers", "ok", words, None, "remove them when you do not need them"))
    return found or [Finding("leftovers", "ok", "none")]


def _not_ours(folder: Path) -> list[Finding]:
    """What is written to, and would be refused by whoever goes on with the run."""
    found = []
    for name in _WRITTEN:
        try:
            check_ours(folder / name)
        except OSError as error:
            todo = "put the file itself there, if you know it; --resume and --repair write to nothing else"
            found.append(Finding("leftovers", "error", str(error.strerror), name, todo))
    return found


def leftovers(folder: Path) -> list[Path]:
    """Files and folders that are not complete, and replacements that were not finished."""
    endings = (PARTIAL, layout.NEXT)
    return [path for path in _entries(folder) if path.name.endswith(endings)]


def _entries(folder: Path) -> Iterator[Path]:
    for place in (folder, *(folder / name for name in _FOLDERS)):
        if place.is_dir():
            yield from sorted(place.iterdir())


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
