"""The other end of `gym_worker`: starts it, asks it, and ends it when it takes too long.

Used by `gym`. Asking for a score never raises: the outcome is a score, a timeout, an error inside the scorer, or an
error of the process itself. After a timeout or a death the next question starts a new process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError
from scalerl.verify.process import Conversation, NoReplyError, guarded

START_S = 120.0
"""Importing reasoning-gym takes seconds, on a busy machine many."""
ITEMS_S = 600.0
"""Some datasets search long for a problem."""

_HANDLER = Path(__file__).with_name("gym_worker.py")


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
        self._worker: Conversation | None = None
        self._asked = 0

    def start(self) -> None:
        """Now rather than at the first question: an unknown dataset or option is an `InputError`."""
        with self._lock:
            self._worker = self._worker or _start(self._header)

    def items(self, seed: int, size: int, first: int, last: int) -> list[tuple[str, str]]:
        """Questions and answers of some items of the dataset with this seed and size."""
        with self._lock:
            try:
                reply = self._ask({"seed": seed, "size": size, "first": first, "last": last}, ITEMS_S)
            except NoReplyError as error:
                self._stop()
                what = (
                    f"reasoning-gym made no problems within {ITEMS_S:g} s"
                    if error.late
                    else f"reasoning-gym failed ({error})"
                )
                raise InputError(what, self._header) from None
        if "items" not in reply:
            raise InputError(f"reasoning-gym failed ({reply.get('error')})", self._header)
        return [(question, answer) for question, answer in reply["items"]]

    def score(self, seed: int, size: int, index: int, answer: str, timeout_s: float) -> Outcome:
        """Score one answer to one item."""
        with self._lock:
            try:
                reply = self._ask({"seed": seed, "size": size, "index": index, "answer": answer}, timeout_s)
            except NoReplyError as error:
                self._stop()
                failure = f"no score within {timeout_s:g} s" if error.late else f"scoring failed ({error})"
                return Outcome(None, failure, error.late)
        return Outcome(reply.get("score"), str(reply.get("error", "")))

    def close(self) -> None:
        """End the process; a later question starts another."""
        with self._lock:
            self._stop()

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        self._asked += 1
        self._worker = self._worker or _start(self._header)
        reply = self._worker.exchange({"id": self._asked, **request}, timeout_s)
        if reply.get("id") != self._asked:
            raise NoReplyError("its reply is not to this question")
        return reply

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _start(header: Mapping[str, Any]) -> Conversation:
    if find_spec("reasoning_gym") is None:
        raise MissingDependencyError("reasoning-gym", "train")
    worker, reply = guarded(_HANDLER, header, START_S)
    if "refused" in reply:
        worker.end()
        raise _refusal(header, reply)
    return worker


def _refusal(header: Mapping[str, Any], reply: Mapping[str, Any]) -> InputError:
    if "datasets" in reply:
        return InputError("unknown dataset of reasoning-gym", header["dataset"], ", ".join(reply["datasets"]))
    return InputError(f"reasoning-gym refuses task.options ({reply['refused']})", header["options"])
