"""Rows of a Parquet file: only the needed columns are read, batch by batch.

Called by `table`. The one place that imports pyarrow, inside functions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from scalerl.errors import InputError
from scalerl.readers.cells import Chunk, FloatArray, not_a_number, shorten
from scalerl.readers.columns import Picked
from scalerl.readers.source import Source

_BATCH_ROWS = 1 << 16


class ParquetRows:
    """`Rows` of a Parquet file; only its footer and its first row are read at once."""

    unit: Literal["line", "row"] = "row"
    named = True

    def __init__(self, source: Source) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not source.stream.seekable():
            raise InputError("Parquet from a pipe", allowed="a file, or CSV or JSONL from a pipe", where=source.label)
        self._label = source.label
        try:
            self._file = pq.ParquetFile(source.stream, pre_buffer=False)
            self.columns: tuple[str, ...] = tuple(self._file.schema_arrow.names)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"broken Parquet file ({_first_line(error)})", where=source.label) from None
        if self._file.metadata.num_rows == 0:
            raise InputError("no rows in the file", allowed="at least one", where=source.label)

    def is_number(self, column: str) -> bool:
        return _is_numeric(self._file.schema_arrow.field(column).type)

    def chunks(self, picked: Picked) -> Iterator[Chunk]:
        import pyarrow as pa

        needed = [picked.x, picked.y, *([] if picked.n is None else [picked.n]), *picked.by]
        row = 1
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=needed):
                if batch.num_rows:
                    yield self._chunk(batch, picked, row)
                row += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"broken Parquet file ({_first_line(error)})", where=self._label) from None

    def _chunk(self, batch: Any, picked: Picked, row: int) -> Chunk:
        x, y = self._required(batch, picked.x, row), self._required(batch, picked.y, row)
        n = None if picked.n is None else self._floats(batch, picked.n, row)
        return Chunk(x, y, n, _keys(batch, picked.by), row)

    def _required(self, batch: Any, column: str, row: int) -> FloatArray:
        cells = batch.column(column)
        if cells.null_count:
            at = int(np.argmax(cells.is_null().to_numpy(zero_copy_only=False)))
            raise not_a_number(None, column, f"{self._label}, row {row + at}")
        return self._floats(batch, column, row)

    def _floats(self, batch: Any, column: str, row: int) -> FloatArray:
        import pyarrow as pa

        cells = batch.column(column)
        if not _is_numeric(cells.type):
            cell = shorten(cells[0].as_py())
            raise InputError(f"column {column!r} holds {cells.type}", cell, "numbers", f"{self._label}, row {row}")
        # safe=False: integers beyond 2**53 lose digits that no fit could use
        floats = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(floats, dtype=np.float64)


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _keys(batch: Any, by: tuple[str, ...]) -> Sequence[Hashable] | None:
    if not by:
        return None
    columns = [[None if cell is None else str(cell) for cell in batch.column(name).to_pylist()] for name in by]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
