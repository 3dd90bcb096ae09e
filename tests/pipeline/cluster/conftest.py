"""A real Ray cluster on this machine: `make test-ray`. The rest of the tests run without it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scalerl.policy.load import Progress

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Of a head node with room for four actors."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    yield cluster.address
    cluster.shutdown()  # type: ignore[no-untyped-call]


class Heard:
    """A watcher that remembers notices and steps, and does something after a step, or while an evaluation is made."""

    def __init__(
        self,
        after_step: Callable[[int], None] = lambda _: None,
        generating: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self.notices: list[str] = []
        self.steps: list[int] = []
        self._after_step = after_step
        self._generating = generating

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def stepped(self, record: Any) -> None:
        self.steps.append(record.step)
        self._after_step(record.step)

    def preparing(self, progress: Progress) -> None: ...

    def started(self, step: int, *_: Any) -> None: ...

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None:
        assert num_finished <= num_wanted
        self._generating(version, num_finished)

    def evaluated(self, point: Any) -> None: ...

    def saved(self, step: int, folder: Path) -> None: ...

    def noticed(self, event: Any) -> None: ...

    def stopped(self, *_: Any) -> None: ...


@pytest.fixture
def heard() -> type[Heard]:
    return Heard


@pytest.fixture
def metrics() -> Callable[[Path], list[dict[str, Any]]]:
    def read(folder: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    return read


def processes(name: str) -> list[int]:
    """Of actors of a kind, as Ray names them; the oldest first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
            if line.startswith(f"ray::{name}"):
                found.append((folder.stat().st_ctime, int(folder.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for _, pid in sorted(found)]


@pytest.fixture
def actors() -> Callable[[str], list[int]]:
    return processes


@pytest.fixture
def kill() -> Callable[[str], bool]:
    """Kill the oldest actor of a kind; False: there is none now."""

    def kill_one(name: str) -> bool:
        for pid in processes(name):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    return kill_one


@pytest.fixture
def gone() -> Callable[[str], bool]:
    """Whether all actors of a kind are gone, or will be within half a minute."""

    def wait(name: str) -> bool:
        end_s = time.monotonic() + 30
        while processes(name) and time.monotonic() < end_s:
            time.sleep(0.2)
        return not processes(name)

    return wait
