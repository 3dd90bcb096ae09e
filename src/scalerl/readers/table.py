"""Tables of points (CSV, JSONL, Parquet) as `Series`, read strictly: whatever cannot be used is an error with its line.

Called by `curves`. Knows nothing about laws or reports. The steps: `source` opens the file and says what it is, one of
`delimited`, `jsonl`, `parquet` streams it, `columns` chooses the columns, `points` makes curves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scalerl.readers.cells import Rows
from scalerl.readers.columns import Picked, pick
from scalerl.readers.delimited import DelimitedRows, wide_fields
from scalerl.readers.jsonl import JsonlRows
from scalerl.readers.parquet import ParquetRows
from scalerl.readers.points import Duplicates, Places, collect, to_series
from scalerl.readers.source import Source, open_source
from scalerl.series import Series

FRESH_S = 120.0
"""A file written so recently may still be under way."""


def table_series(
    path: str | Path, x: str | None, y: str | None, n: str | None, by: str | None, *,
    duplicates: Duplicates | None, bounds: tuple[float, float] | None, name: str,
) -> Iterator[tuple[str, list[Series]]]:  # fmt: skip
    """Every curve of one table with its name, as its seeds."""
    with open_source(path) as source, wide_fields():
        rows = _rows(source)
        picked = pick(rows.columns, rows.is_number, x=x, y=y, n=n, by=by, where=source.label)
        places = Places(source.label, rows.unit)
        points = collect(rows.chunks(picked), picked, places, bounds, name)
        notes = _doubts(source, rows, picked)
    for part in points:
        series = to_series(part, picked, places, duplicates, rows.named)
        yield part.name, [replace(one, notes=notes) for one in series] if notes else series


def _doubts(source: Source, rows: Rows, picked: Picked) -> tuple[str, ...]:
    """A last number that somebody may be writing at this moment: 0.5 on its way to 0.534 reads like a number.

    Many a finished file ends without a line end, so only one that was written just now is doubted; the number is used.
    """
    last = rows.columns[-1]
    is_used = source.format == "csv" and last in {picked.x, picked.y, picked.n}
    if not (is_used and source.ends_open) or source.age_s > FRESH_S:
        return ()
    return (f"the last line has no line end, and the file was written just now: its {last} may be cut off",)


def _rows(source: Source) -> Rows:
    match source.format:
        case "parquet":
            return ParquetRows(source)
        case "jsonl":
            return JsonlRows(source)
        case "csv":
            return DelimitedRows(source)
