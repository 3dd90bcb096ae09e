"""Rows of a JSONL file whose cells may be anything. Opening and parsing are those of `scalerl.readers`.

Called by `open`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain

from scalerl.errors import InputError
from scalerl.readers.cells import line_of
from scalerl.readers.jsonl import JsonlRows
from scalerl.readers.source import Source
from scalerl.tasks.data.rows import Row, Unit

_BROKEN = "\0broken"
"""Stands in a row that is no JSON object, with the error: one broken line does not hide the others."""


class JsonLines(JsonlRows):
    """`Rows` of a JSONL file; its first block is read at once, and the first line must be an object."""

    unit: Unit = "line"

    def __init__(self, source: Source) -> None:
        self.label = source.label
        self._stream = source.stream
        super().__init__(source)
        first = self._first[1][0]
        if _BROKEN in first:
            raise first[_BROKEN]
        self._piped = source.path == "-"
        self.num_bytes = 0 if self._piped else os.fstat(source.stream.fileno()).st_size

    def first(self, columns: Sequence[str]) -> Row:
        row = self._first[1][0]
        return {name: row[name] for name in columns}

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:  # noqa: ARG002  # all are there
        for lines, rows in chain([self._first], self._blocks):
            for i, row in enumerate(rows):
                yield line_of(lines, i), row.get(_BROKEN, row)

    def done(self) -> int:
        return 0 if self._piped else self._stream.tell()

    def _object(self, line: str, number: int) -> Row:
        try:
            return super()._object(line, number)
        except InputError as error:
            return {_BROKEN: error}
