"""Rows of a CSV file, or one separated by tabs, semicolons or bars.

Called by `table`. Parses block by block and keeps only the needed cells, so that fat text columns cost no memory. A
first row made of numbers alone means that there is no header: the columns are then called 1, 2, 3 and so on.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from operator import itemgetter
from typing import Literal

import numpy as np

from scalerl.errors import InputError
from scalerl.readers.cells import Chunk, FloatArray, Lines, line_of, not_a_number, pack_lines, parses
from scalerl.readers.columns import Picked
from scalerl.readers.source import LONGEST_LINE_BYTES, Source, first_block

Block = tuple[Lines, list[list[str]]]
_DELIMITERS = ",\t;|"


@contextmanager
def wide_fields() -> Iterator[None]:
    """Lift the csv module's limit of 131,072 characters a cell, which is process-wide, while a file is read."""
    previous = csv.field_size_limit(LONGEST_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(previous)


class DelimitedRows:
    """`Rows` of a delimited text file; its first block is read at once."""

    unit: Literal["line", "row"] = "line"

    def __init__(self, source: Source) -> None:
        self._label = source.label
        self._text = source.text()
        self._delimiter = ""
        self._blocks = self._parsed_blocks()
        lines, rows = first_block(self._blocks, source)
        header = [cell.strip() for cell in rows[0]]
        self.named = not all(map(parses, header))
        self.columns = tuple(header) if self.named else tuple(str(i + 1) for i in range(len(header)))
        self._first = (lines, rows) if not self.named else self._below_header(lines, rows)
        self._check_width(*self._first)

    def _below_header(self, lines: Lines, rows: list[list[str]]) -> Block:
        if len(rows) > 1:
            return (lines + 1 if isinstance(lines, int) else lines[1:]), rows[1:]
        block = next(self._blocks, None)
        if block is None:
            raise InputError("no rows below the header", allowed="at least one", where=self._label)
        return block

    def is_number(self, column: str) -> bool:
        return parses(self._first[1][0][self.columns.index(column)])

    def chunks(self, picked: Picked) -> Iterator[Chunk]:
        indices = [self.columns.index(column) for column in picked.by]
        for lines, rows in chain([self._first], self._blocks):
            self._check_width(lines, rows)
            x, y = self._floats(picked.x, lines, rows), self._floats(picked.y, lines, rows)
            n = None if picked.n is None else self._floats(picked.n, lines, rows, optional=True)
            keys = list(map(itemgetter(*indices), rows)) if indices else None
            yield Chunk(x, y, n, keys, lines)

    def _floats(self, column: str, lines: Lines, rows: list[list[str]], *, optional: bool = False) -> FloatArray:
        cells = list(map(itemgetter(self.columns.index(column)), rows))
        if optional:
            cells = [cell if cell.strip() else "nan" for cell in cells]
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            at = next(i for i, cell in enumerate(cells) if not parses(cell))
            raise not_a_number(cells[at], column, f"{self._label}, line {line_of(lines, at)}") from None

    def _parsed_blocks(self) -> Iterator[Block]:
        """The rows that are not blank, with their lines. A row that a block leaves open waits for the next block."""
        before, rest, wanted = 0, "", 0
        for text in chain(self._text, [""]):  # the empty one says that the file is over
            rest += text
            if len(rest) < wanted and text:
                continue
            self._delimiter = self._delimiter or _delimiter(rest)
            rows, num_lines, rest = self._parse(rest, before, last=not text)
            if num_lines == len(rows) and rows and all(rows):
                yield before + 1, rows
            elif kept := [(at, row) for at, row in _starts(rows, before + 1) if any(map(str.strip, row))]:
                yield pack_lines([at for at, _ in kept]), [row for _, row in kept]
            before += num_lines
            wanted = 0 if rows else 2 * len(rest)  # a huge row is parsed again only when it may be twice as long

    def _parse(self, text: str, before: int, *, last: bool) -> tuple[list[list[str]], int, str]:
        """The rows of a text, the number of their lines, and the rest: a row whose quotes are still open.

        Strict, because an unclosed quote would otherwise swallow the rest of the file without a word.
        """
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        rows: list[list[str]] = []
        try:
            rows.extend(reader)
        except csv.Error as error:
            num_lines = sum(map(_num_lines, rows))
            if last or lines.read(1):  # not at the end of the block, so more text would not help
                where = f"{self._label}, line {before + num_lines + 1}"
                raise InputError(f"broken CSV ({error})", allowed="well-formed quotes", where=where) from None
            lines.seek(0)
            deque(islice(lines, num_lines), maxlen=0)
            return rows, num_lines, lines.read()
        return rows, reader.line_num, ""

    def _check_width(self, lines: Lines, rows: list[list[str]]) -> None:
        width = len(self.columns)
        if set(map(len, rows)) != {width}:
            at = next(i for i, row in enumerate(rows) if len(row) != width)
            where = f"{self._label}, line {line_of(lines, at)}"
            raise InputError("wrong number of cells in a row", len(rows[at]), f"{width}, as in the first row", where)


def _starts(rows: list[list[str]], line: int) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line it starts on: quoted cells may hold line ends."""
    for row in rows:
        yield line, row
        line += _num_lines(row)


def _num_lines(row: list[str]) -> int:
    return 1 + sum(cell.count("\n") + cell.count("\r") - cell.count("\r\n") for cell in row)


def _delimiter(head: str) -> str:
    """The separator that the header uses most, outside quotes."""
    header = next((line for line in head.splitlines() if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", header)
    return max(_DELIMITERS, key=bare.count)
