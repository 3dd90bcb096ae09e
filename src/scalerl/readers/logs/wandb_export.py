"""What people take out of Weights & Biases: histories as JSONL or Parquet, and the CSV that a chart's menu exports.

Called by `open`. Imports pyarrow inside a function.

- History: one row for each step, with `_step`, `_timestamp`, `_runtime`: `wandb-history.jsonl` of older clients, the
  rows of `run.scan_history()` written as JSON, and the Parquet files of the history artifact.
- Chart: the first column is the x axis of the chart (`Step`, `Relative Time (Wall)`, a metric, ...); then come, for
  each run and metric, `RUN - METRIC` and its `__MIN` and `__MAX`. The last two are left out.
  Several runs are several logs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.logs.records import Log, Record, Tally
from scalerl.readers.logs.text_lines import REPLACED, Line, text_lines
from scalerl.readers.logs.wandb_values import RUNTIME, STEP, TIME, to_records

_BATCH_ROWS = 1024
_BETWEEN = " - "
_EXTREMES = ("__MIN", "__MAX")
_AXES = {"Step": STEP, "Relative Time (Wall)": TIME, "Relative Time (Process)": TIME, "Wall Time": TIME}
"""The x axes that the web page offers for every run, in the words of a history; times are in seconds."""


def is_history_line(row: Mapping[str, Any]) -> bool:
    """Whether an object (or the columns of a table) is of a history."""
    return STEP in row and (TIME in row or RUNTIME in row)


def is_web_export(header: Sequence[str]) -> bool:
    """Whether a CSV header is that of a chart's export."""
    if len(header) < 2:
        return False
    named = [cell for cell in header[1:] if cell.strip()]  # a chart's own columns may have lost their names
    pairs = all(_BETWEEN in cell for cell in named)
    return bool(named) and pairs and (header[0] in _AXES or any(cell.endswith(_EXTREMES) for cell in named))


class HistoryLinesLog:
    """`wandb-history.jsonl`, or any JSONL with the rows of a history."""

    kind = "W&B history (JSONL)"
    name: str | None = None

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        self._path = path

    def records(self, tally: Tally) -> Iterator[Record]:
        return to_records(self._rows(tally))

    def _rows(self, tally: Tally) -> Iterator[dict[str, Any]]:
        for line in text_lines(self._path, self.label, tally):
            row = _object(line)
            if row is None:
                tally.skip("broken lines" if line.whole else "unfinished last lines", line.where)
            else:
                yield row


class HistoryTableLog:
    """A history as Parquet."""

    kind = "W&B history (Parquet)"
    name: str | None = None

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        self._path = path

    def records(self, tally: Tally) -> Iterator[Record]:
        return to_records(self._rows(tally))

    def _rows(self, tally: Tally) -> Iterator[dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self._path, pre_buffer=False) as file:
                columns = [field.name for field in file.schema_arrow if _may_hold_numbers(field.type)]
                done, total, size = 0, max(file.metadata.num_rows, 1), self._path.stat().st_size
                for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                    yield from batch.to_pylist()
                    done += batch.num_rows
                    tally.read(size * done // total, size)
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: no UTF-8, or a date beyond Python's
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise InputError(f"broken Parquet file ({reason})", where=self.label) from None


class WebExportLog:
    """One run of a chart's export."""

    kind = "W&B chart export (CSV)"

    def __init__(self, path: Path, label: str, name: str, columns: Mapping[int, str], width: int) -> None:
        self.label = label
        self.name: str | None = name
        self._path = path
        self._columns = columns
        self._width = width

    def records(self, tally: Tally) -> Iterator[Record]:
        return to_records(self._rows(tally))

    def _rows(self, tally: Tally) -> Iterator[dict[str, float]]:
        lines = text_lines(self._path, self.label, tally)
        next(lines, None)
        for line in lines:
            cells = _cells(line.text)
            if not line.whole and len(cells) < self._width:
                tally.skip("unfinished last lines", line.where)
            elif len(cells) != self._width:
                tally.skip("lines with a wrong number of cells", line.where)
            else:
                yield self._row(cells, line, tally)

    def _row(self, cells: list[str], line: Line, tally: Tally) -> dict[str, float]:
        row: dict[str, float] = {}
        for index, name in self._columns.items():
            try:
                if cells[index].strip():
                    row[name] = float(cells[index])
            except ValueError:
                tally.skip("cells that are not numbers", line.where)
        return row if len(row) > 1 else {}  # the axis alone is no measurement of this run


def web_export_logs(path: Path, label: str) -> list[Log]:
    """One log for each run in the file, in the order of the columns."""
    first = next(text_lines(path, label, Tally()), None)
    header = [] if first is None else _cells(first.text)
    if not is_web_export(header):
        raise InputError("not a chart's export of W&B", allowed="a header such as Step,RUN - METRIC", where=label)
    runs: dict[str, dict[int, str]] = {}
    for index, cell in enumerate(header[1:], 1):
        if cell.strip() and not cell.endswith(_EXTREMES):
            run, metric = cell.rsplit(_BETWEEN, 1)
            runs.setdefault(run, {0: _AXES.get(header[0], header[0])})[index] = metric
    return [WebExportLog(path, label, run, columns, len(header)) for run, columns in runs.items()]


def _cells(text: str) -> list[str]:
    """A line of CSV; line ends inside of cells do not occur in numbers, nor in the names of runs and metrics."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _object(line: Line) -> dict[str, Any] | None:
    if REPLACED in line.text:
        return None
    try:
        row = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _may_hold_numbers(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_struct(kind))
