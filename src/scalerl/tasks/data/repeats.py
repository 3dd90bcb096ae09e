"""Prompts that occur more than once, exactly, in memory that does not grow with the file.

Used by `survey`. Each row leaves 24 bytes: hashes of prompt and answer, and its number. Beyond a million rows they go
into temporary files by the first bits of the prompt's hash; equal prompts meet in the same file, and one file after the
other is sorted. Two different prompts have one hash with a probability of 3e-6 among ten million.
"""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from scalerl.errors import StorageError

Table = npt.NDArray[np.uint64]
"""Rows of (prompt, answer, number)."""
CHUNK_ROWS = 1 << 16
MOST_IN_MEMORY = 1 << 20
PARTS = 64
SHOWN = 5


@dataclass(frozen=True)
class Pair:
    """A row and an earlier one with the same prompt."""

    again: int
    first: int
    another_answer: bool


@dataclass(frozen=True)
class Found:
    """What there is twice."""

    distinct: int
    """Different prompts."""
    repeated: int
    """Rows whose prompt an earlier row has."""
    contradicted: int
    """Prompts with two different answers or more."""
    held_out: int
    """Prompts that a task would hold out."""
    pairs: tuple[Pair, ...]
    """The first few."""


def content_hash(text: str) -> int:
    """The hash that also decides a problem's split (`tasks.pools`)."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def are_held_out(hashes: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    """`split_of` for many prompts at once, by their hashes."""
    return hashes.astype(np.float64) / 2.0**64 < share


class Repeats:
    """Collects rows; use it as a context, which removes the temporary files."""

    def __init__(self, held_out_share: float, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._share = held_out_share
        self._most = most_in_memory
        self._rows: list[tuple[int, int, int]] = []
        self._tables: list[Table] = []
        self._files: list[FileIO] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, prompt: str, answer: str, number: int) -> int:
        """`prompt`: in its canonical form. Returns its hash."""
        hashed = content_hash(prompt)
        self._rows.append((hashed, content_hash(answer), number))
        if len(self._rows) == CHUNK_ROWS:
            self._pack()
        return hashed

    def found(self) -> Found:
        self._pack()
        results = [_sorted_out(table, self._share) for table in self._parts()]
        pairs = heapq.nsmallest(SHOWN, (p for one in results for p in one.pairs), key=lambda pair: pair.again)
        sums = {name: sum(getattr(one, name) for one in results) for name in _COUNTS}
        return Found(**sums, pairs=tuple(pairs))

    def _pack(self) -> None:
        if self._rows:
            self._tables.append(np.array(self._rows, dtype=np.uint64))
            self._rows = []
        if self._files or sum(map(len, self._tables)) >= self._most:
            self._spill()

    def _spill(self) -> None:
        try:
            self._files = self._files or self._open_files()
            for table in self._tables:
                parts = (table[:, 0] >> np.uint64(58)).astype(np.int64)
                for part in np.unique(parts):
                    _write_all(self._files[part], table[parts == part].tobytes())
        except OSError as error:
            raise StorageError.of(error, tempfile.gettempdir()) from None
        self._tables = []

    def _open_files(self) -> list[FileIO]:
        place = tempfile.TemporaryDirectory(prefix="scalerl-", ignore_cleanup_errors=True)
        folder = Path(self._stack.enter_context(place))
        return [self._stack.enter_context((folder / str(i)).open("w+b", buffering=0)) for i in range(PARTS)]

    def _parts(self) -> Iterator[Table]:
        yield from ([np.concatenate(self._tables)] if self._tables else [])
        for file in self._files:
            file.seek(0)
            yield np.fromfile(file, dtype=np.uint64).reshape(-1, 3)


def _write_all(file: FileIO, data: bytes) -> None:
    """Without a buffer, which would complain of a full disk once more when it is closed."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


_COUNTS = ("distinct", "repeated", "contradicted", "held_out")


def _sorted_out(table: Table, share: float) -> Found:
    """Of rows among which every prompt is complete."""
    if not len(table):
        return Found(0, 0, 0, 0, ())
    table = table[np.lexsort((table[:, 2], table[:, 0]))]
    prompt, answer, number = table.T
    is_first = np.concatenate(([True], prompt[1:] != prompt[:-1]))
    first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    differs = answer != answer[first]
    again = np.flatnonzero(~is_first)
    shown = again[np.argsort(number[again], kind="stable")[:SHOWN]]
    held_out = are_held_out(prompt[is_first], share)
    return Found(
        distinct=int(is_first.sum()),
        repeated=len(again),
        contradicted=len(np.unique(first[differs])),
        held_out=int(held_out.sum()),
        pairs=tuple(Pair(int(number[i]), int(number[first[i]]), bool(differs[i])) for i in shown),
    )
