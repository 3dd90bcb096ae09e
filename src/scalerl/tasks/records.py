"""Rows of a JSONL or Parquet file as texts: two columns, row by row, with the line for messages.

Called by `files`. Opening, recognising and parsing are those of `scalerl.readers`; this adds text cells to formats that
so far only gave numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.cells import line_of, shorten
from scalerl.readers.columns import find
from scalerl.readers.jsonl import JsonlRows
from scalerl.readers.parquet import ParquetRows
from scalerl.readers.source import Source, open_source

_BATCH_ROWS = 1 << 12
_ABSENT = object()


@dataclass(frozen=True)
class Record:
    """One row."""

    prompt: str
    answer: str
    where: str
    """File and line (or row), for messages."""


def read_records(path: str | Path, prompt_key: str, answer_key: str, *, tables: bool = False) -> Iterator[Record]:
    """Every row of the file; the first one that cannot be used is an error with its line.

    `tables`: an answer may also be a list or a table, which becomes JSON.
    """
    with open_source(path) as source:
        rows = _rows(source)
        keys = [
            find(rows.columns, key, option, source.label)
            for key, option in ((prompt_key, "prompt_key"), (answer_key, "answer_key"))
        ]
        for number, cells in rows.cells(keys):
            where = f"{source.label}, {rows.unit} {number}"
            answer = cells[1]
            if tables and isinstance(answer, list | dict):
                answer = json.dumps(answer)
            yield Record(_prompt(cells[0], keys[0], where), _answer(answer, keys[1], where), where)


class _JsonlCells(JsonlRows):
    """JSONL whose cells may be anything."""

    def cells(self, keys: list[str]) -> Iterator[tuple[int, list[Any]]]:
        for lines, rows in chain([self._first], self._blocks):
            for i, row in enumerate(rows):
                yield line_of(lines, i), [row.get(key, _ABSENT) for key in keys]


class _ParquetCells(ParquetRows):
    """Parquet whose cells may be anything."""

    def cells(self, keys: list[str]) -> Iterator[tuple[int, list[Any]]]:
        import pyarrow as pa

        number = 0
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=keys):
                columns = [batch.column(key).to_pylist() for key in keys]
                for row in zip(*columns, strict=True):
                    number += 1
                    yield number, list(row)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"broken Parquet file ({reason})", where=self._label) from None


def _rows(source: Source) -> _JsonlCells | _ParquetCells:
    match source.format:
        case "jsonl":
            return _JsonlCells(source)
        case "parquet":
            return _ParquetCells(source)
        case "csv":
            raise InputError("not a task file", allowed="JSONL or Parquet", where=source.label)


def _prompt(cell: Any, key: str, where: str) -> str:
    if cell is _ABSENT:
        raise InputError(f"no {key!r} in this object", allowed="a prompt in every line", where=where)
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"empty prompt in {key!r}", allowed="a text in every row", where=where)
    if not isinstance(cell, str):
        raise InputError(f"the prompt in {key!r} is not a text", shorten(cell), "a text in every row", where)
    return cell


def _answer(cell: Any, key: str, where: str) -> str:
    if cell is _ABSENT:
        raise InputError(f"no {key!r} in this object", allowed="an answer in every line", where=where)
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"empty answer in {key!r}", allowed="a text or a number in every row", where=where)
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise InputError(f"the answer in {key!r} is no text or number", shorten(cell), "a text or a number", where)
    return str(cell).strip()
