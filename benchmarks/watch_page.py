"""Does the page of `scalerl watch` stay smooth with fifty runs of a thousand evaluations? Measured in a real browser.

    python benchmarks/watch_page.py          # a few minutes; needs chromium (scripts/install_chromium.sh)

The runs of `watch.py` are watched by the command itself. Once all are on the page, an evaluation is appended to one run
after the other, one a second, while the budget slider is moved. The browser tells how long its main thread was busy at
a stretch (long tasks, over 50 ms): while it is, nothing answers. The longest is held against the limit.
benchmarks/results/watch_page.json keeps the figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from watch import NUM_POINTS, NUM_RUNS, line, write_runs

RESULTS = Path(__file__).parent / "results" / "watch_page.json"
LIMIT_MS = 100
"""A pause that a hand on the slider does not notice much."""
SECONDS = 20
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
OBSERVE = """() => { window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask" }); }"""


def opened(page: Page, address: str) -> None:
    page.goto(address)
    fitted = "Page.document().runs.filter((run) => run.units[0]?.fit).length"
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    while page.evaluate(fitted) < NUM_RUNS:
        time.sleep(1)
    time.sleep(20)  # other units, histories and the comparison follow


def measure(page: Page, root: Path) -> list[float]:
    runs = sorted(root.iterdir())
    page.evaluate(OBSERVE)
    slider = page.locator("input[type=range]").first
    slider.focus()
    for second in range(SECONDS):
        with (runs[second % NUM_RUNS] / "evals.jsonl").open("a") as stream:
            stream.write(json.dumps(line(second % NUM_RUNS, 20 * (NUM_POINTS + 1))) + "\n")
        for _ in range(5):
            page.keyboard.press("ArrowRight")
            time.sleep(0.2)
    tasks: list[float] = page.evaluate("window.tasks")
    return tasks


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
            tasks = measure(page, root)
            browser.close()
        finally:
            server.terminate()
            server.wait(10)
    figures = {
        "runs": NUM_RUNS, "points": NUM_POINTS, "seconds": SECONDS, "long_tasks": len(tasks), "limit_ms": LIMIT_MS,
        "longest_ms": max(tasks, default=0.0), "median_ms": statistics.median(tasks) if tasks else 0.0,
        "busy_share": sum(tasks) / 1000 / SECONDS,
    }  # fmt: skip
    met = figures["longest_ms"] <= LIMIT_MS
    print(f"{figures['long_tasks']} long tasks in {SECONDS} s, {figures['busy_share']:.0%} of the time")
    print(f"longest {figures['longest_ms']:.0f} ms, limit {LIMIT_MS}; median {figures['median_ms']:.0f} ms")
    RESULTS.write_text(json.dumps(figures | {"met": met}, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
