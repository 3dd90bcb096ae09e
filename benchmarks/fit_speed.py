"""How fast a fit is: against the paper's procedure, against the clock, and against the number of points.

    python benchmarks/fit_speed.py          # about two minutes; exit code 1 when a limit is missed

Four measurements on one thread, all of them of the default fit, intervals and diagnostics included:
  a  the paper's 8B points: ours and the paper's grid procedure in turn, ratio of the medians, and both sums of squares
  b  the same fit followed by a forecast at 20 computes
  c  1,000 different curves of 50 points
  d  curves of 50 to 50,000 points, and the slope of time against points on log axes between the last two
The table shows each figure beside its rival or limit; benchmarks/results/fit_speed.json keeps them.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy: its threads read these when they start
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from scalerl import Series, fit, forecast
from scalerl.readers.examples import load_example

RESULTS = Path(__file__).parent / "results" / "fit_speed.json"
FLOOR, WINDOW = 0.40, (1500.0, 50000.0)
PAPER_ROUNDS, OURS_PER_ROUND = 3, 15
NUM_CURVES, POINTS_EACH = 1000, 50
SIZES = {50: 15, 500: 9, 5000: 5, 50000: 5}
"""Points, and repetitions."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    figure: float
    unit: str
    rival: str
    limit: float | None
    """None: shown for information."""
    at_least: bool = False
    """The limit is a lower one."""

    @property
    def met(self) -> bool:
        if self.limit is None:
            return True
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def against_the_paper(series: Series) -> list[Row]:
    """Rounds of one paper fit and a few of ours in turn, so that both see the same load of the machine."""
    paper, ours = [], []
    for _ in range(PAPER_ROUNDS):
        paper.append(seconds(lambda: fit(series, floor=FLOOR, window=WINDOW, method="paper")))
        ours += [seconds(lambda: fit(series, floor=FLOOR, window=WINDOW)) for _ in range(OURS_PER_ROUND)]
    slow, quick = statistics.median(paper), statistics.median(ours)
    their_sse = fit(series, floor=FLOOR, window=WINDOW, method="paper").sse
    return [
        Row("a  default fit of the 8B points", 1e3 * quick, "ms", f"paper's procedure {1e3 * slow:,.0f} ms", None),
        Row("a  times faster than the paper's", slow / quick, "x", "", 100.0, at_least=True),
        Row("a  sum of squares, over the paper's", fit(series, floor=FLOOR, window=WINDOW).sse / their_sse, "x",
            f"paper's {their_sse:.3e}", 1.0),
    ]  # fmt: skip


def with_forecast(series: Series) -> Row:
    ahead = np.geomspace(WINDOW[1], 20 * WINDOW[1], 20)
    times = [seconds(lambda: forecast(fit(series, floor=FLOOR, window=WINDOW), ahead)) for _ in range(25)]
    return Row("b  fit and forecast at 20 computes", 1e3 * statistics.median(times), "ms", "", 100.0)


def simulated(points: int, rng: np.random.Generator) -> Series:
    """A sigmoid with its own parameters, seen up to between half a midpoint and 20, 500 answers to each evaluation."""
    floor, gain, exponent = rng.uniform(0.05, 0.5), rng.uniform(0.1, 0.45), np.exp(rng.normal(0.3, 0.4))
    compute = 1e4 * np.arange(1, points + 1) / points
    midpoint = 1e4 / np.exp(rng.uniform(np.log(0.5), np.log(20.0)))
    value = floor + gain / (1 + (midpoint / compute) ** exponent) + 0.01 * rng.standard_normal(points)
    return Series.of(compute, np.clip(value, 0.0, 1.0), 500, start=float(floor))


def many_curves() -> Row:
    rng = np.random.default_rng(1)
    curves = [simulated(POINTS_EACH, rng) for _ in range(NUM_CURVES)]
    total = seconds(lambda: [fit(curve) for curve in curves])
    each = f"{1e3 * total / NUM_CURVES:.0f} ms each"
    return Row(f"c  {NUM_CURVES:,} curves of {POINTS_EACH} points", total, "s", each, 60.0)


def against_points() -> list[Row]:
    rows, medians = [], []
    for points, repetitions in SIZES.items():
        rng = np.random.default_rng(2)
        curves = [simulated(points, rng) for _ in range(repetitions)]
        medians.append(statistics.median([seconds(partial(fit, curve)) for curve in curves]))
        rows.append(Row(f"d  {points:,} points", 1e3 * medians[-1], "ms", "", None))
    last, before = list(SIZES)[-1], list(SIZES)[-2]
    slope = float(np.log(medians[-1] / medians[-2]) / np.log(last / before))
    return [*rows, Row(f"d  slope from {before:,} to {last:,} points", slope, "", "linear: 1", 1.15)]


def show(rows: list[Row]) -> None:
    print(f"{'what':<40} {'figure':>14}  {'rival':<34} {'limit':>10}")
    for row in rows:
        limit = "" if row.limit is None else f"{'>=' if row.at_least else '<='} {row.limit:g}"
        mark = "" if row.met else "  MISSED"
        print(f"{row.what:<40} {row.figure:>10,.3f} {row.unit:<3}  {row.rival:<34} {limit:>10}{mark}")


def save(rows: list[Row]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {
        "python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count(), "threads": 1,
        "numpy": version("numpy"), "scipy": version("scipy"), "load": os.getloadavg()[0],
    }  # fmt: skip
    document = {"machine": machine, "rows": [asdict(row) | {"met": row.met} for row in rows]}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    series = load_example("scalerl-8b").series
    fit(series, floor=FLOOR, window=WINDOW)  # imports and first-call costs are not what is measured
    rows = [*against_the_paper(series), with_forecast(series), many_curves(), *against_points()]
    show(rows)
    save(rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
