"""What every source of rows looks like, and a folder of several files as one of them.

Implemented in `jsonl`, `arrow` and `hub`, opened by `open`, read by `records`. Knows nothing about prompts or answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from scalerl.errors import InputError

Row = dict[str, Any]
"""Cells by column; a column that this row does not have is not in it."""
Unit = Literal["line", "row"]
BATCH_ROWS = 256
"""Small: unit tests of a code problem may be megabytes."""


class Rows(Protocol):
    """An open source whose columns are known and whose rows are streamed once."""

    label: str
    """How messages name it."""
    unit: Unit
    """What is counted: lines of a text, rows of a table."""
    columns: tuple[str, ...]
    num_bytes: int
    """In all; 0: not known."""

    def first(self, columns: Sequence[str]) -> Row:
        """The first row, to recognise the layout by."""

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:
        """Every row with its number, from 1. A row that cannot be read is the error that says why; damage after which
        nothing can be read is raised."""

    def done(self) -> int:
        """Bytes read so far."""


def first_line(error: Exception) -> str:
    """Why something failed, in one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
