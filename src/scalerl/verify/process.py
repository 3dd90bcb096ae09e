"""A conversation with another process: one line of JSON out, one line back, and an end when a reply takes too long.

Used by the verifiers, the sandbox and `tasks.gym_process`. Knows nothing of what is said. The process that is talked to
may be under the control of what a model wrote, so a reply may be missing, cut off, endless or no JSON at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LONGEST_REPLY = 32 << 20
"""Bytes."""

_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""Nothing else of the environment is shown to a process in which answers are evaluated."""
_PROGRAM = Path(__file__).with_name("guarded.py")


class NoReplyError(OSError):
    """The process that was at work has ended. `late`: because it took too long, by the clock or of the processor."""

    def __init__(self, reason: str, *, late: bool = False) -> None:
        super().__init__(reason)
        self.late = late


class Conversation:
    """A running process. It ends with this object, at the latest."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], **options: Any) -> None:
        """`options`: of Popen."""
        # A session of its own: Ctrl-C reaches us alone, and we decide what ends. No buffer: what is written is sent.
        self._child = subprocess.Popen(  # noqa: S603  # commands of our own, no shell
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, **options,
        )  # fmt: skip
        self.end = weakref.finalize(self, _end, self._child)

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def exchange(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Say something and wait for the reply. Without one, the process is ended and `NoReplyError` raised."""
        late = threading.Event()
        watch = threading.Timer(timeout_s, _end_late, (self._child, late))
        watch.daemon = True
        watch.start()
        try:
            reply = self._exchange(json.dumps(message).encode() + b"\n")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self.end()
            raise self._silence(str(error), timeout_s, late.is_set()) from None
        finally:
            watch.cancel()
            watch.join()
            if late.is_set():  # perhaps between the reply and now: it must not be asked again
                self.end()
        if isinstance(reply.get("ended"), int):  # the program `guarded` lost the fork that was at work, and has another
            raise _no_reply("the process ended", reply["ended"])
        return reply

    def _silence(self, reason: str, timeout_s: float, late: bool) -> NoReplyError:
        if late:
            return NoReplyError(f"no reply within {timeout_s:g} s", late=True)
        return _no_reply(reason, self._child.returncode)

    def leave(self, within_s: float) -> None:
        """Let it end by itself, so that it can bury its own children; after this time it is ended."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it is gone already, or does not go
            self._child.stdin.close()
            self._child.wait(within_s)
        self.end()

    def _exchange(self, line: bytes) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(line)
        self._child.stdin.flush()
        answer = self._child.stdout.readline(LONGEST_REPLY)
        if not answer.endswith(b"\n"):
            raise OSError("a reply without end" if len(answer) == LONGEST_REPLY else "the process ended")
        reply = json.loads(answer)
        if not isinstance(reply, dict):
            raise TypeError("its reply is no object")
        return reply


def guarded(handler: Path, header: Mapping[str, Any], start_s: float) -> tuple[Conversation, dict[str, Any]]:
    """The program `guarded` with one of its handlers, and what it says to the header."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    # -P: the folder of the program is not searched for modules; -B: nothing is written
    command = [sys.executable, "-P", "-B", str(_PROGRAM), str(handler)]
    conversation = Conversation(command, kept | {"PYTHONHASHSEED": "0"})
    return conversation, conversation.exchange(header, start_s)


def _no_reply(reason: str, code: int) -> NoReplyError:
    if code == -getattr(signal, "SIGPROF", 0):
        return NoReplyError("too much processor time", late=True)
    if code >= 0:
        return NoReplyError(f"{reason}, with code {code}")
    known = {int(one): one.name for one in signal.Signals}
    return NoReplyError(f"{reason}, by {known.get(-code, f'signal {-code}')}")


def _end_late(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """With its forks; those of one that has already ended see that themselves."""
    if child.poll() is None and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()


def _end(child: subprocess.Popen[bytes]) -> None:
    _kill(child)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was not sent is not wanted any more
                pipe.close()
