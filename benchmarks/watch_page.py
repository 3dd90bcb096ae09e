"""Does the page of `scalerl watch` stay smooth with fifty runs of a thousand evaluations? Measured in a real browser.

    python benchmarks/watch_page.py          # a few minutes; needs chromium (scripts/install_chromium.sh)

The runs of `watch.py` are watched by the command itself. Once all are on the page, an evaluation is appended to one run
after the other, one a second, while the budget slider is moved. The browser's own trace tells how long its main thread
was busy at a stretch: while it is, nothing answers. Each stretch is measured twice, by the clock and by the processor
time of the thread. Where other work shares the cores, the clock counts their turns too (the trainings of a machine that
is also used to train), so the longest stretch of processor time is held against the limit; the clock and the load stand
beside it. benchmarks/results/watch_page.json keeps the figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from watch import NUM_POINTS, NUM_RUNS, line, write_runs

RESULTS = Path(__file__).parent / "results" / "watch_page.json"
LIMIT_MS = 100
"""A pause that a hand on the slider does not notice much."""
SECONDS = 20
PATIENCE_MS = 240_000
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
TASK = "ThreadControllerImpl::RunTask"
LAST = "Page.document().runs.map((run) => run.units[0].points.compute.at(-1))"
LONG_MS = 50
"""What browsers call a long task."""


@dataclass(frozen=True)
class Stretch:
    """One task of the page's main thread."""

    wall_ms: float
    cpu_ms: float


def opened(page: Page, address: str) -> None:
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address, timeout=PATIENCE_MS)
    fitted = "Page.document().runs.filter((run) => run.units[0]?.fit).length"
    page.wait_for_selector("body[data-ready]", timeout=PATIENCE_MS)
    while page.evaluate(fitted) < NUM_RUNS:
        time.sleep(1)
    time.sleep(20)  # other units, histories and the comparison follow


def measure(browser: Browser, page: Page, root: Path) -> tuple[list[Stretch], int]:
    """The stretches, and how many runs got their new point on the page meanwhile."""
    runs = sorted(root.iterdir())
    before = page.evaluate(LAST)
    browser.start_tracing(page=page, categories=["toplevel"])
    slider = page.locator("input[type=range]").first
    slider.focus()
    for second in range(SECONDS):
        with (runs[second % NUM_RUNS] / "evals.jsonl").open("a") as stream:
            stream.write(json.dumps(line(second % NUM_RUNS, 20 * (NUM_POINTS + 1))) + "\n")
        for _ in range(5):
            page.keyboard.press("ArrowRight")
            time.sleep(0.2)
    tasks = stretches(json.loads(browser.stop_tracing())["traceEvents"])
    return tasks, sum(old != new for old, new in zip(before, page.evaluate(LAST), strict=True))


def stretches(events: list[dict[str, Any]]) -> list[Stretch]:
    """The tasks of the main thread that had most to do: the page's own."""
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one.get("name") == "thread_name"}
    by_thread: dict[tuple[int, int], list[Stretch]] = {}
    for one in events:
        thread = (one["pid"], one["tid"])
        if one.get("name") == TASK and one.get("ph") == "X" and names.get(thread) == "CrRendererMain":
            by_thread.setdefault(thread, []).append(Stretch(one["dur"] / 1000, one["tdur"] / 1000))
    return max(by_thread.values(), key=lambda tasks: sum(one.cpu_ms for one in tasks))


def figures_of(tasks: list[Stretch]) -> dict[str, Any]:
    long = [one.wall_ms for one in tasks if one.wall_ms > LONG_MS]
    return {
        "runs": NUM_RUNS, "points": NUM_POINTS, "seconds": SECONDS, "limit_ms": LIMIT_MS,
        "longest_cpu_ms": round(max(one.cpu_ms for one in tasks), 1),
        "tasks_over_50_ms_of_cpu": sum(one.cpu_ms > LONG_MS for one in tasks),
        "busy_share_cpu": round(sum(one.cpu_ms for one in tasks) / 1000 / SECONDS, 3),
        "longest_wall_ms": round(max(one.wall_ms for one in tasks), 1),
        "long_tasks_wall": len(long), "median_long_wall_ms": round(statistics.median(long), 1) if long else 0.0,
        "busy_share_wall": round(sum(one.wall_ms for one in tasks) / 1000 / SECONDS, 3),
        "load": round(os.getloadavg()[0], 1), "cpus": os.cpu_count(),
    }  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder)
        write_runs(root)
        command = [sys.executable, "-m", "scalerl", "watch", str(root), "--port", "8299"]
        server = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        try:
            time.sleep(8)
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            opened(page, "http://127.0.0.1:8299/")
            tasks, arrived = measure(browser, page, root)
            browser.close()
        finally:
            server.terminate()
            server.wait(10)
    figures = figures_of(tasks) | {"points_that_arrived": arrived}
    met = figures["longest_cpu_ms"] <= LIMIT_MS
    print(f"longest stretch: {figures['longest_cpu_ms']:.0f} ms of processor time, limit {LIMIT_MS}")
    print(
        f"by the clock {figures['longest_wall_ms']:.0f} ms, at a load of {figures['load']} on {figures['cpus']} cores"
    )
    print(f"{arrived} of {SECONDS} new points arrived meanwhile")
    print(f"busy {figures['busy_share_cpu']:.0%} of the time ({figures['busy_share_wall']:.0%} by the clock)")
    RESULTS.write_text(json.dumps(figures | {"met": met}, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
