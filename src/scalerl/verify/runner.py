"""The program inside the sandbox: runs a program that a model wrote, once for each test, and reports what came of it.

Its text is passed to a bare Python by `sandbox`; it is never imported. It knows inputs, never the expected outputs:
what is right is decided outside, so nothing that happens in here can forge it. A program finds what it would find as a
file that Python runs: `exit`, its standard streams under both names, and an end that waits for its threads. Standard
library, Python 3.9 or newer.

In:  {"code": ..., "cpu_s": ..., "wall_s": ..., "memory_mb": ..., "processes": ..., "output_bytes": ...}, then each of
     {"stdin": ...}   or   {"call": NAME, "arguments": [...]}
Out: {"ready": true}, then {"status": ..., "output": ..., "detail": ...}; the output of a call is its result in JSON
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from types import CodeType
from typing import Any, NoReturn, TextIO

Message = Mapping[str, Any]

GIVEN = """
import bisect, collections, functools, heapq, itertools, math, operator, re, string, typing
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
"""
"""What the sites that ask for a function import beforehand: their starter code says List[int] and imports nothing."""


def main() -> None:
    requests, replies = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    job = json.loads(requests.readline())
    say(replies, {"ready": True})
    for line in iter(requests.readline, ""):
        say(replies, run(job, json.loads(line), (requests.fileno(), replies.fileno())))


def say(replies: TextIO, message: Message) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def run(job: Message, test: Message, private: tuple[int, ...]) -> Message:
    """One test in a child of its own."""
    (out, out_end), (report, report_end) = os.pipe(), os.pipe()
    with tempfile.TemporaryFile() as given:
        given.write(test.get("stdin", "").encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            for descriptor in (*private, out, report):
                os.close(descriptor)
            in_child(job, test, given.fileno(), out_end, report_end)
    os.close(out_end)
    os.close(report_end)
    try:
        reason, output, reported = watch(job, child, out, report)
    finally:
        os.close(out)
        os.close(report)
    code, cpu_s = end(child)
    if reason:
        return {"status": reason, "output": "", "detail": ""}
    return outcome(job, test, code, cpu_s, output, reported)


def in_child(job: Message, test: Message, given: int, out: int, report: int) -> NoReturn:
    """Never returns."""
    os.setsid()
    os.dup2(given, 0)
    os.dup2(out, 1)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = os.fdopen(number, "w" if number else "r", encoding="utf-8")
        vars(sys).update({name: stream, f"__{name}__": stream})  # both, or one that is replaced closes the pipe
    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # of `site`, which is not imported here
    limit(job)
    status, detail = "finished", ""
    try:
        detail = called(job, test) if "call" in test else ran(job)
    except SystemExit as leaving:
        status = "finished" if leaving.code in (None, 0) and "call" not in test else "failed"
        detail = "" if status == "finished" else f"exit with {leaving.code!r}"[:200]
    except BaseException as error:  # noqa: BLE001  # the sandbox boundary: whatever it raises is reported
        status, detail = told(error)
    try:
        if status == "finished":
            last_words()
        os.write(report, json.dumps({"status": status, "detail": detail}).encode() + b"\n")
    except BaseException:  # noqa: BLE001  # what the program did to its output is its own affair
        os._exit(1)
    os._exit(0)


def ran(job: Message) -> str:
    exec(compiled(job), {"__name__": "__main__"})  # noqa: S102  # what the sandbox is for
    return ""


def called(job: Message, test: Message) -> str:
    # As builtins, what is given is found and is no name of the program's own, which alone may be called.
    names: dict[str, Any] = {"__name__": "program", "__builtins__": {**given_names(), **vars(builtins)}}
    exec(compiled(job), names)  # noqa: S102
    function = names.get(test["call"])
    if function is None and "Solution" in names:
        function = getattr(names["Solution"](), test["call"], None)
    if function is None:
        raise NameError("no function " + test["call"])
    return json.dumps(function(*test["arguments"]))


def compiled(job: Message) -> CodeType:
    """Without the __future__ of this file."""
    return compile(job["code"], "program", "exec", dont_inherit=True)


def given_names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(GIVEN, names)  # noqa: S102  # our own text
    return names


def last_words() -> None:
    """What Python does at the end of a program: it waits for threads, calls exit functions, empties buffers."""
    while threads := waited_for():
        threads[0].join()
    atexit._run_exitfuncs()
    streams: tuple[Any, ...] = (sys.stdout, sys.__stdout__)
    for stream in streams:
        if not getattr(stream, "closed", True):
            stream.flush()


def waited_for() -> list[Any]:
    threading: Any = sys.modules.get("threading")
    running = threading.enumerate() if threading else []
    return [one for one in running if not one.daemon and one is not threading.main_thread()]


def told(error: BaseException) -> tuple[str, str]:
    """Status and detail of what a program raised."""
    text = f"{type(error).__name__}: {error}"[:200]
    number = getattr(error, "errno", None)
    if isinstance(error, MemoryError):
        return "memory_limit", text
    if number == errno.EAGAIN or "can't start new thread" in text:
        return "process_limit", text
    if number in (errno.EFBIG, errno.ENOSPC):
        return "output_limit", text
    return "failed", text


def limit(job: Message) -> None:
    cpu_s, memory = math.ceil(job["cpu_s"]), job["memory_mb"] << 20
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_NPROC, job["processes"], job["processes"]),
        (resource.RLIMIT_FSIZE, job["output_bytes"], job["output_bytes"]),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, 128, 128),
    ):
        resource.setrlimit(kind, (soft, hard))


def watch(job: Message, child: int, out: int, report: int) -> tuple[str, bytes, bytes]:
    """Collect until both pipes are closed, too much was written, the child is gone, or time is up."""
    deadline = time.monotonic() + job["wall_s"]
    texts = {out: b"", report: b""}
    open_ends = {out, report}
    while open_ends:
        left = deadline - time.monotonic()
        if left <= 0:
            return "time_limit", texts[out], texts[report]
        ready = select.select(list(open_ends), [], [], min(left, 0.1))[0]
        if not ready and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        for end_ in ready:
            chunk = os.read(end_, 1 << 16)
            texts[end_] += chunk
            if not chunk:
                open_ends.discard(end_)
            if len(texts[end_]) > job["output_bytes"]:
                return "output_limit", b"", b""
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > deadline:
            return "time_limit", texts[out], texts[report]
        time.sleep(0.002)
    return "", texts[out], texts[report]


def end(child: int) -> tuple[int, float]:
    """How the child ended, and its processor time. What it left running in its session is killed with it."""
    with contextlib.suppress(ProcessLookupError):  # it has no session yet
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, usage.ru_utime + usage.ru_stime


def outcome(job: Message, test: Message, code: int, cpu_s: float, output: bytes, reported: bytes) -> Message:
    try:
        told_status = json.loads(reported.partition(b"\n")[0])  # children that a program forked report too
        status, detail = str(told_status["status"]), str(told_status["detail"])
    except (ValueError, TypeError, KeyError):
        status = "time_limit" if code == -signal.SIGXCPU or cpu_s >= math.ceil(job["cpu_s"]) else "failed"
        if status == "failed" and code == 0:
            return plain_end(test, output)
        return {"status": status, "output": "", "detail": "" if status == "time_limit" else f"ended by {code}"}
    if "call" in test and status == "finished":
        return {"status": status, "output": detail, "detail": ""}
    return {"status": status, "output": output.decode("utf-8", "replace"), "detail": detail}


def plain_end(test: Message, output: bytes) -> Message:
    """`os._exit(0)`: there is no report, and for a program that writes there need not be one."""
    status = "failed" if "call" in test else "finished"
    return {"status": status, "output": output.decode("utf-8", "replace"), "detail": "exit without a result"}


if __name__ == "__main__":
    main()
