"""How long texts are: a histogram in fixed memory, counted in tokens of a tokenizer or in words.

Used by `survey`. Every length up to `LONGEST` is counted by itself, so quantiles are exact up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from scalerl.errors import InputError, MissingDependencyError
from scalerl.tasks.data.rows import first_line

LONGEST = 1 << 17
"""What is longer counts as this long; the longest is known all the same."""
NUM_BINS = 10
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}

Measure = Callable[[Sequence[str]], Sequence[int]]
"""The lengths of some texts."""


class Lengths:
    """The lengths of one column."""

    def __init__(self) -> None:
        self._counts = np.zeros(LONGEST + 1, dtype=np.int64)
        self._total = 0
        self._longest = 0

    def add(self, lengths: Sequence[int]) -> None:
        if not lengths:
            return
        found = np.asarray(lengths, dtype=np.int64)
        self._total += int(found.sum())
        self._longest = max(self._longest, int(found.max()))
        counts = np.bincount(np.minimum(found, LONGEST))
        self._counts[: len(counts)] += counts

    def document(self) -> dict[str, Any]:
        """Figures and a histogram; empty when nothing was counted."""
        count = int(self._counts.sum())
        if not count:
            return {}
        below = np.cumsum(self._counts)
        places = {name: int(np.searchsorted(below, share * count)) for name, share in QUANTILES.items()}
        shortest = int(np.flatnonzero(self._counts)[0])
        figures = {"total": self._total, "mean": self._total / count, "shortest": shortest, **places}
        return figures | {"longest": self._longest, "histogram": self._histogram(shortest, places["p99"])}

    def _histogram(self, low: int, high: int) -> list[dict[str, int]]:
        """About ten bins of one width from the shortest to `high`, and one for what is beyond."""
        width = _round_width((high - low) / NUM_BINS)
        edges = list(range(low // width * width, high + width + 1, width))
        bins = [
            {"from": start, "to": end - 1, "count": int(self._counts[start:end].sum())}
            for start, end in pairwise(edges)
        ]
        beyond = int(self._counts[edges[-1] :].sum())
        return [*bins, {"from": edges[-1], "to": self._longest, "count": beyond}] if beyond else bins


def _round_width(width: float) -> int:
    """1, 2, 5, 10, 20, ...: the first that is no less."""
    step = 1
    while step < width:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step


def words(texts: Sequence[str]) -> list[int]:
    """Without a tokenizer: what spaces separate."""
    return [len(text.split()) for text in texts]


def token_counter(folder: str) -> Measure:
    """Counts tokens with the `tokenizer.json` of a checkpoint's folder, without the tokens that a template adds."""
    path = Path(folder)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError("no tokenizer", folder, "a folder with tokenizer.json in it, as every checkpoint has", None)
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise MissingDependencyError("tokenizers", "train") from None
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001  # tokenizers raises nothing narrower for a file that it cannot read
        raise InputError(f"broken tokenizer ({first_line(error)})", where=str(file)) from None
    tokenizer.no_truncation()
    return lambda texts: [len(one.ids) for one in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
