"""A program of its own in which answers are evaluated: started by `process.guarded`, one line of JSON in, one out.

    python -P -B guarded.py HANDLER.py

The handler is a file with `prepare(header)`, which returns a function from request to reply, or a reply that refuses.
Why another process:
- A parser or scorer may evaluate what a model wrote. Here that cannot write files, open sockets or start programs: an
  audit hook and resource limits refuse it. This guards against accidents; it is no jail for an attacker. Programs that
  a model wrote run in `sandbox`.
- Any of them may crash or run for ever. Here a crash is reported as one. A request has a limit of processor time, which
  the kernel holds even while Python cannot run; limits on the clock are the other side's.
- Some results depend on the order of sets, which Python changes from process to process. This one is started with a
  fixed order.

Requests are answered by a fork: preparing may take seconds, and after a request that was too much another fork goes on
at once. It imports nothing of scalerl, so that it starts fast and needs no path.

In:  the header, {..., "memory_mb": ...}, then requests {"id": ..., "cpu_s": ..., ...}
Out: {"ready": true} or what the handler refuses with, then {"id": ..., ...}, {"id": ..., "error": ...} or
     {"ended": CODE} when the fork did not survive the request
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, TextIO

MEMORY_MB = 4096
LOOK_S = 0.1
"""How often a fork is looked after."""

Message = dict[str, Any]
Answer = Callable[[Message], Message]

_REFUSED = (
    "ctypes.", "ftplib.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system",
    "os.truncate", "pty.", "shutil.", "signal.", "smtplib.", "socket.", "subprocess.", "urllib.", "webbrowser.",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


def main() -> None:
    parent = os.getppid()
    requests, replies = _take_over_pipes()
    header = json.loads(next(requests))
    answer = _handler(sys.argv[1])(header)
    if not callable(answer):
        _reply(replies, answer)
        return
    _limit_memory_and_files(header.get("memory_mb", MEMORY_MB))
    _reply(replies, {"ready": True})
    if not hasattr(os, "fork"):
        _serve(requests, replies, answer, parent)
        return
    while (fork := os.fork()) != 0:
        code = _ending(fork, parent)
        if code == 0:  # nobody asks any more
            return
        _reply(replies, {"ended": code})
    _serve(requests, replies, answer, os.getppid())


def _serve(requests: TextIO, replies: TextIO, answer: Answer, parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.addaudithook(_refuse)
    for line in iter(requests.readline, ""):
        _reply(replies, answered(json.loads(line), answer))


def _ending(fork: int, parent: int) -> int:
    """Wait for a fork; how it ended. It is killed when our own parent is gone, for it may not get to look itself."""
    while True:
        found, status = os.waitpid(fork, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if os.getppid() != parent:
            os.kill(fork, signal.SIGKILL)
            return 0
        time.sleep(LOOK_S)


def answered(request: Message, answer: Answer) -> Message:
    """The reply to a request, whatever happens on the way to it."""
    _limit_time(request.get("cpu_s", 0))
    try:
        content = answer(request)
    except Exception as error:  # noqa: BLE001  # the worker boundary: any failure becomes a status
        content = {"error": f"{type(error).__name__}: {error}"[:200]}
    _limit_time(0)
    return {"id": request["id"], **content}


def _handler(path: str) -> Callable[[Message], Answer | Message]:
    spec = spec_from_file_location("handler", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    prepare: Callable[[Message], Answer | Message] = module.prepare
    return prepare


def _take_over_pipes() -> tuple[TextIO, TextIO]:
    """Keep the pipes to ourselves: what is printed meanwhile must not be taken for a reply."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    return requests, replies


def _reply(replies: TextIO, content: Message) -> None:
    replies.write(json.dumps(content) + "\n")
    replies.flush()


def _end_with(parent: int) -> None:
    """A parent that was killed cannot kill: without this, an answer that hangs would outlive it."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _limit_time(cpu_s: float) -> None:
    """SIGPROF ends a process that does not handle it, Python's lock or not. No such timer on Windows."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _limit_memory_and_files(memory_mb: int) -> None:
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return
    for kind, limit in ((resource.RLIMIT_AS, memory_mb << 20), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # a system that knows the limit but does not grant it
            resource.setrlimit(kind, (limit, limit))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event} is not allowed while an answer is scored")
    if event == "open":
        _, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & _WRITING):
            raise PermissionError("writing is not allowed while an answer is scored")


if __name__ == "__main__":
    main()
