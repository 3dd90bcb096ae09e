"""Sparse CSV logs: a step, many metrics, and a cell only where something was measured (Lightning's `metrics.csv`).

Called by `open`. A plain table of a curve stays with the strict reader (`readers.delimited`), which refuses empty
cells; `is_csv_log` draws the line. Rows are taken line by line, so a broken row costs that row only; cells with line
ends in them are not for logs.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.cells import parses
from scalerl.readers.columns import pick
from scalerl.readers.logs.fields import Fields, Recorder, choose_step, is_step_name, moment, rises
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.text_lines import REPLACED, Line, head_lines, text_lines

_DELIMITERS = ",\t;|"
_HEAD_ROWS = 500
"""Rows that decide which columns hold numbers."""


def head_rows(head: bytes) -> tuple[list[str], list[list[str]]]:
    """The header and the well-formed rows of a file's first block, for `is_csv_log`."""
    lines = head_lines(head if head.endswith(b"\n") else head + b"\n")
    if not lines:
        return [], []
    delimiter = _delimiter(lines[0])
    header = _cells(lines[0], delimiter) or []
    rows = [row for line in lines[1:] if (row := _cells(line, delimiter)) is not None and len(row) == len(header)]
    return header, rows


def is_csv_log(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """A step, three metrics or more, and a compute or value that the strict reader could not read in every row.

    A full table in which nothing can be guessed is a log if its steps rise: those of several curves (`--by`) do not.
    """
    step = choose_step(header)
    numeric = [name for at, name in enumerate(header) if any(parses(row[at]) for row in rows)]
    if step not in numeric or sum(not is_step_name(name) for name in numeric) < 3 or len(set(header)) < len(header):
        return False
    try:
        picked = pick(header, lambda name: name in numeric)
    except InputError:  # several candidates, or none
        empty = any(not cell.strip() for row in rows for cell in row)
        return empty or rises(row[header.index(step)] for row in rows)
    needed = [header.index(picked.x), header.index(picked.y)]
    return any(not row[at].strip() for row in rows for at in needed)


class CsvLog:
    """`Log` of a delimited text file with a header."""

    name: str | None = None

    def __init__(self, path: str | Path, label: str, kind: str = "a sparse CSV log") -> None:
        self.kind = kind
        self.label = label
        self._path = Path(path)

    def records(self, tally: Tally) -> Iterator[Record]:
        lines = text_lines(self._path, self.label, tally)
        first = next(lines, None)
        if first is None:
            return
        table = _Table(_cells(first.text, _delimiter(first.text)) or [], _delimiter(first.text), tally)
        head = list(islice(lines, _HEAD_ROWS))
        table.learn(head)
        for line in chain(head, lines):
            record = table.record(line)
            if record is not None:
                yield record


class _Table:
    """What is known of the columns while the rows go by."""

    def __init__(self, header: list[str], delimiter: str, tally: Tally) -> None:
        self._delimiter = delimiter
        self._tally = tally
        self._session = 0
        self._begin(header)

    def _begin(self, header: list[str]) -> None:
        self._header = [cell.strip() for cell in header]
        self._texts: set[str] = set()
        self._recorder = Recorder(choose_step(self._header))

    def learn(self, lines: Sequence[Line]) -> None:
        """Columns that mostly hold text are names or notes; a number there would be a chance."""
        texts: Counter[str] = Counter()
        for line in lines:
            row = _cells(line.text, self._delimiter) or []
            if len(row) == len(self._header):
                texts.update({name: -1 if parses(c) else 1 for name, c in self._filled(row)})
        self._texts = {name for name, balance in texts.items() if balance > 0}

    def record(self, line: Line) -> Record | None:
        row = _cells(line.text, self._delimiter)
        if row is None:
            self._tally.skip("broken rows", line.where)
        elif self._is_header(row):
            self._session += 1  # a restart appends its header again, perhaps with other columns
            self._begin(row)
        elif len(row) != len(self._header):
            what = "rows with a wrong number of cells" if line.whole else "torn last rows"
            self._tally.skip(what, line.where)
        else:
            return self._read(row, line)
        return None

    def _is_header(self, row: list[str]) -> bool:
        return len(row) > 1 and not any(map(parses, row)) and any(is_step_name(cell.strip()) for cell in row)

    def _read(self, row: list[str], line: Line) -> Record | None:
        if not line.whole and row[-1].strip():
            self._tally.skip("last cells that may be cut off (no line end)", line.where)
            row[-1] = ""
        record = self._recorder.record(self._fields(row, line), self._session)
        if record is None and any(parses(cell) for cell in row):
            self._tally.skip("rows without a step or a metric", line.where)
        return record

    def _fields(self, row: list[str], line: Line) -> Fields:
        fields: dict[str, object] = {}
        for name, cell in self._filled(row):
            if parses(cell):
                fields[name] = float(cell)
            elif moment(name, cell) is not None:
                fields[name] = cell
            elif name not in self._texts:
                self._tally.skip("cells that are not numbers", f"{line.where}, column {_shown(name)}")
        return fields

    def _filled(self, row: list[str]) -> Iterator[tuple[str, str]]:
        pairs = zip(self._header, row, strict=True)
        return ((name, cell.strip()) for name, cell in pairs if cell.strip() and REPLACED not in name)


def _cells(text: str, delimiter: str) -> list[str] | None:
    """None when the quotes are broken."""
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration):
        return None


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _shown(name: str) -> str:
    return name if len(name) <= 40 else name[:37] + "..."
