"""Does a dataset of ten million rows stream? Peak memory and speed of `scalerl data inspect`, beside the limit.

    python benchmarks/data_inspect.py               # writes JSONL and Parquet of 10 million rows; about half an hour
    python benchmarks/data_inspect.py --rows 1e6 --only Parquet

One row in a hundred repeats an earlier one, one in a thousand shares thirteen words with the evaluation file, one in
five thousand is a near-copy of another that may be on the other side of the split, one in ten thousand has no answer;
how many are found must be how many were written. Each file is read by the command in a
process of its own; its peak resident memory and its processor time are what the kernel says. A task on the first
1,000 problems of the same file is timed beside it. Exit code 1 when a limit is missed.
benchmarks/results/data_inspect.json keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from scalerl.tasks import FileTask
from scalerl.tasks.files import canonical
from scalerl.tasks.pools import split_of

RESULTS = Path(__file__).parent / "results" / "data_inspect.json"
LIMIT_MB = 500
REPEATED, LEAKED, COPIED, EMPTY = 100, 1000, 5000, 10_000
EVALUATION = 500
CHILD = """
import sys, time
from pathlib import Path
from scalerl.cli import main
code = main(sys.argv[1:])
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print("peak_kb", peak, "cpu_s", time.process_time(), file=sys.stderr)
sys.exit(code)
"""
"""Linux only. Not `ru_maxrss`, which a child inherits from its parent."""
TASK = """
import sys, time
from scalerl.tasks import FileTask
begin = time.perf_counter()
FileTask(path=sys.argv[1], layout="polaris", skip_unusable=True, train_problems=1000, held_out_problems=100)
print(time.perf_counter() - begin)
"""


def leak(number: int) -> str:
    return f"a cyclist rides {number} hours against the wind and {number + 3} hours with it before the {number} bridge"


def rows(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        kind = i % 10_000
        place = i - 50 if kind % REPEATED == 99 else i  # an earlier row, which is none of the special ones
        beginning = "On"
        if kind % COPIED == 21:
            place, beginning = i - 10, "As it happens, on"
        sold = f"{place % 97} loaves and {place % 89} rolls of batch {place}"
        text = f"{beginning} day {place} a shop sells {sold}. How many pieces does it sell?"
        if kind % LEAKED == 7:
            text = f"On day {i}, {leak(i // LEAKED % EVALUATION)} opens. How far is it?"
        answer = "" if kind == 13 else str(place % 97 + place % 89)
        yield {"problem": text, "answer": answer, "difficulty": f"{i % 8}/8"}


def split_leaks(count: int, compared: int) -> int:
    """Of the first so many held-out problems, those with a near-copy to train on: by construction, not by words."""
    families: dict[tuple[str, int], dict[str, list[int]]] = {}
    seen: set[str] = set()
    for i, row in enumerate(rows(count)):
        special = i % LEAKED == 7 or i % COPIED in {11, 21}
        text = canonical(row["problem"])
        split = split_of(text, FileTask.held_out_share)
        if not row["answer"] or (split == "train" and not special) or i % REPEATED == 99:
            continue
        if split == "held_out":
            seen.add(text)
        family = ("leak", i // LEAKED % EVALUATION) if i % LEAKED == 7 else ("copy", i // COPIED)
        if special and (split == "train" or len(seen) <= compared):
            families.setdefault(family, {"train": [], "held_out": []})[split].append(i)
    return sum(len(sides["held_out"]) for sides in families.values() if sides["train"])


def batches(count: int, size: int) -> Iterator[list[dict[str, Any]]]:
    source = rows(count)
    while batch := list(islice(source, size)):
        yield batch


def write_jsonl(path: Path, count: int) -> None:
    with path.open("w") as stream:
        for batch in batches(count, 10_000):
            stream.write("".join(json.dumps(row) + "\n" for row in batch))


def write_parquet(path: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("problem", "answer", "difficulty")])
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches(count, 1 << 17):
            writer.write_table(pa.Table.from_pylist(batch, schema))


WRITERS = {"JSONL": write_jsonl, "Parquet": write_parquet}


def inspect(path: Path, against: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """What the command said, and what it took."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    command = ["data", "inspect", str(path), "--against", str(against), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command], capture_output=True, text=True, check=True, env=environment
    )
    seconds = time.perf_counter() - begin
    found = json.loads(done.stdout)
    _, peak_kb, _, cpu_s = done.stderr.rsplit(maxsplit=4)[-4:]
    took = {"peak_mb": int(peak_kb) / 1024, "seconds": seconds, "cpu_s": float(cpu_s)}
    return found, took | {"rows_per_cpu_s": found["rows"] / float(cpu_s)}


def first_problems_s(path: Path) -> float:
    """A task that wants a thousand problems, and does not read the rest."""
    done = subprocess.run([sys.executable, "-c", TASK, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def is_right(found: dict[str, Any], count: int) -> bool:
    """Everything that was put into the file, and nothing else."""
    (leaks,) = found["against"]
    counts = (found["rows"], found["rows"] - found["usable"], found["duplicates"]["repeated"], leaks["sharing"])
    wanted = (count, count // EMPTY, count // REPEATED, count // LEAKED)
    across = found["split"]["leaks"]
    planted = split_leaks(count, across["compared"])
    whole = across["same"] == 0 and across["sharing"] == planted > 0
    return counts == wanted and whole and found["answers"]["statuses"] == {"correct": 1000}


def measure(name: str, folder: Path, count: int) -> dict[str, Any]:
    """Write the file, unless it is there already, and inspect it."""
    against, path = folder / "evaluation.jsonl", folder / f"{count}.{name.lower()}"
    against.write_text("".join(json.dumps({"problem": leak(i)}) + "\n" for i in range(EVALUATION)))
    if not path.exists():
        partial = path.with_suffix(".partial")
        WRITERS[name](partial, count)
        partial.rename(path)
    found, took = inspect(path, against)
    size, right = path.stat().st_size / 1e6, is_right(found, count)
    return {"rows": count, "megabytes": size, **took, "right": right, "first_problems_s": first_problems_s(path)}


def keep(results: Path, name: str, measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Write the figures of one format beside those of the other; returns both."""
    figures = (json.loads(results.read_text())["files"] if results.exists() else {}) | {name: measured}
    results.write_text(json.dumps({"limit_mb": LIMIT_MB, "met": met(figures), "files": figures}, indent=2) + "\n")
    return figures


def met(figures: dict[str, dict[str, Any]]) -> bool:
    return all(one["peak_mb"] <= LIMIT_MB and one["right"] for one in figures.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="memory of inspecting a large dataset")
    parser.add_argument("--rows", type=float, default=1e7, help="a multiple of 10,000")
    parser.add_argument("--only", choices=WRITERS, help="one of the formats; the other's figures are kept")
    parser.add_argument("--folder", type=Path, help="write the files here and leave them there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="write the figures here")
    asked = parser.parse_args()
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in [asked.only] if asked.only else WRITERS:
            figures = keep(asked.results, name, measure(name, asked.folder or Path(temporary), int(asked.rows)))
    columns = ("rows", "megabytes", "cpu_s", "rows_per_cpu_s", "peak_mb", "first_problems_s")
    print("file     " + " ".join(f"{name:>16}" for name in columns) + f"   right (peak_mb at most {LIMIT_MB})")
    for name, one in figures.items():
        print(f"{name:8} " + " ".join(f"{one[column]:16,.1f}" for column in columns) + f"   {one['right']}")
    return 0 if met(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
