"""One process for each run directory: an advisory lock that the kernel drops when its holder dies, even by kill -9.

Used by the run directory and by the status. The lock is `flock` on a file that also says who holds it; the file stays
behind when the lock is gone and means nothing by itself. A holder must not fork and outlive itself: a child that
inherits the open file would keep the lock (processes that are spawned inherit nothing). Needs a POSIX system.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from socket import gethostname

from scalerl.errors import InputError, StorageError
from scalerl.plain_file import check_ours, check_readable

_PATIENCE_S = 0.3
"""Whoever asks for the status holds the lock for an instant; a real holder holds it for longer than this."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as far as the file says."""

    pid: int | None
    host: str | None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid is not None else "another process"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock, or `InputError` that names the process which does."""
    try:
        check_ours(path)  # who holds it is written there, over whatever it was
        stream = path.open("a+b", buffering=0)
    except OSError as error:
        raise StorageError.of(error, path) from None
    with stream:
        if not _take(stream):
            allowed = "one process at a time; wait for it, or stop it"
            raise InputError("the run directory is in use", str(_read(stream)), allowed, str(path.parent))
        _write(stream, json.dumps({"pid": os.getpid(), "host": gethostname()}))
        try:
            yield
        finally:
            _write(stream, "")


def holder(path: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does."""
    import fcntl

    try:
        check_readable(path)
        stream = path.open("rb", buffering=0)
    except OSError:  # not there, or not ours to read: nothing is known to run
        return None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _read(stream)
    return None


def _take(stream: FileIO) -> bool:
    import fcntl

    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _read(stream: FileIO) -> Holder:
    stream.seek(0)
    try:
        values = json.loads(stream.read())
        return Holder(int(values["pid"]), str(values["host"]))
    except (ValueError, TypeError, KeyError):  # the holder is just writing it
        return Holder(None, None)


def _write(stream: FileIO, text: str) -> None:
    """Who holds it is only said for messages: a full disk does not matter here."""
    try:
        stream.truncate(0)
        stream.write(text.encode())
    except OSError:
        return
