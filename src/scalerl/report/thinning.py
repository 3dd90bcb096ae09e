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


def rounded(values: Iterable[float], digits: int = 5) -> list[float | None]:
    """To so many significant digits; what is not finite is None."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
