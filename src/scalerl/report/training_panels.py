"""The panels of a run's training: what metrics.jsonl says at every step, as a few lines that can be drawn.

Filled by `own_run`, piece by piece and as a run goes on; the file itself is not known here. What is kept does not grow
with the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalerl.readers.json_lines import Record
from scalerl.report.answers import Document
from scalerl.report.thinning import Thinned, in_bins, rounded
from scalerl.series import FloatArray

MOST_PLACES = 200
"""Points of one line of a panel."""
MOST_STRETCHES = 2048
"""Of steps that are kept: exact up to so many, and beyond them still five or more for each point."""
PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Pass rate in training", "share", (("pass_rate", "pass rate"),)),
    ("Rollouts cut short", "share", (("truncation_rate", "truncated"), ("interruption_rate", "interrupted"))),
    ("Entropy", "nats per token", (("entropy", "entropy"),)),
    ("Age of the rollouts", "policy versions", (("age_mean", "mean"), ("age_max", "largest"))),
    ("Idle time", "share", (("generator_idle", "generator"), ("trainer_idle", "trainer"))),
    ("Gradient norm", "norm", (("grad_norm", "gradient norm"),)),
    ("Length", "tokens", (("mean_length", "mean"), ("max_length", "longest"))),
    ("Clipped by the loss", "share", (("clipped_fraction", "clipped"),)),
)
"""Title, unit, and the metrics that share the panel with their names."""
_STEP = "step"
_COLUMNS = (_STEP, *(key for _, _, members in PANELS for key, _ in members))
_NUMBERS = frozenset({int, float})
_LARGEST = 1 << 1023
"""A whole number beyond this is none for a float."""


class TrainingPanels:
    """Of one run."""

    def __init__(self) -> None:
        self._thinned = Thinned(len(_COLUMNS), MOST_STRETCHES)

    @property
    def every(self) -> int:
        """Of the steps that follow, one in so many is enough."""
        return self._thinned.every

    def add(self, records: Sequence[Record]) -> None:
        """The steps that follow those before."""
        self._thinned.add(np.stack([_numbers(records, column) for column in _COLUMNS]))

    def documents(self) -> tuple[Document, ...]:
        """One panel for each group of metrics that the run has recorded."""
        columns = dict(zip(_COLUMNS, self._thinned.points(), strict=True))
        panels = []
        for title, y_name, members in PANELS:
            lines = [line for key, name in members if (line := _line(columns[_STEP], columns[key], name))]
            if lines:
                panels.append({"title": title, "x_name": _STEP, "y_name": y_name, "lines": lines})
        return tuple(panels)


def _line(step: FloatArray, value: FloatArray, name: str) -> Document | None:
    known = np.isfinite(step) & np.isfinite(value)
    if not known.any():
        return None
    x, y = in_bins(step[known], value[known], MOST_PLACES)
    return {"name": name, "x": rounded(x), "y": rounded(y, 4)}


def _numbers(records: Sequence[Record], key: str) -> FloatArray:
    """What stands there in each record; NaN for what is no number."""
    values = [record.get(key) for record in records]
    try:
        return np.array([value if type(value) in _NUMBERS else np.nan for value in values], dtype=np.float64)
    except OverflowError:
        return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    return float(value) if type(value) is float or (type(value) is int and abs(value) < _LARGEST) else np.nan
