"""Does scalerl bear much more than people have? 200 runs watched by 50 clients, metrics of ten million lines, a buffer
of 100,000 groups, studies of 10,000 cells: memory and latency, each beside its limit.

    python benchmarks/load.py                      # everything; about 20 minutes, 5 GB of disk and 4 GB of memory
    python benchmarks/load.py --part metrics       # watch, metrics, buffer or study
    python benchmarks/load.py --quick              # a hundredth of it, as CI runs it: a minute, nothing is kept

  watch    run directories of ours, followed by the real command; clients over HTTP that hold their event streams open,
           some of which stall or vanish: how long until a point is on all pages, memory, processor time at rest
  metrics  one run with a very long metrics.jsonl: what each command takes that reads a run, and what watching it does
           when a line is added
  buffer   groups through admit, put, take, trained with more and more of them waiting; snapshots and checkpoints
  study    plan, status and report of a folder as a finished study leaves it

Exit code 1 when a limit is missed. benchmarks/results/load.json keeps the figures, part by part. Limits of time are of
processor time, which hardly depends on what else the machine does, but for what people wait for: a point on its way to
a page is timed by the clock.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before numpy: its threads read these

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from load_rows import Row

RESULTS = Path(__file__).parent / "results" / "load.json"
PARTS = ("watch", "metrics", "buffer", "study")

Measure = Callable[[Path, bool], list[Row]]


def measure(part: str, folder: Path | None, *, quick: bool) -> list[Row]:
    """The rows of one part, in a scratch folder of its own."""
    chosen: Measure = import_module(f"load_{part}").measure
    print(f"\n{part}", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"load-{part}-", dir=folder) as scratch:
        return chosen(Path(scratch), quick)


def keep(part: str, rows: Sequence[Row], seconds: float) -> None:
    """Beside the parts that were measured before."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    about = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    found = {"seconds": round(seconds), "load": round(os.getloadavg()[0], 1), **about}
    everything = known | {part: found | {"rows": [asdict(row) | {"met": row.met} for row in rows]}}
    kept = {name: everything[name] for name in PARTS if name in everything}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="memory and latency under load")
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is kept")
    parser.add_argument("--folder", type=Path, default=None, help="where the scratch folders go")
    asked = parser.parse_args()
    missed = 0
    for part in PARTS if asked.part == "all" else (asked.part,):
        began = time.monotonic()
        rows = measure(part, asked.folder, quick=asked.quick)
        if not asked.quick:
            keep(part, rows, time.monotonic() - began)
        missed += sum(not row.met for row in rows)
    print(f"\n{missed or 'no'} limit{'s' if missed != 1 else ''} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
