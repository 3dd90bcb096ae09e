"""Pictures of the report for the docs, taken in a real browser: `make screenshots`.

One run (the paper's 8B curve, its second half held out) and a comparison of three simulated recipes, each on a desktop,
on a phone and in the dark, into docs/images/. The dates in the pages are fixed, so that only a changed page changes a
picture.
"""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from scalerl.curves import Fit, fit
from scalerl.readers import load_example
from scalerl.report.answers import Document, source_document
from scalerl.report.document import RunResult, UnitResult, comparison_documents, report_document, run_document
from scalerl.report.history import moments
from scalerl.report.page import write_page
from scalerl.series import Series

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MADE = datetime(2026, 1, 1, tzinfo=UTC)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
DEVICES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1200, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 1180}, "device_scale_factor": 2},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
}
RECIPES = {"baseline": (0.60, 1_500.0, 1.2), "longer context": (0.66, 2_200.0, 1.2), "larger batch": (0.60, 900.0, 1.4)}
"""Ceiling, midpoint and exponent of each."""


def single() -> Document:
    example = load_example("scalerl-8b")
    made = fit(example.series, floor=example.floor, window=(example.window[0], 50_000.0), name="ScaleRL 8B")
    source = source_document([], "scalerl-8b", example.citation)
    run = _run(made, 100_000.0, source, history=True, origin="example scalerl-8b")
    command = "scalerl report --example scalerl-8b --until 50k --budget 100k -o report.html"
    title = "ScaleRL 8B: the second half from the first"
    return report_document([run], None, title=title, command=command, level=made.level, created=MADE)


def comparison() -> Document:
    fits = [fit(_simulated(name, *shape)) for name, shape in RECIPES.items()]
    runs = [_run(made, 24_000.0, source_document([f"{made.name}.csv"]), origin=f"{made.name}.csv") for made in fits]
    compared = comparison_documents({"gpu_hours": fits})
    title = "Three recipes (simulated)"
    command = "scalerl report baseline.csv 'longer context.csv' 'larger batch.csv' --budget 24k -o report.html"
    return report_document(runs, compared, title=title, command=command, level=0.8, created=MADE)


def _simulated(name: str, ceiling: float, midpoint: float, exponent: float) -> Series:
    compute = np.geomspace(250.0, 12_000.0, 34)
    smooth = 0.28 + (ceiling - 0.28) / (1 + (midpoint / compute) ** exponent)
    noise = np.random.default_rng(len(name)).normal(0, 0.005, compute.size)
    return Series.of(
        compute, smooth + noise, 1000.0, start=0.28, name=name, compute_name="GPU-hours", value_name="pass rate"
    )


def _run(made: Fit, budget: float, source: Document, *, origin: str, history: bool = False) -> Document:
    moved = tuple(moments(made, budget)) if history else ()
    unit = UnitResult("gpu_hours", "GPU-hours", made.series, made, budget, history=moved, source=source)
    return run_document(RunResult(made.name, made.name, origin, (unit,), "finished"))


def _shoot(browser: Browser, page: Path, name: str) -> None:
    for device, options in DEVICES.items():
        context = browser.new_context(**options)
        tab = context.new_page()
        tab.goto(page.as_uri())
        tab.wait_for_selector("body[data-ready]", state="attached")
        tab.evaluate("MoreCharts.drawAll()")
        tab.wait_for_timeout(500)
        target = IMAGES / f"report-{name}-{device}.png"
        tab.screenshot(path=target, full_page=device == "desktop")
        print(target.relative_to(IMAGES.parents[1]))
        context.close()


def main() -> int:
    chromium = os.environ.get("SCALERL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium: run scripts/install_chromium.sh", file=sys.stderr)
        return 1
    IMAGES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name, document in (("single", single()), ("comparison", comparison())):
            _shoot(browser, write_page(document, Path(folder) / f"{name}.html"), name)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
