"""A trainer as a child process: started under a keeper, with a lock on its job, its output in a file.

Used by the runners to start, by `workers` to wait and stop, by `status` to see what runs. The lock (`flock` on
jobs/NAME/lock) is held by the keeper and the trainer, not by us: when we are killed, it says truly who still works
there, and two never do. What is trained is not known here. Needs a POSIX system.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from scalerl.errors import InputError, StorageError
from scalerl.redaction import without_secrets
from scalerl.runs.lock import Holder, holder

LOCK, OUTPUT = "lock", "output.txt"
GRACE_S = 120.0
"""How long a trainer may take to save once it was asked to stop."""
HEADER = "== scalerl study: "
"""Begins the line of output.txt that tells one start of the trainer from the next."""

_KEEPER = Path(__file__).with_name("keeper.py")
_PATIENCE_S = 0.5
"""Whoever asks for the status holds the lock for an instant."""
_ONE = "one process at a time; wait for it, or stop it"
_LONGEST_LINE = 300
_TAIL_BYTES = 1 << 14


class Child:
    """A trainer under way."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        """The exit code; None while it runs. 128 + n: ended by signal n."""
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return code if code is None or code >= 0 else 128 - code

    def stop(self) -> None:
        """Ask it to save and end: the keeper does the rest."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End it and all it has started, at once."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.stop()


def start_child(command: Sequence[str], place: Path, title: str, environment: Mapping[str, str] | None = None) -> Child:
    """Start a command that works on the job in `place`; what it prints goes to the end of output.txt."""
    lock = _take(place / LOCK)
    try:
        with (place / OUTPUT).open("ab") as output:
            output.write(f"{HEADER}{title}\n".encode())
            output.flush()
            process = subprocess.Popen(  # noqa: S603  # the user's own command, without a shell
                [sys.executable, "-I", "-S", str(_KEEPER), str(lock), str(GRACE_S), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
                env=os.environ | dict(environment or {}),
            )
    except OSError as error:
        raise StorageError.of(error, place / OUTPUT) from None
    finally:
        os.close(lock)  # the keeper has it now
    return Child(process)


def worker_of(place: Path) -> Holder | None:
    """Who works on a job now; None when nobody does."""
    return holder(place / LOCK)


def end_worker(place: Path, patience_s: float = 10.0) -> None:
    """Wait until nobody works on a job any more: first for one that notices by itself, then by asking, then by force.

    Only for a worker whose starter is gone. One on another machine is waited for, because it cannot be reached.
    """
    for number, wait_s in ((None, patience_s), (signal.SIGTERM, GRACE_S), (signal.SIGKILL, 10.0)):
        held = worker_of(place)
        if held is None:
            return
        if held.pid is not None and number is not None and held.host == gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(held.pid, number)  # the group's number is not given away while one of it lives
        if _free_within(place, wait_s):
            return
    raise InputError("still in use", str(worker_of(place)), _ONE, str(place))


def last_words(place: Path) -> str | None:
    """The last line of the output since the last start, which is kept and shown: without keys in it."""
    try:
        with (place / OUTPUT).open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return None
    lines = [" ".join(line.split()) for line in text.rpartition(HEADER)[2].splitlines()]
    said = [line for line in (lines[1:] if HEADER in text else lines) if line]
    return without_secrets(said[-1])[:_LONGEST_LINE] if said else None


def _take(path: Path) -> int:
    """The lock, as a descriptor to be inherited."""
    import fcntl

    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StorageError.of(error, path) from None
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise InputError("the job is in use", str(holder(path)), _ONE, str(path.parent)) from None
            time.sleep(0.02)
        else:
            _blame_nobody(lock, path)
            return lock


def _blame_nobody(lock: int, path: Path) -> None:
    """Whoever held it before is gone."""
    try:
        os.ftruncate(lock, 0)
    except OSError as error:
        os.close(lock)
        raise StorageError.of(error, path) from None


def _free_within(place: Path, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while worker_of(place) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
