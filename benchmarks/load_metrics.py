"""One run with ten million lines of metrics: the part `metrics` of `load.py`."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from load_rows import Row, memory_mb, processor_s, read_mb, rows_of, run, shown
from load_server import clients_of, metrics_text, suffixes, watched, write_run
from scalerl.runs import RunDirectory
from scalerl.runs.store import Records

LINES, QUICK_LINES = 10_000_000, 100_000
EVALUATIONS = 500
PEAK_MB = 500.0
APPENDED = 5


def measure(folder: Path, quick: bool) -> list[Row]:
    lines = QUICK_LINES if quick else LINES
    began = time.monotonic()
    one = write_run(folder / "run", 0, EVALUATIONS, lines)
    size = one.metrics.path.stat().st_size
    rows = shown(
        [
            Row("lines of metrics.jsonl", lines, "lines"),
            Row("bytes of it", size / 1e6, "MB"),
            Row("written in", time.monotonic() - began, "s"),
        ]
    )
    rows += shown(_appending(folder, one))
    rows += shown(_commands(folder, one, size))
    return rows + shown(_watching(one, lines, size))


def _appending(folder: Path, one: RunDirectory) -> list[Row]:
    """The two files in turn, so that whatever else the machine does hits both."""
    files = {"new": Records(folder / "new.jsonl"), "long": one.metrics}
    end = one.metrics.path.stat().st_size
    record = one.metrics.last() or {}
    took: dict[str, list[float]] = {name: [] for name in files}
    for _ in range(500):
        for name, records in files.items():
            before = time.perf_counter()
            records.append(record)
            took[name].append(time.perf_counter() - before)
    one.metrics.truncate(end)
    short, long = (1e6 * statistics.median(took[name]) for name in ("new", "long"))
    return [
        Row("a line is added to a new file (median)", short, "us"),
        Row("to the long one (median)", long, "us"),
        Row("long against new", long / short, "times", 1.5),
    ]


def _commands(folder: Path, one: RunDirectory, size: int) -> list[Row]:
    page = folder / "report.html"
    return [
        *rows_of("scalerl runs list", run("runs", "list", folder), seconds=2.0, peak_mb=PEAK_MB),
        *rows_of("scalerl runs show", run("runs", "show", one.path), seconds=2.0, peak_mb=PEAK_MB),
        *rows_of("scalerl fit", run("fit", one.path), seconds=10.0, peak_mb=PEAK_MB),
        *rows_of("scalerl report", run("report", one.path, "-o", page), seconds=15 + 30 * size / 1e9, peak_mb=PEAK_MB),
    ]


def _watching(one: RunDirectory, lines: int, size: int) -> list[Row]:
    with watched(one.path) as server:
        fitted, fitted_cpu = server.wait_for_decisions(1), processor_s(server.pid)
        rest, rest_cpu = server.wait_for_rest(), processor_s(server.pid)
        last = _last_panel_step(server.document())
        with clients_of(server, 1) as clients:
            step, points, read = lines, [], []
            ends = suffixes(1, step)
            for _ in range(APPENDED):
                before = read_mb(server.pid)
                step += lines // EVALUATIONS
                with one.metrics.path.open("a") as stream:
                    stream.write(metrics_text(step, ends[0]))
                points += clients.latencies(one, 0, step)
                time.sleep(2.0)
                read.append(read_mb(server.pid) - before)
        return [
            Row("scalerl watch: the curve is fitted, from the start", fitted, "s"),
            Row("processor time until then", fitted_cpu, "s", 10.0),
            Row("the panels are complete, from the start", rest, "s"),
            Row("processor time until then", rest_cpu, "s", 10 + 30 * size / 1e9),
            Row("the panels reach to this share of the steps", last / lines, "", 0.99, at_least=True),
            Row("a point is seen (median)", statistics.median(points), "s", 2.0),
            Row("a point is seen (worst)", max(points), "s", 2.0),
            Row("read for one more line and one more point (worst)", max(read), "MB", 20.0),
            Row("scalerl watch, peak memory", memory_mb(server.pid), "MB", PEAK_MB),
        ]


def _last_panel_step(document: Any) -> float:
    """The mean step of the last point of the first line of the first panel."""
    (found,) = document["runs"]
    return float(found["panels"][0]["lines"][0]["x"][-1])
