"""Runs that take turns on one machine: each is stopped while another one goes on, seconds at a time.

The speed of a shared machine drifts by a third within minutes, more than what is to be compared. Runs that change
places every few seconds meet the same machine, and nothing is lost in a change: half a step goes on where it was. Used
by scale.py.

What is compared are seconds of a thousand written tokens and not of a step: rollouts are not equally long, and
one that writes shorter answers makes faster steps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

RUN_IN = 18
"""Steps that are not counted: two rounds of the pipeline, k = 8."""


class Run:
    """`scalerl train` in a process of its own, with all that it starts."""

    def __init__(self, folder: Path, sets: Sequence[str]) -> None:
        words = [word for one in sets for word in ("--set", one)]
        self._metrics = folder / "metrics.jsonl"
        command = [sys.executable, "-m", "scalerl", "train", "--out", str(folder), *words]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.tokens: list[int] = []
        self.seconds: list[float] = []
        while self._done()[0] < RUN_IN:
            if self._process.poll() is not None:
                raise RuntimeError(f"the run of {folder.name} ended too early")
            time.sleep(0.2)
        self._tell(signal.SIGSTOP)

    def turn(self, seconds: float) -> None:
        before = self._done()[1]
        self._tell(signal.SIGCONT)
        started = time.monotonic()
        time.sleep(seconds)
        self._tell(signal.SIGSTOP)
        self.seconds.append(time.monotonic() - started)
        self.tokens.append(self._done()[1] - before)

    @property
    def pace_s(self) -> float:
        """Seconds of a thousand tokens."""
        return 1e3 * sum(self.seconds) / sum(self.tokens)

    def against(self, base: Run) -> float:
        return self.pace_s / base.pace_s

    def interval(self, base: Run) -> tuple[float, float]:
        """95 %, by drawing whole rounds again: the two runs of a round met the same machine."""
        drawn = np.random.default_rng(0).integers(len(self.tokens), size=(2000, len(self.tokens)))
        mine, other = (np.array(run.seconds)[drawn].sum(1) / np.array(run.tokens)[drawn].sum(1) for run in (self, base))
        low, high = np.quantile(mine / other, [0.025, 0.975])
        return float(low), float(high)

    def close(self) -> None:
        everybody = self._family()
        self._tell(signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        for pid in everybody:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _tell(self, sign: signal.Signals) -> None:
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, sign)

    def _family(self) -> list[int]:
        """Itself, and all that it and they have started."""
        parents = dict(filter(None, map(_parent, Path("/proc").glob("[0-9]*"))))
        found = [self._process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def _done(self) -> tuple[int, int]:
        """Steps, and tokens that were written for them."""
        lines = self._metrics.read_bytes().splitlines(keepends=True) if self._metrics.is_file() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        return len(whole), json.loads(whole[-1])["ledger"]["generation"]["tokens"] if whole else 0


def _parent(folder: Path) -> tuple[int, int] | None:
    """A process and the one that has started it; None: it is gone."""
    with suppress(OSError):
        rest = (folder / "stat").read_text().rpartition(")")[2].split()
        return int(folder.name), int(rest[1])
    return None


def compare(folder: Path, variants: Mapping[str, Sequence[str]], rounds: int, seconds: float) -> dict[str, Run]:
    """Each in turn, forwards and backwards: a machine that becomes slower does not favour the first."""
    runs: dict[str, Run] = {}
    try:
        for name, sets in variants.items():
            runs[name] = Run(folder / name.replace(", ", "-"), sets)
        for index in range(rounds):
            for name in list(runs)[:: 1 if index % 2 == 0 else -1]:
                runs[name].turn(seconds)
    finally:
        for run in runs.values():
            run.close()
    return runs
