"""Reports for the browser tests, made once for all of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np

from scalerl.curves import Fit, fit
from scalerl.report.answers import Document
from scalerl.report.document import RunResult, UnitResult, comparison_documents, report_document, run_document
from scalerl.report.history import moments
from scalerl.report.page import write_page
from scalerl.series import Series

EVIL = "<img src=x onerror=alert(1)>"


def rising(name: str, ceiling: float = 0.62, scale: float = 1.0, unit: str = "GPU-hours", points: int = 40) -> Series:
    """A noisy sigmoid from 0.3 with exponent 1.7."""
    compute = np.geomspace(100.0, 12_000.0, points)
    smooth = 0.3 + (ceiling - 0.3) / (1 + (800.0 / compute) ** 1.7)
    noise = np.random.default_rng(len(name)).normal(0, 0.004, points)
    return Series.of(
        scale * compute, smooth + noise, 1000.0, start=0.3, name=name, compute_name=unit, value_name="pass rate",
        source=f"{name}.csv",
    )  # fmt: skip


def fitted(series: Series, until: float | None = None) -> Fit:
    return fit(series, window=(1.2 * float(series.compute[0]), until))


def run_of(name: str, fits: list[Fit], *, panels: bool = False, history: bool = False) -> RunResult:
    """A run with one unit for each fit."""
    budget = [4 * one.last_compute for one in fits]
    units = tuple(
        UnitResult(
            one.compute_name, one.compute_name, one.series, one, at, targets=(0.6,),
            history=tuple(moments(one, at, 5)) if history else (),
        )
        for one, at in zip(fits, budget, strict=True)
    )  # fmt: skip
    about = {"seed": "1", "machine": name}
    return RunResult(
        name,
        name,
        f"{name}.csv",
        units,
        notes=(f"note about {name}",),
        panels=_panels(name) if panels else (),
        provenance=about,
    )


def renamed(made: Fit, name: str) -> Fit:
    """Another run with the same numbers, without fitting again."""
    other = replace(made, name=name)
    other.__dict__["posterior"] = made.posterior
    return other


def _panels(name: str) -> tuple[Document, ...]:
    """As heavy as those of a run of ours."""
    steps = np.linspace(1, 700, 200).round(1).tolist()
    noise = np.random.default_rng(7).normal(0, 1, 200).round(4).tolist()
    lines = [{"name": f"{name} {which}", "x": steps, "y": noise} for which in ("mean", "largest")]
    titles = ("Entropy", "Idle time", "Length", "Gradient norm", "Rollouts cut short", "Age of the rollouts")
    return tuple({"title": title, "x_name": "step", "y_name": "unit", "lines": lines} for title in titles)


def one_report(folder: Path) -> Path:
    """One run with held-out points, in two units, with a history and panels."""
    hours = fitted(rising("alone"), until=8_000.0)
    tokens = fitted(rising("alone", scale=1e6, unit="tokens"), until=8e9)
    run = run_of("alone", [hours, tokens], panels=True, history=True)
    document = report_document([run_document(run)], None, title="Alone", command="scalerl report alone.csv", level=0.8)
    return write_page(document, folder / "one.html")


def several_report(folder: Path, names: tuple[str, ...] = ("base", "worse", EVIL)) -> Path:
    """Several runs, compared; one has no fit."""
    fits = [fitted(rising(name, ceiling)) for name, ceiling in zip(names, (0.62, 0.5, 0.62), strict=True)]
    runs = [run_document(run_of(one.name, [one])) for one in fits]
    few = UnitResult("GPU-hours", "GPU-hours", (rising("young", points=3),), None)
    runs.append(
        run_document(RunResult("young", "young", "young.csv", (few,), "running", problem="too few points to fit"))
    )
    compared = comparison_documents({"GPU-hours": fits})
    title = " and ".join(names)
    document = report_document(runs, compared, title=title, command=f"scalerl report {names[-1]}", level=0.8)
    return write_page(document, folder / "several.html")


def ten_report(folder: Path) -> Path:
    """Ten runs of the size of ours: four units each, with panels, 75 evaluations."""
    scales = {"flops": 1e9, "tokens": 1e4, "device_hours": 1e-2, "steps": 1.0}
    made = [fitted(rising("run", scale=by, unit=unit, points=75), until=8_000 * by) for unit, by in scales.items()]
    runs, fits = [], []
    for index in range(10):
        own = [renamed(one, f"run-{index}") for one in made]
        runs.append(run_document(run_of(f"run-{index}", own, panels=True)))
        fits.append(own[0])
    compared = comparison_documents({"flops": fits})
    document = report_document(runs, compared, title="Ten runs", command="scalerl report runs/*", level=0.8)
    return write_page(document, folder / "ten.html")


def many_report(folder: Path, count: int = 50) -> Path:
    """So many runs of two units that plotly alone would be too slow: one fit, moved a little for each."""
    fits = [fitted(rising("run", scale=by, unit=unit, points=75)) for unit, by in {"flops": 1e9, "steps": 1.0}.items()]
    first = run_document(run_of("run", fits, panels=True))
    runs = [_moved(first, f"run-{index:02}", 0.002 * index) for index in range(count)]
    runs[3:] = [run | {"panels": []} for run in runs[3:]]  # of many runs only the first few are shown there
    document = report_document(runs, None, title="Many runs", command="scalerl report runs/*", level=0.8)
    return write_page(document, folder / "many.html")


def _moved(run: Document, name: str, by: float) -> Document:
    other: Document = deepcopy(run) | {"id": name, "name": name}
    for unit in other["units"]:
        unit["points"]["value"] = [value - by for value in unit["points"]["value"]]
        for line in ("law", "median", "low", "high"):
            unit["curve"][line] = [None if value is None else value - by for value in unit["curve"][line]]
    return other
