"""Where programs that a model wrote are run: a bubblewrap sandbox, or, only if the user insists, a plain process.

Used by `programs`. The sandbox has no network, a read-only view of the system without home and without this package, a
small private /tmp, its own processes, and limits on time, memory, processes and output. Every way a program can end is
a status; none is an exception. What a program should have written is never known inside.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from scalerl.verify.process import Conversation, NoReplyError

Ending = Literal[
    "finished", "failed", "time_limit", "memory_limit", "process_limit", "output_limit", "ended", "broken"
]  # fmt: skip
ENDINGS: tuple[Ending, ...] = get_args(Ending)

START_S = 60.0
WALL_FACTOR = 4.0
"""On the clock a test may take so many times its processor time: other processes want the cores too."""
GRACE_S = 5.0
"""The sandbox's own limit comes first; after this much more it is killed from outside."""

OWN_PROCESSES = 3
"""bubblewrap, the runner and the program count too."""

LEAVE_S = 2.0
"""What is killed instead leaves a dead process for others to bury, and in some containers nobody does."""

_RUNNER = Path(__file__).with_name("runner.py")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp", "PYTHONHASHSEED": "0"}  # noqa: S108


@dataclass(frozen=True)
class Limits:
    """Of one test."""

    cpu_s: float = 5.0
    """Processor time of a process."""
    memory_mb: int = 512
    """Of a process."""
    processes: int = 8
    """Besides the program itself, threads included."""
    output_bytes: int = 4 << 20
    """Written to the output, or to one file."""

    @property
    def wall_s(self) -> float:
        return WALL_FACTOR * self.cpu_s


@dataclass(frozen=True)
class Outcome:
    """How one test ended."""

    status: Ending
    """finished: with `output`. failed: by an exception, an exit code or a signal. ended: it killed what watched over
    it. broken: the sandbox itself failed, so nothing is known about the program."""
    output: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Sandbox:
    """A way to start a Python in which a program can do no harm; `safe` is False where it can."""

    command: tuple[str, ...]
    """Ends with the Python."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Of Popen."""
    safe: bool = True

    def session(self, code: str, limits: Limits) -> Session:
        return Session(self, code, limits)


class Session:
    """One program in one sandbox, for any number of tests."""

    def __init__(self, sandbox: Sandbox, code: str, limits: Limits) -> None:
        # A program without a sandbox gets a folder of its own at least.
        self._folder = None if sandbox.safe else tempfile.TemporaryDirectory(prefix="scalerl-")
        place = "/" if self._folder is None else self._folder.name
        self._limits = limits
        own = OWN_PROCESSES if sandbox.safe else 0
        self._job = asdict(limits) | {"code": code, "wall_s": limits.wall_s, "processes": limits.processes + own}
        command = [*sandbox.command, "-I", "-S", "-B", "-c", _RUNNER.read_text(encoding="utf-8")]
        self._conversation = Conversation(command, _ENVIRONMENT, cwd=place, **sandbox.options)
        self._ready = False

    def run(self, test: Mapping[str, Any]) -> Outcome:
        """`{"stdin": text}`, or `{"call": name, "arguments": [...]}`."""
        try:
            if not self._ready:
                self._conversation.exchange(self._job, START_S)
                self._ready = True
            reply = self._conversation.exchange(test, self._limits.wall_s + GRACE_S)
        except NoReplyError as silence:
            return self._silent(silence)
        status = reply.get("status")
        if status not in ENDINGS:
            return Outcome("ended", detail="a reply that is none")
        return Outcome(status, str(reply.get("output", "")), str(reply.get("detail", ""))[:200])

    def abort(self) -> None:
        """May come from another thread, in the middle of a test."""
        self._conversation.end()

    def close(self) -> None:
        self._conversation.leave(LEAVE_S)
        if self._folder is not None:
            self._folder.cleanup()

    def _silent(self, silence: NoReplyError) -> Outcome:
        if not self._ready:
            return Outcome("broken", detail=str(silence))
        return Outcome("time_limit" if silence.late else "ended", detail=str(silence))


def unsafe_plain_process(python: str) -> Sandbox:
    """No sandbox at all: a process of the user with some limits. It can read, send and delete whatever the user can."""
    return Sandbox((python,), {}, safe=False)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
