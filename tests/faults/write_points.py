"""Every operation by which a process writes below a folder, counted; one can be made to fail, or to be the last.

Installed by `tampering.writes`, in a process of its own that ends afterwards: hooks cannot be taken away again. The
operations: a file is opened for writing, written to, cut, brought to the disk; a name is made, renamed, removed;
safetensors and tokenizers write a file by themselves. A write that fails has written half of what it should, as on a
full disk, and so has one that the process does not survive.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Deed = Literal["fail", "kill", "kill_group"]

NO_SPACE_NEEDED = ("truncate", "remove", "rmdir", "chmod")
"""What a full disk does not refuse."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_AUDITED = {"os.rename": 1, "os.mkdir": 0, "os.remove": 0, "os.rmdir": 0, "os.chmod": 0, "os.truncate": 0}
"""Event -> which of its arguments is the path that matters."""
_RANDOM = re.compile(r"(?<=\.)[0-9a-z_]{8}(?=\.partial)|(?<=/\.)[0-9a-f]{16}(?=\.tmp)")


@dataclass
class WritePoints:
    """`at`: the operation that is struck, from 1; 0: none, they are only counted."""

    root: str
    at: int = 0
    error: int = errno.ENOSPC
    lasting: bool = False
    """Every later operation fails too."""
    deed: Deed = "fail"
    seen: list[str] = field(default_factory=list)
    """Operation and path, in their order."""
    _muted: bool = False

    def install(self) -> None:
        sys.addaudithook(self._audit)
        for module in (builtins, io):
            setattr(module, "open", self._open)  # noqa: B010  # mypy knows these modules too well
        os.fsync = _before(os.fsync, lambda number: self.point("fsync", _path_of(number)))
        os.sendfile = _before(os.sendfile, lambda number: self.point("write", _path_of(number)))  # by shutil
        self._install_in_libraries()

    def point(self, operation: str, path: str, half: Callable[[], object] | None = None) -> None:
        """Called before each operation; `half`: what it has done by the time that it fails."""
        if self._muted or not (path + os.sep).startswith(self.root + os.sep):
            return
        self.seen.append(f"{operation} {_RANDOM.sub('*', os.path.relpath(path, self.root))}")
        if not self._strikes(operation):
            return
        if half is not None:
            self._muted = True
            half()
            self._muted = False
        if self.deed == "fail":
            raise OSError(self.error, os.strerror(self.error), path)
        (os.killpg if self.deed == "kill_group" else os.kill)(os.getpid(), signal.SIGKILL)

    def save(self, log: str) -> None:
        """Outside of the folder that is watched."""
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as stream:
            json.dump(self.seen, stream)

    def _strikes(self, operation: str) -> bool:
        if self.at == 0 or (operation in NO_SPACE_NEEDED and self.error == errno.ENOSPC and self.deed == "fail"):
            return False
        return len(self.seen) == self.at or (self.lasting and len(self.seen) > self.at)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and isinstance(path, str | bytes | os.PathLike):
                self.point("open", _absolute(path))
        elif event in _AUDITED:
            place = _AUDITED[event]
            folder = arguments[-1] if isinstance(arguments[-1], int) else -1
            self.point(event.removeprefix("os."), _absolute(arguments[place], folder))

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
        """As the builtin; a file that is written to is one of ours."""
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return _REAL_OPEN(file, mode, buffering, *rest, **options)
        raw = _File(file, mode.replace("b", "").replace("t", ""), self)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)

    def _install_in_libraries(self) -> None:
        """They write in Rust, where no hook reaches."""
        from safetensors import SafetensorError
        from transformers import PreTrainedTokenizerFast

        tensors_of: Any = import_module("safetensors.torch")
        tokenizers: Any = PreTrainedTokenizerFast
        serialize, tokenize = tensors_of.serialize_file, tokenizers._save_pretrained

        def serialize_file(tensors: Any, filename: Any, **options: Any) -> Any:
            try:
                self.point("write", _absolute(filename), lambda: _write_half(filename, b"tensors" * 99))
            except OSError as error:
                raise SafetensorError(f"Error while serializing: I/O error: {_rust(error)}") from None
            return serialize(tensors, filename, **options)

        def save_tokenizer(self_: Any, save_directory: Any, *rest: Any, **options: Any) -> Any:
            file = Path(save_directory) / "tokenizer.json"
            try:
                self.point("write", _absolute(file), lambda: _write_half(file, b"{" * 99))
            except OSError as error:
                raise Exception(_rust(error)) from None  # noqa: TRY002  # that is what tokenizers raises
            return tokenize(self_, save_directory, *rest, **options)

        tensors_of.serialize_file = serialize_file
        tokenizers._save_pretrained = save_tokenizer


class _File(io.FileIO):
    """A file whose writes are points."""

    def __init__(self, file: Any, mode: str, points: WritePoints) -> None:
        super().__init__(file, mode)
        self._points = points
        self._path = _absolute(file)

    def write(self, data: Any, /) -> int:
        half = bytes(memoryview(data)[: len(memoryview(data)) // 2])
        self._points.point("write", self._path, lambda: io.FileIO.write(self, half))
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        self._points.point("truncate", self._path)
        return super().truncate(size)


_REAL_OPEN = io.open


def _before(function: Callable[..., Any], point: Callable[[Any], None]) -> Callable[..., Any]:
    def call(first: Any, *rest: Any, **options: Any) -> Any:
        point(first)
        return function(first, *rest, **options)

    return call


def _absolute(path: Any, folder: int = -1) -> str:
    """Links are not followed: what is renamed or removed is the name."""
    text = os.fsdecode(path) if not isinstance(path, int) else _path_of(path)
    return os.path.normpath(Path(_path_of(folder) if folder >= 0 else Path.cwd()) / text)


def _path_of(number: Any) -> str:
    try:
        return str(Path(f"/proc/self/fd/{number if isinstance(number, int) else number.fileno()}").readlink())
    except OSError:
        return ""


def _write_half(file: Any, content: bytes) -> None:
    with io.FileIO(file, "w") as stream:
        stream.write(content)


def _rust(error: OSError) -> str:
    return f"{error.strerror} (os error {error.errno})"
