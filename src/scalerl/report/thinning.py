"""Fewer points and fewer digits, where more of them would only make a page heavy. Called by what builds documents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scalerl.series import FloatArray, IntArray


def evenly(count: int, most: int) -> IntArray:
    """Which of `count` points to keep: all, or `most` of them evenly spread, the first and the last among them."""
    if count <= most:
        return np.arange(count, dtype=np.intp)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.intp))


def in_bins(x: FloatArray, y: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Means over at most `most` stretches of equal length: a noisy line keeps its level, which picking would not."""
    if x.size <= most:
        return x, y
    edges = np.linspace(0, x.size, most + 1).round().astype(np.intp)
    counts = np.diff(edges)
    return np.add.reduceat(x, edges[:-1]) / counts, np.add.reduceat(y, edges[:-1]) / counts


class Thinned:
    """Rows of numbers that come without end, kept as means over stretches of equal length: never many stretches, and of
    a long one not every row.

    Every row is kept as it is until there are more than `most`. From then on neighbours are merged, so that stretches
    are twice as long, whenever there would be more again; and once a stretch has `samples` rows, only every second row
    is wanted from then on (`every`). NaN stands for what is missing and is no part of a mean.
    """

    def __init__(self, columns: int, most: int, samples: int = 32) -> None:
        self.every = 1
        """Of the rows that follow, one in so many is wanted."""
        self._most, self._samples = most, samples
        self._length = 1
        """Rows in a stretch, of those that were wanted."""
        self._means: FloatArray = np.empty((columns, 0))
        self._rest: FloatArray = np.empty((columns, 0))
        """What does not fill a stretch yet."""

    def add(self, rows: FloatArray) -> None:
        """Rows that follow those before; a row is a column of the array."""
        self._rest = np.concatenate([self._rest, rows], axis=1)
        full = self._rest.shape[1] // self._length
        self._means = np.concatenate([self._means, _means(self._rest, full, self._length)], axis=1)
        self._rest = self._rest[:, full * self._length :].copy()
        while self._means.shape[1] > self._most:
            self._merge()

    def points(self) -> FloatArray:
        """The mean of each stretch; the last may be of fewer rows."""
        if not self._rest.size:
            return self._means
        return np.concatenate([self._means, _means(self._rest, 1, self._rest.shape[1])], axis=1)

    def _merge(self) -> None:
        pairs = self._means.shape[1] // 2
        left = np.repeat(self._means[:, 2 * pairs :], self._length, axis=1)  # a stretch without a neighbour
        self._means = _means(self._means, pairs, 2)
        self._rest = np.concatenate([left, self._rest], axis=1)
        if self._length < self._samples:
            self._length *= 2
        else:
            self.every *= 2
            self._rest = self._rest[:, ::2]


def _means(rows: FloatArray, count: int, length: int) -> FloatArray:
    """Of the first `count` stretches of so many rows; NaN where nothing is known."""
    parts = rows[:, : count * length].reshape(len(rows), count, length)
    known = np.isfinite(parts)
    total = np.sum(parts, axis=2, where=known)
    number = known.sum(axis=2)
    means: FloatArray = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return means


def rounded(values: Iterable[float], digits: int = 5) -> list[float | None]:
    """To so many significant digits; what is not finite is None."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
