"""Two hundred runs and fifty clients: the part `watch` of `load.py`."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load_rows import Row, memory_mb, processor_s, shown, threads
from load_server import Clients, Server, clients_of, metrics_text, suffixes, watched, write_run
from scalerl.runs import RunDirectory

RUNS, QUICK_RUNS = 200, 13
CLIENTS, QUICK_CLIENTS = 50, 5
EVALUATIONS, STEPS = 100, 500
POINTS = 8
STALLED, VANISHED = 10, 20
SEEN_S = 2.0
"""A point is to be seen by everybody within this time."""
PATIENCE_S = 35.0
"""The server gives up a client that takes nothing for 30 seconds."""


def measure(folder: Path, quick: bool) -> list[Row]:
    count, people = (QUICK_RUNS, QUICK_CLIENTS) if quick else (RUNS, CLIENTS)
    runs = [write_run(folder / f"run-{index:03}", index, EVALUATIONS, STEPS) for index in range(count)]
    with watched(folder) as server:
        rows = shown(_until_rest(server, count))
        with clients_of(server, people) as clients:
            rows += shown(_at_rest(server, clients, runs, people))
            rows += shown(_while_they_step(server, clients, runs))
            if not quick:
                rows += shown(_with_bad_clients(server, clients, runs))
        rows += shown([Row("peak memory of the server", memory_mb(server.pid), "MB", 1500.0)])
    return rows


def _until_rest(server: Server, count: int) -> list[Row]:
    fitted, fitted_cpu = server.wait_for_decisions(count), processor_s(server.pid)
    rest, rest_cpu = server.wait_for_rest(), processor_s(server.pid)
    runs = server.document()["runs"]
    whole = sum(all(unit["fit"] for unit in one["units"]) and bool(one["panels"]) for one in runs)
    return [
        Row(f"{count} runs of {EVALUATIONS} evaluations fitted, from the start", fitted, "s"),
        Row("processor time until then, for each run", fitted_cpu / count, "s", 0.5),
        Row("everything else done too (units, panels, past forecasts)", rest, "s"),
        Row("processor time until then, for each run", rest_cpu / count, "s", 3.0),
        Row("runs on the page with panels and a fit in every unit", whole, "runs", count, at_least=True),
        Row("memory of the server then", memory_mb(server.pid, "VmRSS"), "MB", 1000.0),
    ]


def _at_rest(server: Server, clients: Clients, runs: list[RunDirectory], people: int) -> list[Row]:
    """Points of different runs, one after the other."""
    every, worst = _points(clients, runs, 1)
    server.wait_for_rest()
    busy = server.busy(10.0)
    return [
        Row(f"a point, at rest: seen by one of {people} clients (median)", statistics.median(every), "s", SEEN_S),
        Row("seen by all of them (median)", statistics.median(worst), "s", SEEN_S),
        Row("seen by all of them (worst)", max(worst), "s", SEEN_S),
        Row("processor time at rest", 100 * busy, "% of one", 10.0),
    ]


def _while_they_step(server: Server, clients: Clients, runs: list[RunDirectory]) -> list[Row]:
    """All runs write a line of metrics every second."""
    with _stepping(runs):
        time.sleep(5.0)
        busy = server.busy(10.0)
        _, worst = _points(clients, runs, 2)
    return [
        Row(f"all {len(runs)} runs make a step a second: processor time", 100 * busy, "% of one", 60.0),
        Row("a point meanwhile: seen by all (median)", statistics.median(worst), "s", SEEN_S),
        Row("seen by all (worst)", max(worst), "s", 2 * SEEN_S),
    ]


def _with_bad_clients(server: Server, clients: Clients, runs: list[RunDirectory]) -> list[Row]:
    server.wait_for_rest()
    before, memory = threads(server.pid), memory_mb(server.pid, "VmRSS")
    clients.tell(f"stall {STALLED}")
    clients.tell(f"vanish {VANISHED}")
    _, worst = _points(clients, runs, 3)
    grown = memory_mb(server.pid, "VmRSS") - memory
    time.sleep(PATIENCE_S)
    clients.latencies(runs[0], 0, STEPS + 4)  # whoever is gone is noticed when something is sent
    time.sleep(2.0)
    return [
        Row(f"{STALLED} clients stall, {VANISHED} vanish: a point, seen by all others (median)",
            statistics.median(worst), "s", SEEN_S),
        Row("seen by all others (worst)", max(worst), "s", SEEN_S),
        Row("memory that they cost", grown, "MB", 200.0),
        Row("threads left of them after their time", threads(server.pid) - before, "threads", STALLED),
    ]  # fmt: skip


def _points(clients: Clients, runs: list[RunDirectory], after: int) -> tuple[list[float], list[float]]:
    """Latencies of all clients, and of the last one for each point."""
    chosen = [(7 * i + 1) % len(runs) for i in range(min(POINTS, len(runs) // 2))]
    found = [clients.latencies(runs[index], index, STEPS + after) for index in chosen]
    return [one for each in found for one in each], [max(each) for each in found]


@contextmanager
def _stepping(runs: list[RunDirectory]) -> Iterator[None]:
    stop = threading.Event()
    ends = suffixes(97, STEPS)

    def work() -> None:
        step = STEPS
        while not stop.wait(1.0):
            step += 1
            for run in runs:
                with run.metrics.path.open("a") as stream:
                    stream.write(metrics_text(step, ends[step % 97]))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
