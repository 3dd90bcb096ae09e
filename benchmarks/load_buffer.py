"""A buffer of a hundred thousand groups: the part `buffer` of `load.py`.

How long an operation takes is measured with groups of one short rollout, because only their number matters to it.
Snapshots and checkpoints are measured with groups of 16 rollouts of 200 tokens; a hundred thousand of those would be
320 million tokens, 5.4 GB of arrays, and as much again in the snapshot, so that there the longest backlog has rollouts
of 20 tokens: as many objects, a tenth of the bytes. Seconds are of processor time; for each group those of the kernel
are left out, which hands out and clears the memory: a gigabyte for the first time takes it longer than all the rest.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from load_rows import Row, memory_mb, shown

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (100, 1_000)
PROMPTS = 16
NUM_PASSED = 20_000
BACKLOGS = ((1_000, 200), (10_000, 200), (100_000, 20))
"""Groups, and tokens of each of their rollouts."""
QUICK_BACKLOGS = ((50, 200), (500, 20))
ROLLOUTS = 16
SLOWER = 2.0
"""How many times slower than with the fewest groups."""


def measure(folder: Path, quick: bool) -> list[Row]:
    sizes, backlogs = (QUICK_SIZES, QUICK_BACKLOGS) if quick else (SIZES, BACKLOGS)
    passing = {size: _apart("passed", size, NUM_PASSED) for size in sizes}
    rows = []
    for size, found in passing.items():
        slower = passing[sizes[0]]["per_s"] / found["per_s"]
        rows.append(Row(f"{size:,} groups waiting: groups admitted, put, taken, trained", found["per_s"], "a second"))
        rows.append(Row(f"{size:,} groups waiting: slower than with {sizes[0]:,}", slower, "times", SLOWER))
        rows.append(Row(f"{size:,} groups waiting: the memory of each beside its tokens", found["kb"], "kB"))
    rows = shown(rows)
    kept = [(groups, tokens, _apart("kept", groups, tokens, folder)) for groups, tokens in backlogs]
    first = kept[0][2]
    for groups, tokens, found in kept:
        rows += shown(_rows(groups, tokens, found, first))
    return rows


def _rows(groups: int, tokens: int, found: dict[str, float], first: dict[str, float]) -> list[Row]:
    name = f"{groups:,} groups of {ROLLOUTS} x {tokens} tokens"
    rows = [Row(f"{name}: arrays", found["arrays_mb"], "MB")]
    for what in ("snapshot", "checkpoint", "load", "restore"):
        rows.append(Row(f"{name}: {what}", found[what], "s"))
        per_group = 1e6 * found[f"{what} itself"] / groups
        limit = SLOWER * 1e6 * first[f"{what} itself"] / first["groups"]
        rows.append(Row(f"{name}: {what}, for each group", per_group, "us", limit))
    peak = found["peak_mb"] - found["before_mb"]
    return [*rows, Row(f"{name}: peak memory beyond that of the groups themselves", peak, "MB")]


def _apart(what: str, *arguments: object) -> dict[str, float]:
    """In a process of its own, whose memory is its own."""
    command = [sys.executable, __file__, what, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def passed(size: int, count: int) -> dict[str, float]:
    """Groups go through a buffer in which `size` wait all the time."""
    from scalerl.pipeline.buffer import Buffer
    from scalerl.pipeline.schedule import Schedule

    gc.freeze()  # torch alone has half a million objects; a look at all of them is no part of this
    batches = -(-size // PROMPTS)
    buffer = Buffer(Schedule(ahead=batches + 1, stride=1), PROMPTS)
    before = memory_mb(key="VmRSS")
    while buffer.free_slots > PROMPTS:
        _admit_and_put(buffer)
    memory = memory_mb(key="VmRSS") - before
    steps = count // PROMPTS
    began = time.process_time()
    for _ in range(steps):
        for _ in range(PROMPTS):
            _admit_and_put(buffer)
        assert buffer.take() is not None
        buffer.trained(buffer.version + 1)
    seconds = time.process_time() - began
    return {"per_s": steps * PROMPTS / seconds, "kb": 1024 * memory / size}


def kept(groups: int, tokens: int, folder: str) -> dict[str, float]:
    """Snapshot, checkpoint and back, with so many groups waiting."""
    from scalerl.pipeline import checkpoint
    from scalerl.pipeline.buffer import Buffer
    from scalerl.pipeline.schedule import Schedule
    from scalerl.policy import TinyLlama
    from scalerl.policy.tiny import new_policy

    model, tokenizer = new_policy(TinyLlama(width=16, layers=1, heads=2, feed_forward=16), seed=1)
    schedule = Schedule(ahead=-(-groups // PROMPTS), stride=1)
    buffer = Buffer(schedule, PROMPTS)
    for _ in range(groups):
        _admit_and_put(buffer, ROLLOUTS, tokens)
    found: dict[str, float] = {"groups": groups, "arrays_mb": groups * ROLLOUTS * tokens * 17 / 1e6}
    found["before_mb"] = memory_mb()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        clock = Clock(found)
        snapshot = buffer.snapshot()
        clock.note("snapshot")
        saved = checkpoint.save(Path(scratch), 1, {"feed": snapshot}, model=model, tokenizer=tokenizer)
        clock.note("checkpoint")
        del buffer, snapshot
        clock.note("freed")
        loaded = checkpoint.load(saved).parts["feed"]
        clock.note("load")
        again = Buffer(schedule, PROMPTS)
        again.restore(loaded)
        clock.note("restore")
    assert again.num_waiting == groups
    return found | {"peak_mb": memory_mb()}


class Clock:
    """Processor time since the last note."""

    def __init__(self, found: dict[str, float]) -> None:
        self._found, self._at, self._user_at = found, time.process_time(), _user_s()

    def note(self, what: str) -> None:
        now, user = time.process_time(), _user_s()
        self._found |= {what: now - self._at, f"{what} itself": user - self._user_at}
        self._at, self._user_at = now, user


def _user_s() -> float:
    """Processor time without the kernel's."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def _admit_and_put(buffer: Any, rollouts: int = 1, tokens: int = 4) -> None:
    from scalerl.pipeline.types import Group, GroupRequest, Rollout
    from scalerl.tasks import Verdict

    index = buffer.next_index
    seeds = tuple(range(index, index + rollouts))
    request = GroupRequest(index, "train", index, f"problem-{index}", tuple(range(40)), seeds, (None,) * rollouts)
    buffer.admit(request)
    version = np.int32(buffer.version)
    written = tuple(
        Rollout(
            np.full(tokens, index, dtype=np.int64), np.full(tokens, -0.5, dtype=np.float32),
            np.full(tokens, version, dtype=np.int32), np.ones(tokens, dtype=np.bool_), truncated=False,
            interrupted=False,
        )
        for _ in range(rollouts)
    )  # fmt: skip
    buffer.put(Group(request, written, (Verdict("correct"),) * rollouts))


if __name__ == "__main__":
    first, second = int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(passed(first, second) if sys.argv[1] == "passed" else kept(first, second, sys.argv[4])))
