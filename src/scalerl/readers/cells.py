"""What every format hands on: `Chunk`s of numbers with line numbers, and the messages for cells that are not numbers.

Called by `delimited`, `jsonl` and `parquet`, which all look like `Rows` to `table`. Knows nothing about curves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from scalerl.errors import InputError
from scalerl.readers.columns import Picked

FloatArray = npt.NDArray[np.float64]
Lines = int | npt.NDArray[np.int64]
"""The line of each row of a chunk: all of them, or only the first when the others follow one by one."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, reduced to the needed columns."""

    x: FloatArray
    y: FloatArray
    n: FloatArray | None
    """NaN where it is not known."""
    keys: Sequence[Hashable] | None
    """The cell of the `by` column, or a tuple of cells when there are several."""
    lines: Lines


class Rows(Protocol):
    """An open file whose columns are known and whose rows can be streamed once."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def named(self) -> bool:
        """False when the file has no header and the columns are only numbered."""

    @property
    def unit(self) -> Literal["line", "row"]:
        """What messages count: lines of a text file, rows of a Parquet file."""

    def is_number(self, column: str) -> bool:
        """Whether the first row has a number there (a guessed column must)."""

    def chunks(self, picked: Picked) -> Iterator[Chunk]: ...


def line_of(lines: Lines, row: int) -> int:
    return lines + row if isinstance(lines, int) else int(lines[row])


def pack_lines(numbers: Sequence[int] | npt.NDArray[np.int64]) -> Lines:
    """Keep one number instead of one per row, when the rows are consecutive lines."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return int(numbers[0])
    return np.asarray(numbers, dtype=np.int64)


def parses(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def not_a_number(cell: object, column: str, where: str) -> InputError:
    """The error for one cell of a needed column."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return InputError(f"empty cell in column {column!r}", allowed="a number in every row", where=where)
    allowed = "a number"
    if isinstance(cell, str) and parses(cell.strip().removesuffix("%")):
        allowed = "a number (percentages: without the sign, and --bounds 0,100)"
    elif isinstance(cell, str) and parses(cell.replace(",", ".", 1)):
        allowed = "a number (with a decimal point, not a comma)"
    return InputError(f"not a number in column {column!r}", shorten(cell), allowed, where)


def shorten(cell: object, width: int = 40) -> str:
    """A cell as a message shows it: a fat one is cut."""
    try:
        text = cell if isinstance(cell, str) else repr(cell)
    except (ValueError, RecursionError):  # thousands of digits, or nested as deep
        text = f"a huge {type(cell).__name__}"
    return text if len(text) <= width else text[: width - 3] + "..."
