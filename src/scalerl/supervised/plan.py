"""Which documents share a row, and which rows share a step: a pure function of lengths, settings and seed.

Used by `session`: nothing here depends on what happened before, so training goes on in the middle by counting steps.
Every epoch has an order of its own. Documents are never cut; within a window of the order the longest go first, each
into the fullest row that still has room for it, which leaves little empty.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, ...]
"""Documents by number."""
Step = tuple[Row, ...]

WINDOW = 1024
"""Documents that are sorted together: enough to fill rows, few enough to mix lengths and sources."""


def plan_steps(lengths: NDArray[np.int64], *, row_tokens: int, batch_tokens: int, epochs: int, seed: int) -> list[Step]:
    """All steps of all epochs; an epoch may begin in the middle of a step."""
    rows = (row for epoch in range(epochs) for row in epoch_rows(lengths, row_tokens, (seed, epoch)))
    return list(_steps(rows, lengths, batch_tokens))


def epoch_rows(lengths: NDArray[np.int64], row_tokens: int, seed: Sequence[int]) -> list[Row]:
    """Every document once; rows in random order."""
    rng = np.random.default_rng(list(seed))
    order = rng.permutation(len(lengths))
    rows = [
        row
        for start in range(0, len(order), WINDOW)
        for row in _fill(order[start : start + WINDOW], lengths, row_tokens)
    ]
    return [rows[index] for index in rng.permutation(len(rows))]


def sorted_rows(lengths: NDArray[np.int64], row_tokens: int) -> list[Row]:
    """Every document once, without chance: for measurements."""
    return _fill(np.arange(len(lengths)), lengths, row_tokens)


def _fill(documents: NDArray[np.int64], lengths: NDArray[np.int64], row_tokens: int) -> list[Row]:
    """Best fit, longest first. A document beyond the size of a row gets one of its own."""
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []
    for document in sorted(documents.tolist(), key=lambda number: -lengths[number]):
        length = int(lengths[document])
        place = bisect_left(room, (length, 0))
        if place < len(room):
            left, row = room.pop(place)
            rows[row].append(document)
        else:
            left, row = row_tokens, len(rows)
            rows.append([document])
        insort(room, (left - length, row))
    return [tuple(row) for row in rows]


def _steps(rows: Iterable[Row], lengths: NDArray[np.int64], batch_tokens: int) -> Iterator[Step]:
    step: list[Row] = []
    tokens = 0
    for row in rows:
        size = int(lengths[list(row)].sum())
        if step and tokens + size > batch_tokens:
            yield tuple(step)
            step, tokens = [], 0
        step.append(row)
        tokens += size
    if step:
        yield tuple(step)


def rate_share(step: int, steps: int, warmup_share: float, schedule: str) -> float:
    """The share of the learning rate in step `step` of `steps`, from 1."""
    warmup = round(warmup_share * steps)
    if step <= warmup:
        return step / warmup
    left = (steps - step + 1) / (steps - warmup + 1)
    match schedule:
        case "cosine":
            return 0.5 * (1 - float(np.cos(np.pi * left)))
        case "linear":
            return left
        case _:
            return 1.0
