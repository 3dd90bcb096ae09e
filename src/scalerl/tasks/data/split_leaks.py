"""Held-out problems that the training part of the same file has too, under another punctuation or in part.

Used by `survey`. A task splits a file by the content of its prompts, so a true copy is on one side only; a near-copy
may be on the other, and its score is then memory. The first held-out problems are read ahead, as many as memory allows,
and are an evaluation file like any other (`overlap`); the training rows stream past them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from scalerl.errors import InputError
from scalerl.tasks.data.overlap import EvaluationIndex, Texts
from scalerl.tasks.data.repeats import are_held_out
from scalerl.tasks.files import canonical
from scalerl.tasks.pools import split_of
from scalerl.tasks.records import Record

MOST_PROBLEMS = 50_000
MOST_NGRAMS = 2_000_000
"""Held-out problems, and n-grams of them, that are kept in memory."""

Usable = Callable[[Record], bool]


class SplitLeaks:
    """The held-out problems of a file; then which of them its training rows share."""

    def __init__(self, held_out_share: float, ngram: int) -> None:
        self._share = held_out_share
        self._index = EvaluationIndex("held-out", ngram)
        self._complete = True

    def read_ahead(self, records: Iterable[Record | InputError], is_usable: Usable) -> None:
        """Take held-out problems, each prompt once, until there are enough."""
        known: set[str] = set()
        num_ngrams = 0
        for record in records:
            if isinstance(record, InputError):
                continue
            prompt = canonical(record.prompt)
            if split_of(prompt, self._share) != "held_out" or not is_usable(record):
                continue
            if len(known) == MOST_PROBLEMS or num_ngrams >= MOST_NGRAMS:
                self._complete = False
                break
            if prompt not in known:
                known.add(prompt)
                num_ngrams += self._index.add(record.number, record.prompt)

    def look(self, rows: Texts, hashes: Sequence[int]) -> None:
        """Some rows that can be used, and the hashes of their prompts; those to train on are compared."""
        self._index.look(rows, among=~are_held_out(np.array(hashes, dtype=np.uint64), self._share))

    def document(self) -> dict[str, Any]:
        found = self._index.found
        same, sharing = self._index.problems_met()
        return {
            "compared": found.problems, "all_compared": self._complete, "same": len(same), "sharing": len(sharing),
            "train_rows": found.same + found.sharing, "short": found.short, "common_ngrams": found.common,
            "rows": found.rows, "examples": [asdict(meeting) for meeting in found.meetings],
        }  # fmt: skip
