"""One fuzz target under atheris, in a process of its own: coverage of scalerl guides which inputs are kept and mutated.

    python -m tests.fuzz.guided MODULE NAME FOLDER [libFuzzer options]

Started by `scripts/fuzz.py`, which sets the limits and counts. A finding does not end the process: its input is kept
under the name of what went wrong and where, once each, and the search goes on. The executions so far are in a file that
is written with every one of them, so that they are known even if the process dies.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
import sys
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

SLOW_S = 5.0
"""Of processor time: an execution beyond this is a finding."""
COUNTS = struct.Struct("<QQd")
"""Executions, inputs that were taken, the longest processor time of one."""


class Keeper:
    """Counts, and what was found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / "counts"
        if not path.exists():
            path.write_bytes(bytes(COUNTS.size))
        with path.open("r+b") as stream:
            self._counts = mmap.mmap(stream.fileno(), COUNTS.size)
        self._seen: set[str] = set()

    def count(self, taken: bool, seconds: float) -> None:
        executions, accepted, longest = COUNTS.unpack_from(self._counts)
        COUNTS.pack_into(self._counts, 0, executions + 1, accepted + taken, max(longest, seconds))

    def keep(self, what: str, data: bytes, details: str) -> None:
        """Each kind of finding once, with the first input that showed it."""
        key = hashlib.sha256(what.encode()).hexdigest()[:12]
        if key in self._seen:
            return
        self._seen.add(key)
        place = self._folder / "findings"
        place.mkdir(exist_ok=True)
        if not (place / f"{key}.input").exists():
            (place / f"{key}.input").write_bytes(data)
            (place / f"{key}.json").write_text(json.dumps({"what": what, "details": details}, indent=1))
            sys.stderr.write(f"FINDING {what}\n")


def where(error: BaseException) -> str:
    """The kind of error and the innermost line of ours."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/scalerl/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} in {place}"


def main() -> None:
    module, name, folder, *options = sys.argv[1:]
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["scalerl", "tomllib", "http", "urllib"], enable_loader_override=False):
        from .target import attempt

        target = next(one for one in import_module(module).TARGETS if one.name == name)
        work = Path(folder) / "work"
        work.mkdir(exist_ok=True, parents=True)
        run = target.make(work)
        warnings.simplefilter("error")
        keeper = Keeper(Path(folder))

        def drive(data: bytes) -> None:
            began, taken = time.process_time(), False
            try:
                taken = attempt(run, data)
            except Exception as error:  # noqa: BLE001  # every kind of it is what we are looking for
                keeper.keep(where(error), data, traceback.format_exc())
            seconds = time.process_time() - began
            keeper.count(taken, seconds)
            if seconds > SLOW_S:
                keeper.keep("slow", data, f"{seconds:.1f} s of processor time")

        for sample in target.samples():  # what is imported inside functions is instrumented too
            drive(sample)
    atheris.Setup([sys.argv[0], *options], drive)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
