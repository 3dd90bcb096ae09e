"""What the tests of verifiers share: the sandbox of this machine, and a look at who is still running."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.verify.bubblewrap import bubblewrap
from scalerl.verify.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return bubblewrap()
    except InputError as error:
        pytest.skip(str(error))


def children() -> set[int]:
    """Our own child processes, by the kernel's account."""
    found = {int(number) for task in Path("/proc/self/task").glob("*/children") for number in task.read_text().split()}
    return {number for number in found if alive(number)}


def alive(process: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def gone(processes: set[int], within_s: float = 30.0) -> bool:
    """Whether all of them end soon."""
    deadline = time.monotonic() + within_s
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def started() -> Iterator[Callable[[], set[int]]]:
    """The processes that the test has started so far. At its end there must be none."""
    before = children()
    yield lambda: children() - before
    assert children() - before == set()
