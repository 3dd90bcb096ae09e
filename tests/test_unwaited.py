"""Work that nobody waits for: it does not keep a process, and it does not spoil the way the process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

NATIVE = """
import sys, threading, time
import numpy as np, scipy.fft
from scalerl import cli
from scalerl.unwaited import Unwaited

begun, row = threading.Event(), np.zeros(1 << 16)

def work():
    while True:
        scipy.fft.rfft(row)  # C++: a thread that Python ends in here takes the process with it
        begun.set()

Unwaited(work).start()
begun.wait()
"""


def ended(lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NATIVE + lines], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("attempt", range(3))
def test_a_command_ends_as_it_says_whatever_is_at_work(attempt: int) -> None:
    del attempt
    done = ended("sys.argv = ['scalerl', 'fit', 'no-such-file.csv']\nsys.exit(cli.main())")
    assert done.returncode == 2
    assert "no-such-file.csv" in done.stderr


def test_what_was_printed_is_not_lost() -> None:
    done = ended("sys.argv = ['scalerl', '--version']\nsys.stdout.write('before ')\nsys.exit(cli.main())")
    assert done.returncode == 0
    assert done.stdout.startswith("before scalerl ")


def test_a_command_called_by_others_does_not_end_their_process() -> None:
    done = ended("print(cli.main(['--version']), flush=True)\nimport os\nos._exit(7)")
    assert done.returncode == 7
    assert done.stdout.splitlines()[-1] == "0"
