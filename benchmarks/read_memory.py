"""Does reading a log of 1 GB stream? Peak memory of `scalerl read` on JSONL and on TensorBoard logs, beside the limit.

    python benchmarks/read_memory.py               # writes two logs of 1 GB into a temporary folder; some minutes
    python benchmarks/read_memory.py --megabytes 100

The JSONL has 60 metrics a step; the event file has 20 scalars a step and, as logs of this size do, a histogram's worth
of tensor now and then. Each is read by the command in a process of its own, whose peak resident memory is what the
kernel says. Exit code 1 when a limit is missed. benchmarks/results/read_memory.json keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "read_memory.json"
LIMIT_MB = 300
CHILD = """
import sys
from pathlib import Path
from scalerl.cli import main
code = main(sys.argv[1:])
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print("peak_kb", peak, file=sys.stderr)
sys.exit(code)
"""
"""Linux only. Not `ru_maxrss`, which a child inherits from its parent."""


def write_jsonl(path: Path, size: int) -> None:
    rng = random.Random(0)
    names = [f"train/metric_{i}" for i in range(58)]
    with path.open("w") as stream:
        step = 0
        while stream.tell() < size:
            step += 1
            values = {name: rng.random() for name in names}
            if step % 2000 == 0:
                values["eval/acc"] = min(0.9, step / 500_000)
            stream.write(json.dumps({"step": step, "timing_s/step": 1.5, **values}) + "\n")


def write_events(folder: Path, size: int) -> None:
    import torch
    from torch.utils.tensorboard import SummaryWriter

    blob = torch.randn(120_000)
    written = 0
    with SummaryWriter(str(folder), max_queue=10) as writer:
        step = 0
        while written < size:
            step += 1
            for i in range(20):
                writer.add_scalar(f"train/metric_{i}", step % 7, step)
            written += 20 * 60
            if step % 10 == 0:
                writer.add_tensor("weights", blob, step)
                written += blob.nbytes
            if step % 100 == 0:
                writer.add_scalar("eval/acc", min(0.9, step / 30_000), step)


def read(target: Path) -> dict[str, float]:
    """Peak memory and time of reading the curve: two passes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "read", str(target), "--metric", "eval/acc", "--x", "steps", "--json"],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    peak_kb = int(done.stderr.split("peak_kb")[1])
    points = len(json.loads(done.stdout)["compute"])
    return {"peak_mb": peak_kb / 1024, "seconds": time.perf_counter() - begin, "points": points}


def main() -> int:
    parser = argparse.ArgumentParser(description="memory of reading large logs")
    parser.add_argument("--megabytes", type=int, default=1000)
    megabytes: int = parser.parse_args().megabytes
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        lines, events = Path(folder) / "log.jsonl", Path(folder) / "tb"
        write_jsonl(lines, megabytes * 1_000_000)
        write_events(events, megabytes * 1_000_000)
        for name, target in (("JSONL", lines), ("TensorBoard", events)):
            size = sum(path.stat().st_size for path in [target, *target.glob("*")] if path.is_file())
            figures[name] = {"megabytes": size / 1e6, **read(target)}
    met = all(one["peak_mb"] <= LIMIT_MB for one in figures.values())
    print(f"{'log':12} {'MB':>7} {'points':>7} {'seconds':>8} {'peak MB':>8}   limit")
    for name, one in figures.items():
        row = [one[key] for key in ("megabytes", "points", "seconds", "peak_mb")]
        print(f"{name:12} {row[0]:7,.0f} {row[1]:7,.0f} {row[2]:8.0f} {row[3]:8.0f}   {LIMIT_MB}")
    RESULTS.write_text(json.dumps({"limit_mb": LIMIT_MB, "met": met, "logs": figures}, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
