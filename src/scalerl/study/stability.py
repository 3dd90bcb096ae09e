"""Signs of trouble in a run: truncated answers, a pass rate that collapsed, entropy that is gone, prompts that ran out.

Called by `gather` for each job that ended. The held-out curve is enough for a collapse; everything else comes from
metrics.jsonl, if the run is one of ours, and is None otherwise: unknown, not zero.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scalerl.readers.json_lines import Record
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import Records, layout
from scalerl.series import Series

FALL = 0.1
"""A pass rate this far below its best that stays there is a collapse. In the paper such runs did not recover."""
RUN_LENGTH = 3
"""Evaluations that make a level: the best and the last are means over so many."""
LAST_STEPS = 20
"""Steps that the last figures of the steps are averaged over."""


@dataclass(frozen=True)
class Stability:
    """One job."""

    cell: str
    seed: int
    best: float | None
    """Highest mean of three evaluations in a row."""
    last: float | None
    collapsed: bool | None
    truncation_last: float | None
    truncation_max: float | None
    entropy_last: float | None
    prompts_last: float | None
    """Prompts of a step that taught something. Few: the curriculum has run out of problems, or all are too hard."""


def stability(cell: str, seed: int, series: Series, run: Path, width: float = 1.0) -> Stability:
    """What one job shows. `width`: the range of the value."""
    steps = Records(run / layout.METRICS).stream() if is_run_directory(run) else iter(())
    truncation, entropy, prompts = _columns(steps, ("truncation_rate", "entropy", "effective_prompts"))
    best, last, collapsed = _levels(series, width)
    return Stability(
        cell, seed, best, last, collapsed,
        truncation_last=_mean(truncation[-LAST_STEPS:]),
        truncation_max=max(_moving(truncation, LAST_STEPS), default=None),
        entropy_last=_mean(entropy[-LAST_STEPS:]),
        prompts_last=_mean(prompts[-LAST_STEPS:]),
    )  # fmt: skip


def _levels(series: Series, width: float) -> tuple[float | None, float | None, bool | None]:
    """(best, last, whether all of the last three lie far below the best)."""
    levels = _moving(series.value.tolist(), RUN_LENGTH)
    if not levels:
        return None, None, None
    best = max(levels)
    return best, levels[-1], bool(np.all(series.value[-RUN_LENGTH:] < best - FALL * width))


def _moving(values: Sequence[float], length: int) -> list[float]:
    """Means of so many in a row; of all of them when there are fewer steps than that, but at least three."""
    length = min(length, len(values))
    if length < RUN_LENGTH:
        return []
    total = np.cumsum(np.concatenate([[0.0], values]))
    means: list[float] = ((total[length:] - total[:-length]) / length).tolist()
    return means


def _columns(steps: Iterable[Record], names: Sequence[str]) -> list[array[float]]:
    """The numbers under each name, in one pass; nothing else of the steps stays in memory."""
    columns = [array("d") for _ in names]
    for step in steps:
        for name, column in zip(names, columns, strict=True):
            value = step.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                column.append(value)
    return columns


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
