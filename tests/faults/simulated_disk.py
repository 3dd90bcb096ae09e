"""A disk that loses power: records what a program does to the files below a folder, and what of it a cut leaves.

Used by `test_power_cut`. What counts as being on the disk is what POSIX promises and no more: the content of a file
after an fsync of the file, the names in a folder after an fsync of the folder. Of what came later there may be
anything: of a file any of its later states, torn in the middle, its end perhaps full of zeros; of the names in a folder
any number of the later changes, in their order. Folders do not wait for each other, nor names for contents.

The program is not asked to use anything: the functions of `os` that change names or wait for the disk are wrapped, the
tree is looked at before and after each call, and whenever a file is opened, so that what others write (safetensors) is
seen as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

Mode = Literal["nothing", "everything", "some"]
"""What is left of that which nobody waited for."""
_CALLS = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir")
ROOT = 0
"""The folder that was there before."""


@dataclass(frozen=True)
class Content:
    """A file has this content now, in memory."""

    file: int
    data: bytes


@dataclass(frozen=True)
class Names:
    """Names in a folder that mean something else now; None: nothing."""

    folder: int
    changes: dict[str, int | None]


@dataclass(frozen=True)
class Sync:
    """A file, or the names in a folder, are on the disk."""

    of: int


@dataclass(frozen=True)
class Promise:
    """Whatever happens from now on, this must be found again."""

    what: str
    value: Any


Operation = Content | Names | Sync | Promise


@dataclass
class Recorder:
    """What happens below a folder, in order."""

    root: Path
    operations: list[Operation] = field(default_factory=list)
    folders: set[int] = field(default_factory=lambda: {ROOT})
    paths: dict[int, str] = field(default_factory=dict)
    """Where something was seen last."""
    _known: dict[int, int] = field(default_factory=dict)  # number by inode
    _count: int = ROOT
    _names: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    _data: dict[int, bytes] = field(default_factory=dict)
    _looking: bool = False

    def promise(self, what: str, value: Any = None) -> None:
        self.look()
        self.operations.append(Promise(what, value))

    @contextmanager
    def recording(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, self._watched(getattr(os, name)))
            patch.setattr(os, "fsync", self._synced(os.fsync))
            patch.setattr(Path, "open", self._watched(Path.open))
            yield
        self.look()

    def look(self) -> None:
        """Note what has changed since the last time."""
        if self._looking:
            return
        self._looking = True
        try:
            self._look_at_tree()
        finally:
            self._looking = False

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.look()
            result = call(*arguments, **options)
            self.look()
            return result

        return watched

    def _synced(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def synced(handle: Any) -> None:
            self.look()
            call(handle)
            number = handle if isinstance(handle, int) else handle.fileno()
            if (found := self._known.get(os.fstat(number).st_ino)) is not None:
                self.operations.append(Sync(found))

        return synced

    def _look_at_tree(self) -> None:
        self._known[self.root.stat().st_ino] = ROOT
        seen = {self.root.stat().st_ino}
        waiting = [(self.root, ROOT)]
        while waiting:
            place, number = waiting.pop()
            found: dict[str, int] = {}
            for entry in os.scandir(place):
                inode = entry.inode()
                seen.add(inode)
                found[entry.name] = self._number(inode, entry.is_dir(follow_symlinks=False))
                self.paths[found[entry.name]] = os.path.relpath(entry.path, self.root)
                if found[entry.name] in self.folders:
                    waiting.append((Path(entry.path), found[entry.name]))
                else:
                    self._note_content(found[entry.name], entry.path)
            self._note_names(number, found)
        self._known = {inode: number for inode, number in self._known.items() if inode in seen}  # inodes are used again

    def _number(self, inode: int, is_folder: bool) -> int:
        if inode not in self._known:
            self._count += 1
            self._known[inode] = self._count
            if is_folder:
                self.folders.add(self._count)
                self._names[self._count] = {}
        return self._known[inode]

    def _note_content(self, file: int, path: str) -> None:
        with open(path, "rb") as stream:  # noqa: PTH123  # Path.open is being watched
            data = stream.read()
        if self._data.get(file, b"") != data:
            self._data[file] = data
            self.operations.append(Content(file, data))

    def _note_names(self, folder: int, found: dict[str, int]) -> None:
        before = self._names[folder]
        changes = {name: found.get(name) for name in {*before, *found} if before.get(name) != found.get(name)}
        if changes:
            self._names[folder] = found
            self.operations.append(Names(folder, changes))


class Disk:
    """What is on the disk after some operations, and what may be."""

    def __init__(self, folders: set[int]) -> None:
        self._folders = folders
        self._data: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int | None]] = {}
        self._later_data: dict[int, list[bytes]] = {}
        self._later_names: dict[int, list[dict[str, int | None]]] = {}

    def apply(self, operation: Operation) -> None:
        match operation:
            case Content(file, data):
                self._later_data.setdefault(file, []).append(data)
            case Names(folder, changes):
                self._later_names.setdefault(folder, []).append(changes)
            case Sync(number):
                for changes in self._later_names.pop(number, []):
                    self._names.setdefault(number, {}).update(changes)
                if later := self._later_data.pop(number, []):
                    self._data[number] = later[-1]
            case Promise():
                pass

    def cut(self, target: Path, mode: Mode, rng: Random) -> None:
        """Switch off: what is found when the power is back, as a tree at `target`."""
        self._write(ROOT, target, mode, rng)

    def _write(self, number: int, target: Path, mode: Mode, rng: Random) -> None:
        if number not in self._folders:
            target.write_bytes(self._content(number, mode, rng))
            return
        target.mkdir()
        names = dict(self._names.get(number, {}))
        later = self._later_names.get(number, [])
        for changes in later[: _how_many(later, mode, rng)]:
            names.update(changes)
        for name, found in sorted(names.items()):
            if found is not None:
                self._write(found, target / name, mode, rng)

    def _content(self, file: int, mode: Mode, rng: Random) -> bytes:
        states = [self._data.get(file, b""), *self._later_data.get(file, [])]
        reached = _how_many(states[1:], mode, rng)
        data = states[reached]
        if mode != "some" or not reached:
            return data
        before = states[reached - 1]
        shared = len(before) if data.startswith(before) else 0
        kept = data[: rng.randint(shared, len(data))]
        return kept.ljust(rng.randint(len(kept), len(data)), b"\0") if rng.random() < 0.25 else kept


def _how_many(later: list[Any], mode: Mode, rng: Random) -> int:
    return {"nothing": 0, "everything": len(later), "some": rng.randint(0, len(later))}[mode]
