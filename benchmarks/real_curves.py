"""Real curves for calibration.py and tune.py: read from a CSV that is not part of this repository."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scalerl import Series

MIN_EVALUATIONS = 20


def load_real(path: Path, least: int = MIN_EVALUATIONS) -> dict[tuple[str, str], Series]:
    """{(project, curve): series} of the curves with at least so many evaluations; compute is the step."""
    rows: dict[tuple[str, str], list[tuple[float, float, float | None]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            n = float(row["n_eval"]) if row["n_eval"] else None
            rows[row["dataset"], f"{row['curve']}|{row['metric']}"].append((float(row["step"]), float(row["y"]), n))
    curves = {}
    for (project, curve), points in rows.items():
        if len(points) >= least:
            step, value = [p[0] for p in points], [p[1] for p in points]
            sizes = [p[2] for p in points if p[2] is not None]
            known = sizes if len(sizes) == len(points) else None
            curves[project, curve] = Series.of(step, value, known, name=curve, compute_name="step", value_name="y")
    return curves


def rolling_splits(series: Series) -> Iterator[tuple[float, float, Series, float, float]]:
    """(share, horizon, points seen, compute of the target, mean of the three evaluations around it)."""
    for share in (0.2, 0.25, 0.35, 0.5):
        count = max(int(np.ceil(share * len(series))), 5)
        last = float(series.compute[count - 1])
        for horizon in (1.5, 2.0, 4.0):
            middle = int(np.argmin(np.abs(series.compute - horizon * last)))
            if horizon * last > series.compute[-2] * 1.0001 or middle - 1 < count:
                continue
            around = slice(middle - 1, middle + 2)
            yield share, horizon, series.head(count), float(series.compute[middle]), float(series.value[around].mean())
