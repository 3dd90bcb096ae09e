"""Calls of the command line as processes that can be killed, a hundred times faster to start than from nothing.

One process imports torch and everything else (Python's own fork server, with `preload`); every call is a fork of it.
`fresh=True` starts `python -m scalerl` from nothing instead: the same command as a user types it. Used by every test of
this folder and by the campaigns; what a run is or should be is not known here.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from .inside import Order, Tampering, obey

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0
"""A process that has not ended by then hangs, however busy the machine is: imports alone took two minutes on one."""
HUNG = -99
"""In the place of an exit code."""

_STARTING = threading.Lock()


@dataclass(frozen=True)
class Ran:
    """What a call did."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str | None:
        """What a command says when it refuses: one line, behind what it said of its progress; None: a traceback, or
        anything else."""
        lines = self.err.splitlines()
        said = [line for line in lines if line.startswith("scalerl: error: ")]
        clean = len(said) == 1 and lines[-1] == said[0] and "Traceback" not in self.err
        return said[0] if clean and self.code != 0 else None


class Call:
    """One process with its group: trainer, generator, and Python's tracker of shared memory."""

    def __init__(self, child: Any, output: Path, token: str) -> None:
        self._child = child
        self._output = output
        self.token = token
        self.pid: int = child.pid
        self._shared: set[str] = set()

    @property
    def out(self) -> str:
        return _text(self._output, ".out")

    @property
    def err(self) -> str:
        return _text(self._output, ".err")

    def running(self) -> bool:
        return _code(self._child) is None

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """The exit code; a process that hangs is killed, and has none (`HUNG`)."""
        if not wait_for(lambda: not self.running(), patience_s):
            self.send(signal.SIGKILL, "group")
            wait_for(lambda: not self.running())
            return HUNG
        code = _code(self._child)
        assert code is not None
        return code

    def group(self) -> dict[int, str]:
        """Processes of the group, by what they are; zombies do not count."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):
                state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.pid and state != "Z":
                    found[int(folder.name)] = self._what(int(folder.name))
        return found

    def send(self, number: int, to: str = "trainer") -> bool:
        """A signal to the trainer, the generator, both (one after the other) or the whole group at once."""
        self._note_shared_memory()
        if to == "group":
            return _sent(os.killpg, self.pid, number)
        roles = {"trainer", "generator"} if to == "both" else {to}
        pids = [pid for pid, what in self.group().items() if what in roles]
        return sum(_sent(os.kill, pid, number) for pid in pids) > 0

    def leftovers(self) -> list[str]:
        """Once the trainer is gone: processes that do not follow it, and names in shared memory."""
        wait_for(lambda: not self.group() and not self._names(), 30.0)
        return [f"process {what} {pid}" for pid, what in self.group().items()] + self._names()

    def clear(self) -> None:
        """Remove what `leftovers` has found."""
        _sent(os.killpg, self.pid, signal.SIGKILL)
        for name in self._names():
            Path(name).unlink(missing_ok=True)

    def _what(self, pid: int) -> str:
        if pid == self.pid:
            return "trainer"
        return "tracker" if b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes() else "generator"

    def _note_shared_memory(self) -> None:
        """Of a process that did not choose its names by our token."""
        with suppress(OSError):
            words = [line.split()[-1] for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines()]
            self._shared |= {word for word in words if word.startswith("/dev/shm/")}

    def _names(self) -> list[str]:
        found = {str(path) for path in Path("/dev/shm").glob(f"*f{self.token}*")}
        return sorted(found | {name for name in self._shared if Path(name).exists()})


class Nursery:
    """`folder`: for what the calls print, their temporary files and their cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        self._environment = {
            "SCALERL_CACHE": str(folder / "cache"), "TMPDIR": str(self.temporary), "COLUMNS": "100",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["tests.faults.preload"])

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        tampering: Sequence[Tampering] = (),
        in_generator: Sequence[Tampering] = (),
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> Call:
        """`scalerl` with these arguments, called in `folder`; not waited for."""
        token = secrets.token_hex(6)
        output = self.folder / f"call-{token}"
        if fresh:
            assert not tampering, "only a fork can be tampered with"
            assert environment is None, "what is started from nothing has the environment of all"
            return Call(self._spawn(arguments, folder, output), output, token)
        own = self._environment | dict(environment or {})
        order = Order(tuple(arguments), str(folder), str(output), token, own, tuple(tampering), tuple(in_generator))
        child = self._context.Process(target=obey, args=(order,))
        with _STARTING, _as_if_no_main(), _importable():
            child.start()
        call = Call(child, output, token)
        wait_for(lambda: not call.running() or _leads_a_group(call.pid))
        return call

    def run(self, arguments: Sequence[str], folder: Path, **options: Any) -> Ran:
        """As `start`, and waited for."""
        call = self.start(arguments, folder, **options)
        return Ran(call.wait(), call.out, call.err)

    def _spawn(self, arguments: Sequence[str], folder: Path, output: Path) -> subprocess.Popen[bytes]:
        with Path(f"{output}.out").open("wb") as out, Path(f"{output}.err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "scalerl", *arguments], cwd=folder, stdout=out, stderr=err, process_group=0,
                env=os.environ | self._environment | {"PYTHONPATH": _search_path()},
            )  # fmt: skip


def wait_for(ready: Callable[[], bool], patience_s: float = PATIENCE_S, pause_s: float = 0.005) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + patience_s
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def _code(child: Any) -> int | None:
    code: int | None = child.poll() if isinstance(child, subprocess.Popen) else child.exitcode
    return code


def _text(output: Path, ending: str) -> str:
    file = Path(f"{output}{ending}")
    return file.read_text(errors="replace") if file.exists() else ""


def _sent(send: Callable[[int, int], None], pid: int, number: int) -> bool:
    try:
        send(pid, number)
    except ProcessLookupError:
        return False
    return True


def _leads_a_group(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getpgid(pid) == pid
    return False


def _search_path() -> str:
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([given] if given else []), str(ROOT), str(ROOT / "src")])


@contextmanager
def _importable() -> Iterator[None]:
    """The fork server finds this folder and the package where we have found them."""
    before: Mapping[str, str] = dict(os.environ)
    os.environ |= {"PYTHONPATH": _search_path(), "OMP_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _as_if_no_main() -> Iterator[None]:
    """A child would import the program that we are: pytest, for example."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
