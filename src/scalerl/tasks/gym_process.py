"""The other end of `gym_worker`: starts it, asks it, and kills it when it takes too long.

Used by `gym`. Asking for a score never raises: the outcome is a score, a timeout, an error inside the scorer, or an
error of the process itself. After a timeout or a death the next question starts a new process.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError

START_S = 120.0
"""Importing reasoning-gym takes seconds, on a busy machine many."""
ITEMS_S = 600.0
"""Some datasets search long for a problem."""

_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""Nothing else of the environment is shown to a process in which answers are evaluated."""


_BROKEN = (OSError, json.JSONDecodeError)
"""How a dead process shows itself: a broken pipe, no reply, or a reply that was cut off."""


@dataclass(frozen=True)
class Outcome:
    """A score, or why there is none."""

    score: float | None
    failure: str = ""
    timed_out: bool = False


class GymProcess:
    """One dataset in one process, which starts at the first question and again after it was killed."""

    def __init__(self, dataset: str, options: Mapping[str, Any]) -> None:
        self._header = {"dataset": dataset, "options": dict(options)}
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._asked = 0

    def start(self) -> None:
        """Now rather than at the first question: an unknown dataset or option is an `InputError`."""
        with self._lock:
            self._worker = self._worker or _Worker(self._header)

    def items(self, seed: int, size: int, first: int, last: int) -> list[tuple[str, str]]:
        """Questions and answers of some items of the dataset with this seed and size."""
        with self._lock:
            try:
                reply = self._ask({"seed": seed, "size": size, "first": first, "last": last}, ITEMS_S)
            except queue.Empty:
                self._stop()
                raise InputError(f"reasoning-gym made no problems within {ITEMS_S:g} s", self._header) from None
            except _BROKEN as error:
                self._stop()
                raise InputError(f"reasoning-gym failed ({error})", self._header) from None
        if "items" not in reply:
            raise InputError(f"reasoning-gym failed ({reply.get('error')})", self._header)
        return [(question, answer) for question, answer in reply["items"]]

    def score(self, seed: int, size: int, index: int, answer: str, timeout_s: float) -> Outcome:
        """Score one answer to one item."""
        with self._lock:
            try:
                reply = self._ask({"seed": seed, "size": size, "index": index, "answer": answer}, timeout_s)
            except queue.Empty:
                self._stop()
                return Outcome(None, f"no score within {timeout_s:g} s", timed_out=True)
            except _BROKEN as error:
                self._stop()
                return Outcome(None, f"the scoring process failed ({error})")
        return Outcome(reply.get("score"), str(reply.get("error", "")))

    def close(self) -> None:
        """End the process; a later question starts another."""
        with self._lock:
            self._stop()

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        self._asked += 1
        self._worker = self._worker or _Worker(self._header)
        reply = self._worker.exchange({"id": self._asked, **request}, timeout_s)
        if reply.get("id") != self._asked:
            raise OSError("its reply is not to this question")
        return reply

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None


class _Worker:
    """A running process and a thread that collects its replies, so that waiting for one can time out anywhere."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        if find_spec("reasoning_gym") is None:
            raise MissingDependencyError("reasoning-gym", "tasks")
        self._child = _start()
        self._replies: queue.Queue[bytes] = queue.Queue()
        reader = threading.Thread(target=_collect, args=(self._child, self._replies), daemon=True)
        reader.start()
        self.kill = weakref.finalize(self, _end, self._child, reader)
        try:
            reply = self.exchange(header, START_S)
        except queue.Empty:
            self.kill()
            raise OSError(f"not ready within {START_S:g} s") from None
        except OSError:
            self.kill()
            raise
        if "refused" in reply:
            self.kill()
            raise _refusal(header, reply)

    def exchange(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(message).encode() + b"\n")
        self._child.stdin.flush()
        line = self._replies.get(timeout=timeout_s)
        if not line:
            raise OSError(f"it ended with code {self._child.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


def _start() -> subprocess.Popen[bytes]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    program = Path(__file__).with_name("gym_worker.py")
    # -P: the folder of the program is not searched for modules; -B: nothing is written
    return subprocess.Popen(  # noqa: S603  # this Python, our own file
        [sys.executable, "-P", "-B", str(program)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept | {"PYTHONHASHSEED": "0"},
    )  # fmt: skip


def _refusal(header: Mapping[str, Any], reply: Mapping[str, Any]) -> InputError:
    if "datasets" in reply:
        return InputError("unknown dataset of reasoning-gym", header["dataset"], ", ".join(reply["datasets"]))
    return InputError(f"reasoning-gym refuses task.options ({reply['refused']})", header["options"])


def _collect(child: subprocess.Popen[bytes], replies: queue.Queue[bytes]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        replies.put(line)
    replies.put(b"")


def _end(child: subprocess.Popen[bytes], reader: threading.Thread) -> None:
    child.kill()
    child.wait()
    reader.join()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
