"""Rows of a Parquet file, and of an Arrow file or stream.

Called by `open`. Batches are small and only the needed columns are read, so memory does not depend on the size of the
file; an Arrow file is read, not mapped, because mapped pages count as memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.source import Source
from scalerl.tasks.data.rows import BATCH_ROWS, Row, Unit, first_line

ARROW_FILE, ARROW_STREAM = b"ARROW1", b"\xff\xff\xff\xff"
"""How the two begin."""
_BUFFER_BYTES = 1 << 20


class ParquetTable:
    """`Rows` of a Parquet file; only its footer is read at once."""

    unit: Unit = "row"

    def __init__(self, source: Source) -> None:
        import pyarrow.parquet as pq

        _refuse_pipe(source, "Parquet")
        self.label = source.label
        self.num_bytes = os.fstat(source.stream.fileno()).st_size
        try:
            self._file = pq.ParquetFile(source.stream, pre_buffer=False, buffer_size=_BUFFER_BYTES)
            self.columns: tuple[str, ...] = tuple(self._file.schema_arrow.names)
        except _broken() as error:
            raise InputError(f"broken Parquet file ({first_line(error)})", where=self.label) from None
        self._num_rows: int = self._file.metadata.num_rows
        self._read = 0
        if self._num_rows == 0:
            raise InputError("no rows in the file", allowed="at least one", where=self.label)

    def first(self, columns: Sequence[str]) -> Row:
        return next(self._cells(columns, 1))

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:
        for row in self._cells(columns, BATCH_ROWS):
            self._read += 1
            yield self._read, row

    def done(self) -> int:
        return self.num_bytes * self._read // self._num_rows

    def _cells(self, columns: Sequence[str], rows: int) -> Iterator[Row]:
        try:
            for batch in self._file.iter_batches(rows, columns=list(columns)):
                yield from rows_of(batch, columns)
        except _broken() as error:
            raise InputError(f"broken Parquet file ({first_line(error)})", where=self.label) from None


class ArrowTable:
    """`Rows` of an Arrow IPC file (Feather is one) or stream, as `datasets` keeps its data."""

    unit: Unit = "row"

    def __init__(self, source: Source) -> None:
        _refuse_pipe(source, "Arrow")
        self.label = source.label
        self.num_bytes = os.fstat(source.stream.fileno()).st_size
        self._stream = source.stream
        self._is_file = source.head.startswith(ARROW_FILE)
        self._ended = False
        self.columns: tuple[str, ...] = self._names()

    def first(self, columns: Sequence[str]) -> Row:
        found = next(self._cells(columns), None)
        if found is None:
            raise InputError("no rows in the file", allowed="at least one", where=self.label)
        return found

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:
        yield from enumerate(self._cells(columns), 1)
        self._ended = True

    def done(self) -> int:
        return self.num_bytes if self._ended else self._stream.tell()

    def _names(self) -> tuple[str, ...]:
        try:
            return tuple(self._open(None).schema.names)
        except _broken() as error:
            raise InputError(f"broken Arrow file ({first_line(error)})", where=self.label) from None

    def _open(self, fields: list[int] | None) -> Any:
        from pyarrow import ipc

        self._stream.seek(0)
        options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return (ipc.open_file if self._is_file else ipc.open_stream)(self._stream, options=options)

    def _cells(self, columns: Sequence[str]) -> Iterator[Row]:
        try:
            reader = self._open([self.columns.index(name) for name in columns])
            batches = map(reader.get_batch, range(reader.num_record_batches)) if self._is_file else reader
            for batch in batches:
                batch.validate(full=True)  # offsets of a damaged file point anywhere in memory
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield from rows_of(batch.slice(start, BATCH_ROWS), columns)
        except _broken() as error:
            raise InputError(f"broken Arrow file ({first_line(error)})", where=self.label) from None


def _broken() -> tuple[type[Exception], ...]:
    """What pyarrow raises for a damaged file: its own errors, text that is not UTF-8, a length beyond all memory."""
    import pyarrow as pa

    return pa.ArrowException, OSError, ValueError, MemoryError


def rows_of(batch: Any, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a record batch or of a table."""
    cells = [batch.column(name).to_pylist() for name in columns]
    for row in zip(*cells, strict=True):
        yield dict(zip(columns, row, strict=True))


def _refuse_pipe(source: Source, what: str) -> None:
    if not source.stream.seekable():
        raise InputError(f"{what} from a pipe", allowed="a file, or JSONL from a pipe", where=source.label)
