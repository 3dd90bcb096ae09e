"""All documents of some files in flat arrays, and what was left out.

Built by `train` at the start of each session, read by `rows`. The tokens of a thousand traces of a thousand tokens take
five megabytes here, so the whole corpus stays in memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scalerl.errors import InputError
from scalerl.supervised.settings import SftSettings
from scalerl.supervised.spans import Document, Encoder
from scalerl.supervised.traces import Trace, read_traces

_EVERY = 500
"""Traces between two words about the reading."""


@dataclass(frozen=True)
class Corpus:
    """Documents one after the other."""

    tokens: NDArray[np.int32]
    learnt: NDArray[np.bool_]
    starts: NDArray[np.int64]
    """Where each document begins, and at the end where the last one ends."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def num_learnt(self) -> int:
        return int(self.learnt.sum())

    @property
    def digest(self) -> str:
        """Equal for the same documents in the same order."""
        found = hashlib.sha256()
        for part in (self.starts, self.tokens, self.learnt):
            found.update(part.tobytes())
        return found.hexdigest()


@dataclass
class Tally:
    """What happened while the traces were read."""

    num_traces: int = 0
    num_split: int = 0
    """Conversations that became one document for each turn."""
    num_long: int = 0
    longest: int = 0
    first_long: str = ""

    def count(self, documents: list[Document], max_tokens: int) -> None:
        self.num_traces += 1
        self.num_split += len(documents) > 1
        for document in documents:
            self.longest = max(self.longest, len(document.tokens))
            if len(document.tokens) > max_tokens:
                self.num_long += 1
                self.first_long = self.first_long or document.where

    def notes(self, max_tokens: int) -> list[str]:
        found = []
        if self.num_long:
            what = "1 trace is" if self.num_long == 1 else f"{self.num_long:,} traces are"
            longest = f"the longest has {self.longest:,}, first: {self.first_long}"
            found.append(f"{what} left out: longer than {max_tokens:,} tokens ({longest})")
        if self.num_split:
            reason = "the chat template shows earlier turns differently"
            found.append(f"{self.num_split:,} conversations are learnt turn by turn, because {reason}")
        return found


@dataclass
class _Growing:
    tokens: array[int] = field(default_factory=lambda: array("i"))
    learnt: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=lambda: [0])

    def add(self, document: Document) -> None:
        self.tokens.extend(document.tokens)
        self.learnt.extend(document.learnt)
        self.starts.append(len(self.tokens))

    def corpus(self) -> Corpus:
        tokens = np.array(self.tokens, np.int32)
        return Corpus(tokens, np.frombuffer(bytes(self.learnt), np.bool_), np.array(self.starts, np.int64))


@dataclass(frozen=True)
class Corpora:
    """What is trained on, and what is only measured (None: nothing)."""

    train: Corpus
    held_out: Corpus | None
    tally: Tally


def read_corpora(settings: SftSettings, encoder: Encoder, max_tokens: int, progress: Callable[[int], None]) -> Corpora:
    """Every file of the settings; `progress` hears how many traces were read."""
    tally = Tally()
    sides = (_Growing(), _Growing())
    for trace, kept in _sorted_traces(settings):
        documents = encoder.documents(trace)
        tally.count(documents, max_tokens)
        for document in documents:
            if len(document.tokens) <= max_tokens:
                sides[kept].add(document)
        if tally.num_traces % _EVERY == 0:
            progress(tally.num_traces)
    if tally.num_long and settings.too_long == "error":
        _refuse_long(tally, max_tokens)
    train, held_out = (side.corpus() for side in sides)
    wanted = bool(settings.held_out or settings.held_out_share)
    for corpus, needed, name in ((train, True, "train on"), (held_out, wanted, "hold out")):
        if needed and not len(corpus):
            what = f"nothing to {name} among {tally.num_traces:,} traces"
            raise InputError(what, allowed="at least one trace that is short enough on each side")
    return Corpora(train, held_out if wanted else None, tally)


def _sorted_traces(settings: SftSettings) -> Iterator[tuple[Trace, bool]]:
    """Each trace, and whether it is held out."""
    for trace in _read(settings.data, settings):
        yield trace, _position(trace.question) < settings.held_out_share
    for trace in _read(settings.held_out, settings):
        yield trace, True


def _read(files: Iterable[str], settings: SftSettings) -> Iterator[Trace]:
    for file in files:
        yield from read_traces(file, settings.prompt_key, settings.completion_key)


def _position(question: str) -> float:
    """Of a question in [0, 1), the same whatever else is in the files."""
    return int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "big") / 2**64


def _refuse_long(tally: Tally, max_tokens: int) -> None:
    what = f"traces longer than {max_tokens:,} tokens (first: {tally.first_long})"
    allowed = f"--max-tokens {tally.longest} if the model and the memory allow it, or --too-long skip"
    raise InputError(what, f"{tally.num_long:,} of {tally.num_traces:,}", allowed)
