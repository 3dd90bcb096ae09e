"""Which rows share text with an evaluation file: the same prompt, or n words in a row.

Used by `survey`, and by `split_leaks`, where the evaluation is the held-out part of the file itself. The evaluation's
n-grams are kept in memory as sorted 64-bit hashes with the number of their row; the rows of the dataset stream past
them in batches. Words are runs of letters and digits in lower case, so punctuation,
spacing and LaTeX's braces do not hide a copy. An n-gram that more than `COMMON` evaluation problems share is an
instruction, not a problem, and is left out. A text shorter than n words is compared whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
NGRAM = 13
"""Words; as for GPT-3 and most models since."""
COMMON = 10
SHOWN = 5
LISTED = 1000
"""Rows that are listed by number; all of them are counted."""

_WORD = re.compile(r"[^\W_]+")
_MULTIPLIER = 0x9E3779B97F4A7C15
_WRAP = 1 << 64
_BITS = 23
_BELOW = np.uint64(64 - _BITS)


@dataclass(frozen=True)
class Meeting:
    """A row of the dataset and what it shares with a problem of the evaluation."""

    row: int
    problem: int
    """Number of the evaluation's row."""
    words: str
    """What both have; of a whole prompt, its beginning."""
    whole: bool


@dataclass
class Overlap:
    """One evaluation file and what was found of it."""

    label: str
    ngram: int = NGRAM
    problems: int = 0
    short: int = 0
    """Problems of less than n words, which are only found whole."""
    unreadable: int = 0
    """Rows without a prompt that can be read: nothing is known of these."""
    common: int = 0
    """n-grams that too many problems share."""
    same: int = 0
    """Rows that are a problem of the evaluation, spacing, case and punctuation aside."""
    sharing: int = 0
    """Other rows with n words in a row from a problem."""
    rows: list[int] = field(default_factory=list)
    """The first rows that were found."""
    meetings: list[Meeting] = field(default_factory=list)

    def note(self, meeting: Meeting) -> None:
        self.same += meeting.whole
        self.sharing += not meeting.whole
        if len(self.rows) < LISTED:
            self.rows.append(meeting.row)
        if len(self.meetings) < SHOWN:
            self.meetings.append(meeting)


class Texts:
    """Some rows of a dataset as words, with their n-grams, which every evaluation is looked up by."""

    def __init__(self, numbers: Sequence[int], prompts: Sequence[str], ngram: int = NGRAM) -> None:
        """`prompts`: in lower case already."""
        self.numbers = numbers
        self.words = [_WORD.findall(prompt) for prompt in prompts]
        self.joined = [" ".join(words) for words in self.words]
        lengths = np.array([len(words) for words in self.words], dtype=np.int64)
        grams = _grams(_hashes([word for words in self.words for word in words]), ngram)
        text_of = np.repeat(np.arange(len(prompts)), lengths)
        inside = np.flatnonzero(text_of[: len(grams)] == text_of[ngram - 1 :])  # begins and ends in one text
        self.grams, self.text_of = grams[inside], text_of[inside]
        self.places = inside - (np.cumsum(lengths) - lengths)[self.text_of]
        """Where in its text each n-gram begins."""


