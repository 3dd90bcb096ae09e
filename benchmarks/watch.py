"""How `scalerl watch` bears fifty runs of a thousand evaluations each: time, memory, size of messages.

    python benchmarks/watch.py          # about five minutes; exit code 1 when a limit is missed

Fifty run directories of ours are written, each with 1,000 evaluations, 1,000 steps of metrics and four units of
compute, and followed in this process, as the command does. Then evaluations are appended to one run after the other.
  a  one look at all files, nothing changed
  b  from an appended evaluation to the message with the point, and to the message with the fit that includes it: while
     everything else is at rest, and while ten runs change at once
  c  bytes of one message and of the whole document, plain and as gzip
  d  memory of the process with everything read and fitted
The table shows each figure beside its limit; benchmarks/results/watch.json keeps them.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy: its threads read these when they start
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gzip
import json
import platform
import resource
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scalerl.config import load_run, patch
from scalerl.curves import fit
from scalerl.readers import read_curves
from scalerl.report.board import Board
from scalerl.report.follow import Follower
from scalerl.report.followed import Ways
from scalerl.report.own_run import other_units
from scalerl.report.targets import Targets
from scalerl.runs import RunDirectory

RESULTS = Path(__file__).parent / "results" / "watch.json"
NUM_RUNS, NUM_POINTS, EVERY_S = 50, 1000, 1.0
NUM_APPENDED, AT_ONCE = 8, 10


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    figure: float
    unit: str
    limit: float | None
    """None: shown for information."""

    @property
    def met(self) -> bool:
        return self.limit is None or self.figure <= self.limit


def line(index: int, step: int) -> dict[str, Any]:
    """An evaluation with its ledger, as a run writes it."""
    used = {"device_s": 0.1 * step, "flops": 1e9 * step, "tokens": 100 * step}
    noise = 0.004 * np.random.default_rng(1000 * index + step).standard_normal()
    rate = 0.2 + (0.4 + 0.008 * index) / (1 + (2000 / max(step, 1e-9)) ** 1.2) + noise
    return {
        "step": step, "pass_rate": float(np.clip(rate, 0, 1)), "num_problems": 250, "num_samples": 4,
        "num_judged": 1000, "standard_error": 0.015, "truncation_rate": 0.1, "mean_length": 30.5, "entropy": 0.5,
        "ledger": dict.fromkeys(("generation", "training", "evaluation"), used), "wall_s": float(step),
    }  # fmt: skip


def write_runs(root: Path) -> list[RunDirectory]:
    config = load_run("scalerl", "laptop").config
    runs = []
    for index in range(NUM_RUNS):
        run = RunDirectory.create(root / f"run-{index:02}", patch(config, {"seed": index}), provenance=False)
        text = "".join(json.dumps(line(index, 20 * i)) + "\n" for i in range(NUM_POINTS + 1))
        run.evals.path.write_text(text)
        run.metrics.path.write_text(text)
        runs.append(run)
    return runs


class Watched:
    """A follower at work in its thread, and one listener."""

    def __init__(self, root: Path) -> None:
        ways = Ways(
            lambda path: read_curves([path]), other_units, lambda name, seeds: fit(seeds, name=name), lambda _: None
        )
        self.targets, self.board = Targets((str(root),)), Board({"schema": 1})
        self.follower = Follower(self.targets, ways, self.board, every_s=EVERY_S)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.follower.run, args=(self.stop,))
        self.seen, self.sizes = 0, []  # type: ignore[var-annotated]

    def message(self) -> Any:
        while (news := self.board.news(self.seen, 5.0)) is None:
            continue
        self.seen = news.number
        self.sizes.append(len(news.data) / max(1, len(json.loads(news.data)["runs"])))
        return json.loads(news.data)

    def wait_until_at_rest(self) -> None:
        """No message for ten seconds."""
        while (news := self.board.news(self.seen, 10.0)) is not None:
            self.seen = news.number

    def latency(self, runs: list[RunDirectory], step: int) -> tuple[float, float]:
        """Seconds from the write to the last run's point, and to its fit."""
        self.seen, began = self.board.number, time.monotonic()
        for index, run in enumerate(runs):
            run.evals.append(line(index, step))
        compute = 2e9 * step
        shown: dict[str, float] = {}
        fitted: dict[str, float] = {}
        while len(fitted) < len(runs):
            for one in self.message()["runs"]:
                now = time.monotonic() - began
                unit: dict[str, Any] = next(iter(one.get("units", ())), {})
                if unit.get("points", {"compute": [0]})["compute"][-1] == compute:
                    shown.setdefault(one["id"], now)
                if unit.get("fit") and unit["fit"]["window"]["last"] == compute:
                    fitted.setdefault(one["id"], now)
        return max(shown.values()), max(fitted.values())


def measure(root: Path) -> list[Row]:
    runs = write_runs(root)
    watched = Watched(root)
    began = time.monotonic()
    watched.thread.start()
    while len([run for run in watched.follower.runs if run.decision is not None]) < NUM_RUNS:
        time.sleep(0.1)
    first_s = time.monotonic() - began
    watched.wait_until_at_rest()
    looks = [timed(watched) for _ in range(20)]
    last = 20 * NUM_POINTS
    alone = [watched.latency([runs[i]], last + 20 * (i + 1)) for i in range(NUM_APPENDED)]
    size = statistics.median(watched.sizes)
    watched.wait_until_at_rest()
    together = watched.latency(runs[:AT_ONCE], last + 1000)
    document = watched.board.document()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    watched.stop.set()
    watched.thread.join()
    return [
        Row("all runs read and fitted", first_s, "s", None),
        Row("one look", 1000 * statistics.median(looks), "ms", 50.0),
        Row("a point is shown, the others at rest (median)", statistics.median(a for a, _ in alone), "s", 2.0),
        Row("a point is shown, the others at rest (worst)", max(a for a, _ in alone), "s", 2.0),
        Row("its fit is shown (median)", statistics.median(b for _, b in alone), "s", None),
        Row(f"points of {AT_ONCE} runs at once are shown", together[0], "s", None),
        Row("their fits are shown", together[1], "s", None),
        Row("one message", size / 1024, "KiB", 1024.0),
        Row("the document", len(document) / 2**20, "MiB", 50.0),
        Row("the document as gzip", len(gzip.compress(document, 1)) / 2**20, "MiB", None),
        Row("memory", memory, "MiB", 1024.0),
    ]


def timed(watched: Watched) -> float:
    began = time.perf_counter()
    watched.targets.poll()
    return time.perf_counter() - began


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder))
    for row in rows:
        limit = "" if row.limit is None else f"limit {row.limit:g} {row.unit}: {'met' if row.met else 'MISSED'}"
        print(f"{row.what:<50} {row.figure:>9.2f} {row.unit:<4} {limit}")
    about = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"rows": [asdict(row) for row in rows], **about}, indent=2) + "\n")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
