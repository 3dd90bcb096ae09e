"""A program of its own in which reasoning-gym runs: started by `gym_process`, one line of JSON in, one out.

Why another process:
- Several scorers of reasoning-gym call `eval` on the answer, which a model wrote. Here an answer cannot write files,
  open sockets or start programs: an audit hook and resource limits refuse it. This guards against accidents; it is no
  jail for an attacker.
- Any scorer may crash or run for ever. Here a crash is reported as one, and a process that takes too long is killed.
- Some datasets depend on the order of sets, which Python changes from process to process. This one is started with a
  fixed order, so that a seed always means the same problems.

It imports nothing of scalerl, so that it starts fast and needs no path.

In:  {"dataset": ..., "options": {...}}, then each of
     {"id": ..., "seed": ..., "size": ..., "first": ..., "last": ...}     for items
     {"id": ..., "seed": ..., "size": ..., "index": ..., "answer": ...}   for a score
Out: {"ready": true} or {"refused": ..., "datasets": [...]}, then each of
     {"id": ..., "items": [[question, answer], ...]}, {"id": ..., "score": ...} or {"id": ..., "error": ...}
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TextIO

MEMORY_BYTES = 4 << 30

Message = dict[str, Any]
Datasets = Callable[[int, int], Any]

_REFUSED = (
    "ctypes.", "ftplib.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system",
    "os.truncate", "pty.", "shutil.", "signal.", "smtplib.", "socket.", "subprocess.", "urllib.", "webbrowser.",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


def main() -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests, replies = _take_over_pipes()
    datasets = _open(json.loads(next(requests)), replies)
    if datasets is None:
        return
    _limit_memory_and_files()
    sys.addaudithook(_refuse)
    _reply(replies, {"ready": True})
    for line in requests:
        _reply(replies, _answered(json.loads(line), datasets))


def _open(header: Message, replies: TextIO) -> Datasets | None:
    """The dataset for any seed and size, or None after saying why there is none."""
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    @lru_cache(maxsize=8)
    def datasets(seed: int, size: int) -> Any:
        return reasoning_gym.create_dataset(header["dataset"], seed=seed, size=size, **header["options"])

    if header["dataset"] not in DATASETS:
        _reply(replies, {"refused": "dataset", "datasets": sorted(DATASETS)})
        return None
    try:
        datasets(0, 1)
    except (AssertionError, TypeError, ValueError) as error:  # how its configs refuse a value
        _reply(replies, {"refused": str(error).partition("\n")[0] or type(error).__name__})
        return None
    return datasets


def _answered(request: Message, datasets: Datasets) -> Message:
    try:
        dataset = datasets(request["seed"], request["size"])
        content = _scored(request, dataset) if "answer" in request else _items(request, dataset)
    except Exception as error:  # noqa: BLE001  # the worker boundary: any failure of any dataset becomes a status
        content = {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"id": request["id"], **content}


def _items(request: Message, dataset: Any) -> Message:
    entries = [dataset[i] for i in range(request["first"], request["last"])]
    return {"items": [[entry["question"], entry["answer"] or ""] for entry in entries]}


def _scored(request: Message, dataset: Any) -> Message:
    score = float(dataset.score_answer(request["answer"], dataset[request["index"]]))
    return {"score": score} if math.isfinite(score) else {"error": f"the score is {score}"}


def _take_over_pipes() -> tuple[TextIO, TextIO]:
    """Keep the pipes to ourselves: what a scorer prints must not be taken for a reply."""
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


def _limit_memory_and_files() -> None:
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return
    for kind, limit in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
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
