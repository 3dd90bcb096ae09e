"""What the parts of `load.py` share: a row of the table with its limit, and commands measured in their own processes.

Memory is the peak that the kernel noted for the process (VmHWM; not `ru_maxrss`, which a child inherits from its
parent), reads are the bytes that it asked for (rchar). Linux only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
CHILD = """
import sys
import time
from pathlib import Path
from scalerl.cli import main
code = main(sys.argv[1:])
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print("took", peak, time.process_time(), file=sys.stderr)
sys.exit(code)
"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    figure: float
    unit: str
    limit: float | None = None
    """None: shown for information."""
    at_least: bool = False
    """Whether the limit is one from below."""

    @property
    def met(self) -> bool:
        if self.limit is None:
            return True
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        sign = "at least" if self.at_least else "at most"
        limit = "" if self.limit is None else f"{sign} {self.limit:g}: {'met' if self.met else 'MISSED'}"
        return f"{self.what:<72} {self.figure:>11,.2f} {self.unit:<9} {limit}"


@dataclass(frozen=True)
class Ran:
    """What a command took."""

    seconds: float
    """By the clock; it counts what else the machine does."""
    processor_s: float
    peak_mb: float
    output: str


def run(*arguments: str | Path) -> Ran:
    """One `scalerl` command, imports included."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        capture_output=True, text=True, check=False, env=os.environ | ONE_THREAD,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"scalerl {' '.join(map(str, arguments))} failed:\n{done.stderr}")
    peak_kb, processor_s = done.stderr.rpartition("took")[2].split()
    return Ran(seconds, float(processor_s), int(peak_kb) / 1024, done.stdout)


def rows_of(what: str, ran: Ran, *, seconds: float | None = None, peak_mb: float | None = None) -> list[Row]:
    """The limit is one of processor time: the clock counts what other processes do too."""
    return [
        Row(what, ran.seconds, "s"),
        Row(f"{what}, processor time", ran.processor_s, "s", seconds),
        Row(f"{what}, peak memory", ran.peak_mb, "MB", peak_mb),
    ]


def memory_mb(pid: int | str = "self", key: str = "VmHWM") -> float:
    """Of a process: its peak, or with VmRSS what it has now."""
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{key}:")[1].split()[0]) / 1024


def threads(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("Threads:")[1].split()[0])


def processor_s(pid: int) -> float:
    """Processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wants_processor(pid: int) -> bool:
    """Whether one of its threads works, or would if other processes let it."""
    states = [file.read_text().rpartition(")")[2].split()[0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return "R" in states


def read_mb(pid: int) -> float:
    """What it has read so far, from the disk or from memory."""
    return int(Path(f"/proc/{pid}/io").read_text().split("rchar:")[1].split()[0]) / 1e6


def shown(rows: Sequence[Row]) -> list[Row]:
    """Printed as soon as they are known."""
    for row in rows:
        print(row, flush=True)
    return list(rows)