@dataclass
class _Known:
    """The n-grams of all problems, each once and sorted, and which of them were seen in a row."""

    grams: Hashes
    owners: npt.NDArray[np.int64]
    """Problems that have the first n-gram, then those that have the second, and so on."""
    starts: npt.NDArray[np.int64]
    """Where the owners of each n-gram begin; the last is their end."""
    seen: npt.NDArray[np.bool_]
    beginnings: npt.NDArray[np.bool_]
    """Whether any n-gram begins with these bits: most of a dataset's are done with after this one look."""

    def find(self, grams: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which of these are known, and their places here."""
        hits = np.flatnonzero(self.beginnings[grams >> _BELOW])
        places = np.minimum(np.searchsorted(self.grams, grams[hits]), len(self.grams) - 1)
        known = self.grams[places] == grams[hits]
        return hits[known], places[known]

    def first_owner(self, place: int) -> int:
        return int(self.owners[self.starts[place]])

    def met(self) -> set[int]:
        """Problems of which any n-gram was seen."""
        return {int(owner) for owner in np.unique(self.owners[np.repeat(self.seen, np.diff(self.starts))])}


class EvaluationIndex:
    """The texts of one evaluation file. First `add` all of them, then `look`."""

    def __init__(self, label: str, ngram: int = NGRAM) -> None:
        self.found = Overlap(label, ngram)
        self._ngram = ngram
        self._whole: dict[str, list[int]] = {}
        self._seen_whole: set[int] = set()
        self._grams: list[Hashes] = []
        self._owners: list[int] = []
        self._index: _Known | None = None

    def add(self, number: int, prompt: str) -> int:
        """Returns how many n-grams this adds to the memory."""
        words = _WORD.findall(prompt.casefold())
        self.found.problems += 1
        self._whole.setdefault(" ".join(words), []).append(number)
        if len(words) < self._ngram:
            self.found.short += 1
            return 0
        self._grams.append(np.unique(_grams(_hashes(words), self._ngram)))
        self._owners.append(number)
        return len(self._grams[-1])

    def look(self, rows: Texts, among: npt.NDArray[np.bool_] | None = None) -> None:
        """`among`: which of the rows count; all, if not given."""
        partly = self._partly(rows, among)
        is_whole = map(self._whole.__contains__, rows.joined)
        met = sorted({place for place, whole in enumerate(is_whole) if whole} | partly.keys())
        for place in met:
            joined = rows.joined[place]
            problems = self._whole.get(joined)
            if not joined or (among is not None and not among[place]):
                continue
            if problems is not None:
                self._seen_whole.update(problems)
                self.found.note(Meeting(rows.numbers[place], problems[0], joined[:200], whole=True))
            else:
                start, problem = partly[place]
                shared = " ".join(rows.words[place][start : start + self._ngram])
                self.found.note(Meeting(rows.numbers[place], problem, shared, whole=False))

    def problems_met(self) -> tuple[set[int], set[int]]:
        """Problems that a row is, and others that share n words in a row with one."""
        return self._seen_whole, self._ready().met() - self._seen_whole

    def _partly(self, rows: Texts, among: npt.NDArray[np.bool_] | None) -> dict[int, tuple[int, int]]:
        """For each text with an n-gram of the evaluation: where its first one begins, and whose it is."""
        known = self._ready()
        if not len(known.grams):
            return {}
        hits, places = known.find(rows.grams)
        if among is not None:
            counted = among[rows.text_of[hits]]
            hits, places = hits[counted], places[counted]
        known.seen[places] = True
        texts, first = np.unique(rows.text_of[hits], return_index=True)
        return {
            int(text): (int(rows.places[hits[i]]), known.first_owner(int(places[i])))
            for text, i in zip(texts, first, strict=True)
        }

    def _ready(self) -> _Known:
        if self._index is None:
            self._index = self._sorted()
            self._grams, self._owners = [], []
        return self._index

    def _sorted(self) -> _Known:
        grams = np.concatenate([np.empty(0, dtype=np.uint64), *self._grams])
        owners = np.repeat(np.array(self._owners, dtype=np.int64), [len(one) for one in self._grams])
        order = np.argsort(grams, kind="stable")
        known, counts = np.unique(grams[order], return_counts=True)
        kept = counts <= COMMON
        self.found.common = int((~kept).sum())
        of_kept = owners[order][np.repeat(kept, counts)]
        starts = np.concatenate(([0], np.cumsum(counts[kept])))
        beginnings = np.zeros(1 << _BITS, dtype=np.bool_)
        beginnings[known[kept] >> _BELOW] = True
        return _Known(known[kept], of_kept, starts, np.zeros(len(starts) - 1, dtype=np.bool_), beginnings)


def _hashes(words: Sequence[str]) -> Hashes:
    """Of this process only: Python's own are fast, and salted anew in each."""
    return np.fromiter(map(hash, words), dtype=np.int64, count=len(words)).view(np.uint64)


def _grams(hashes: Hashes, ngram: int) -> Hashes:
    """One hash for every n words in a row."""
    num_grams = max(0, len(hashes) - ngram + 1)
    total = np.zeros(num_grams, dtype=np.uint64)
    factor = 1
    for offset in range(ngram):
        total += hashes[offset : num_grams + offset] * np.uint64(factor)
        factor = factor * _MULTIPLIER % _WRAP
    return total
