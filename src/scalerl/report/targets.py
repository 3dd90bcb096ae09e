"""Which runs there are to follow, and which of them have changed: size, time and inode of their files, nothing more.

Asked by `follow` about once a second, so it must cost milliseconds for fifty runs. It opens no log and fits nothing. A
folder that holds runs (our own run directories, folders with TensorBoard event files, outputs of the Hugging Face
Trainer) stands for all of them, also for those that appear later. Others' runs are known by the names of their files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.logs.hugging_face import FILE as TRAINER_STATE
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import layout
from scalerl.runs.lock import holder

DEEPEST = 4
"""Levels of folders below a target that are looked into."""
MOST_FILES = 5000
"""Of one target: a folder with more is somebody's home, not a log."""
ONLINE_EVERY_S = 60.0
"""A log behind a network has no files to look at: it counts as changed so often."""
EVENTS = "tfevents"
"""In the name of every TensorBoard event file."""
_OWN = (layout.CONFIG, layout.EVALS, layout.METRICS, layout.STOPPED)

FileStamp = tuple[str, int, int, int]


@dataclass(frozen=True)
class Stamp:
    """What the files of a target look like from outside; equal stamps: nothing has happened."""

    files: tuple[FileStamp, ...]
    """(name, size, time in ns, inode) of each."""
    running: bool = False
    """Of our own runs: whether a process holds the lock, which leaves no trace in a file when it dies."""

    @property
    def size(self) -> int:
        return sum(size for _, size, _, _ in self.files)


@dataclass
class Targets:
    """What the user has asked to watch."""

    given: tuple[str, ...]
    _known: dict[str, None] = field(default_factory=dict)
    """Every run ever seen, in the order of appearance: one that vanishes may come back."""
    _own: set[str] = field(default_factory=set)
    """Those that are, or were, run directories of ours: one that is being replaced is not somebody else's log."""
    _configs: dict[str, tuple[int, int, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "-" in self.given:
            raise InputError("standard input cannot be watched", "-", "files, folders or logs: they can be read again")
        repeated = [one for index, one in enumerate(self.given) if one in self.given[:index]]
        if repeated:
            raise InputError("the same target twice", repeated[0], "each target once")

    def poll(self) -> dict[str, Stamp | None]:
        """Every run by its path with its present stamp; None: its files are not there (yet, or any more)."""
        for target in self.given:
            found = [target] if is_online(target) else sorted(self._runs_in(Path(target), DEEPEST)) or [target]
            self._known |= dict.fromkeys(found)
            if found != [target]:
                self._known.pop(target, None)  # a folder that held nothing yet was shown under its own name
        return {path: self._stamp(path) for path in self._known}

    def is_run(self, path: str) -> bool:
        """One of our own run directories."""
        return not is_online(path) and self._is_run(Path(path))

    def _stamp(self, path: str) -> Stamp | None:
        if is_online(path):
            return Stamp(((path, 0, int(time.monotonic() // ONLINE_EVERY_S), 0),))
        if self._is_run(Path(path)):
            self._own.add(path)
            names = (os.path.join(path, name) for name in _OWN)  # noqa: PTH118
            return Stamp(tuple(_looks(names)), holder(Path(path) / layout.LOCK) is not None)
        files = () if path in self._own else tuple(_looks(_files(path, DEEPEST)))
        return Stamp(files) if files else None

    def _runs_in(self, folder: Path, levels: int) -> Iterator[str]:
        """Runs in and below a folder; nothing is looked for inside a run, and links are not followed."""
        if self._is_run(folder):
            yield str(folder)
            return
        entries = _entries(str(folder))
        if any(EVENTS in entry.name for entry in entries):
            yield str(folder)
            return
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")]
        checkpoints = [entry for entry in folders if entry.name.startswith("checkpoint-")]
        found: list[str] = []
        if levels:
            below = (entry for entry in folders if entry not in checkpoints)
            found = [run for entry in below for run in self._runs_in(Path(entry.path), levels - 1)]
        states = [os.path.join(place, TRAINER_STATE) for place in (folder, *checkpoints)]  # noqa: PTH118
        is_trainers = any(map(os.path.exists, states))
        yield from found or ([str(folder)] if is_trainers else [])  # event files are written more often than states

    def _is_run(self, folder: Path) -> bool:
        """Its config is only read again when it has changed."""
        try:
            state = (folder / layout.CONFIG).stat()
        except (OSError, ValueError):  # not there, or no name that a file can have
            self._configs.pop(str(folder), None)
            return False
        known = self._configs.get(str(folder))
        if known is None or known[:2] != (state.st_mtime_ns, state.st_ino):
            known = (state.st_mtime_ns, state.st_ino, is_run_directory(folder))
            self._configs[str(folder)] = known
        return known[2]


def is_online(target: str) -> bool:
    """`wandb:entity/project/run` and web addresses."""
    return target.startswith(("wandb:", "http://", "https://"))


def ends_in_a_line(path: str, stamp: Stamp) -> bool:
    """Whether the last line of a text file is complete; for folders and empty files there is nothing to wait for."""
    if len(stamp.files) != 1 or stamp.files[0][0] != path:
        return True
    try:
        with Path(path).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 1))
            last = stream.read(1)
    except OSError:  # gone since: the next poll will tell
        return True
    return last in {b"", b"\n"}


def _looks(paths: Iterator[str]) -> Iterator[FileStamp]:
    for path in paths:
        try:
            state = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            continue
        yield path, state.st_size, state.st_mtime_ns, state.st_ino


def _files(path: str, levels: int, room: list[int] | None = None) -> Iterator[str]:
    room = [MOST_FILES] if room is None else room
    if not os.path.isdir(path):  # noqa: PTH112
        yield path
        return
    for entry in sorted(_entries(path), key=lambda entry: entry.name):
        if entry.is_file() and room[0] > 0:
            room[0] -= 1
            yield entry.path
        elif levels and entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path, levels - 1, room)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (OSError, ValueError):  # not there, not a folder, or not ours to look into
        return []
