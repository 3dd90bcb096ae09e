"""One process for each run directory, whatever becomes of the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.runs.lock import holder, locked

HOLD = (
    "import sys, time; from pathlib import Path; from scalerl.runs.lock import locked\n"
    "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
)


@contextmanager
def another(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_second_process_is_told_who_the_first_is(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with another(lock) as first:
        held = holder(lock)
        assert held is not None
        assert held.pid == first.pid
        message = rf"the run directory is in use: got 'process {first.pid} on .+'; allowed: one process at a time"
        with pytest.raises(InputError, match=message), locked(lock):
            pytest.fail("both have it")


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with another(lock) as first:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert lock.read_bytes()
        assert holder(lock) is None
        with locked(lock):
            held = holder(lock)
            assert held is not None
            assert held.pid == os.getpid()


def test_it_is_given_back(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert holder(lock) is None
    with pytest.raises(KeyError), locked(lock):
        raise KeyError
    assert holder(lock) is None
    with locked(lock):
        assert holder(lock) is not None


def test_twice_in_one_process_is_refused_too(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(InputError, match="in use"), locked(tmp_path / "lock"):
        pytest.fail("both have it")
