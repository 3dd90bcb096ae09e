"""Rows of a JSONL file: one object per line, whose keys are the columns.

Called by `table`. The first object says which columns there are; later lines may have more keys, but must have the
needed ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import Any, Literal

import numpy as np

from scalerl.errors import InputError
from scalerl.readers.cells import Chunk, FloatArray, Lines, line_of, not_a_number, pack_lines, shorten
from scalerl.readers.columns import Picked
from scalerl.readers.source import Source, first_block

Row = dict[str, Any]
Block = tuple[Lines, list[Row]]
_ABSENT = object()
_DECODER = json.JSONDecoder()


class JsonlRows:
    """`Rows` of a JSONL file; its first block is read at once."""

    unit: Literal["line", "row"] = "line"
    named = True

    def __init__(self, source: Source) -> None:
        self._label = source.label
        self._blocks = self._parsed_blocks(source)
        self._first = first_block(self._blocks, source)
        self.columns = tuple(self._first[1][0])

    def is_number(self, column: str) -> bool:
        return type(self._first[1][0][column]) in {int, float}

    def chunks(self, picked: Picked) -> Iterator[Chunk]:
        for lines, rows in chain([self._first], self._blocks):
            x, y = self._floats(picked.x, lines, rows), self._floats(picked.y, lines, rows)
            n = None if picked.n is None else self._floats(picked.n, lines, rows, optional=True)
            yield Chunk(x, y, n, [_key(row, picked.by) for row in rows] if picked.by else None, lines)

    def _floats(self, column: str, lines: Lines, rows: list[Row], *, optional: bool = False) -> FloatArray:
        cells = [row.get(column, _ABSENT) for row in rows]
        if optional:
            cells = [math.nan if cell is _ABSENT or cell is None else cell for cell in cells]
        if not set(map(type, cells)) <= {int, float}:  # a bool is not a number here
            at = next(i for i, cell in enumerate(cells) if type(cell) not in {int, float})
            where = f"{self._label}, line {line_of(lines, at)}"
            if cells[at] is _ABSENT:
                raise InputError(f"no {column!r} in this object", allowed="a number in every line", where=where)
            raise not_a_number(cells[at], column, where)
        try:
            return np.fromiter(cells, np.float64, len(cells))
        except OverflowError:  # an integer beyond the range of a float, refused later as infinite
            return np.array([float(cell) if abs(cell) < 1e308 else math.inf for cell in cells])

    def _parsed_blocks(self, source: Source) -> Iterator[Block]:
        """The objects of each block, with their lines."""
        before = 0
        for text in source.text():
            lines = text.removesuffix("\n").split("\n")
            numbers = [i for i, line in enumerate(lines, before + 1) if line and not line.isspace()]
            if numbers:
                yield pack_lines(numbers), [self._object(lines[i - before - 1], i) for i in numbers]
            before += len(lines)

    def _object(self, line: str, number: int) -> Row:
        line = line.strip()
        try:
            row, end = _DECODER.raw_decode(line)  # twice as fast as json.loads
            if end != len(line):
                raise json.JSONDecodeError("Extra data", line, end)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            where = f"{self._label}, line {number}"
            raise InputError(f"broken JSON ({reason})", shorten(line), "one object per line", where) from None
        if not isinstance(row, dict):
            where = f"{self._label}, line {number}"
            raise InputError("not a JSON object", shorten(line), "one object per line", where)
        return row


def _key(row: Row, by: tuple[str, ...]) -> Hashable:
    cells = tuple(None if (cell := row.get(column)) is None else str(cell) for column in by)
    return cells if len(cells) > 1 else cells[0]
