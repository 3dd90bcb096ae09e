"""Sparse Parquet logs: a column for the step, a column for each metric, null where nothing was measured.

Called by `open`. The counterpart of `csv_log`; a full table stays with the strict reader (`readers.parquet`). Imports
pyarrow inside functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.logs.csv_log import is_csv_log
from scalerl.readers.logs.fields import Recorder, choose_step, moment
from scalerl.readers.logs.records import Record, Tally

_BATCH_ROWS = 1 << 12
_HEAD_ROWS = 1000


def is_parquet_log(path: Path) -> bool:
    """Decided as for CSV, on the first rows. False for a file that is no Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(_HEAD_ROWS, columns=_columns(file)), None)
            found = [] if batch is None else batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError):  # ValueError: text that is not UTF-8
        return False
    names = [] if batch is None else batch.schema.names
    if len(set(names)) < len(names):
        return False  # the strict reader says which column is there twice
    return is_csv_log(names, [["" if cell is None else str(cell) for cell in row.values()] for row in found])


class ParquetLog:
    """`Log` of a Parquet file."""

    kind = "a sparse Parquet log"
    name: str | None = None

    def __init__(self, path: str | Path, label: str) -> None:
        self._path = Path(path)
        self.label = label

    def records(self, tally: Tally) -> Iterator[Record]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows_read = 0
        try:
            with pq.ParquetFile(self._path, pre_buffer=False) as file:
                total, names = file.metadata.num_rows, _columns(file)
                recorder = Recorder(choose_step(names))
                for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                    yield from _records(batch, recorder, rows_read, tally)
                    rows_read += batch.num_rows
                    tally.read(rows_read, total)
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
            reason = str(error).partition("\n")[0] or type(error).__name__
            if not rows_read:
                raise InputError(f"broken Parquet file ({reason})", where=self.label) from None
            tally.skip(f"unreadable parts ({reason})", f"row {rows_read + 1:,}")


def _records(batch: Any, recorder: Recorder, before: int, tally: Tally) -> Iterator[Record]:
    for number, row in enumerate(batch.to_pylist(), before + 1):
        filled = {name: cell for name, cell in row.items() if cell is not None}
        record = recorder.record(filled)
        if record is not None:
            yield record
        elif filled:
            tally.skip("rows without a step or a metric", f"row {number:,}")


def _columns(file: Any) -> list[str]:
    """Numbers, and texts that are a clock by name: nothing else is read."""
    import pyarrow as pa

    def wanted(field: Any) -> bool:
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            return True
        return pa.types.is_string(field.type) and moment(field.name, "2026-01-01") is not None

    return [field.name for field in file.schema_arrow if wanted(field)]
