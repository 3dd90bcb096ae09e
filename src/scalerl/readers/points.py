"""From chunks of rows to curves: check every row, split by curve, settle duplicates, build `Series`.

Called by `table`. Knows nothing about file formats. Rows are kept as bare columns; line numbers are kept only so far as
they cannot be counted, so that memory stays proportional to the columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

import numpy as np
import numpy.typing as npt

from scalerl.errors import InputError
from scalerl.readers.cells import Chunk, FloatArray, Lines, line_of
from scalerl.readers.columns import Picked
from scalerl.series import Series, StartValue

Duplicates = Literal["mean", "last", "seeds"]
IndexArray = npt.NDArray[np.intp]


@dataclass
class Places:
    """Where each row came from, for messages."""

    label: str
    unit: str
    _starts: list[int] = field(default_factory=list)
    _lines: list[Lines] = field(default_factory=list)

    def add(self, start: int, lines: Lines) -> None:
        self._starts.append(start)
        self._lines.append(lines)

    def number(self, row: int) -> int:
        at = bisect_right(self._starts, row) - 1
        return line_of(self._lines[at], row - self._starts[at])

    def where(self, row: int) -> str:
        return f"{self.label}, {self.unit} {self.number(row)}"


@dataclass(frozen=True)
class Points:
    """All rows of one file that belong to one curve; `rows` counts from the start of the file."""

    name: str
    x: FloatArray
    y: FloatArray
    n: FloatArray | None
    rows: IndexArray | None = None
    """None when they are all the rows of the file."""

    def take(self, keep: npt.NDArray[np.bool_] | IndexArray, name: str | None = None) -> Points:
        n = None if self.n is None else self.n[keep]
        return Points(name or self.name, self.x[keep], self.y[keep], n)


class _Codes(dict[Hashable, int]):
    """Numbers keys in order of first appearance."""

    def __missing__(self, key: Hashable) -> int:
        code = self[key] = len(self)
        return code


def collect(
    chunks: Iterable[Chunk], picked: Picked, places: Places, bounds: tuple[float, float] | None, name: str
) -> list[Points]:
    """Every curve of the file, checked, in order of first appearance."""
    columns = (array("d"), array("d"), array("d"))  # they grow in place: no second copy of a column at any time
    codes = array("i")
    seen = _Codes()
    start = 0
    for chunk in chunks:
        places.add(start, chunk.lines)
        _check(chunk, picked, places, start, bounds)
        for column, part in zip(columns, (chunk.x, chunk.y, chunk.n), strict=True):
            if part is not None:
                column.frombytes(part.tobytes())
        if chunk.keys is not None:
            known = len(seen)
            codes.extend(map(seen.__getitem__, chunk.keys))
            _refuse_empty_keys(seen, known, codes, picked, places)
        start += chunk.x.size
    x, y, n = (np.frombuffer(column) if column else None for column in columns)
    assert x is not None
    assert y is not None
    whole = Points(name, x, y, n)
    return list(_split(whole, np.frombuffer(codes, np.intc), _labels(seen))) if codes else [whole]


def _check(chunk: Chunk, picked: Picked, places: Places, start: int, bounds: tuple[float, float] | None) -> None:
    """Refuse the first row that cannot be used."""
    problems = [
        (~np.isfinite(chunk.x), chunk.x, picked.x, "finite numbers"),
        (chunk.x < 0, chunk.x, picked.x, "compute of zero or more"),
        (~np.isfinite(chunk.y), chunk.y, picked.y, "finite numbers"),
    ]
    if bounds is not None:
        low, high = bounds
        problems.append(((chunk.y < low) | (chunk.y > high), chunk.y, picked.y, _bounds_hint(low, high)))
    if chunk.n is not None and picked.n is not None:
        bad_n = np.isinf(chunk.n) | (chunk.n <= 0)
        problems.append((bad_n, chunk.n, picked.n, "positive numbers, or empty where unknown"))
    found = [(int(np.argmax(bad)), i) for i, (bad, *_) in enumerate(problems) if bad.any()]
    if found:
        row, which = min(found)
        _, values, column, allowed = problems[which]
        raise InputError(f"unusable {column!r}", float(values[row]), allowed, places.where(start + row))


def _bounds_hint(low: float, high: float) -> str:
    hint = f"{low:g} to {high:g}"
    if (low, high) == (0.0, 1.0):
        hint += " (percentages: --bounds 0,100; rewards of any size: --bounds none)"
    return hint


def _refuse_empty_keys(seen: _Codes, known: int, codes: array[int], picked: Picked, places: Places) -> None:
    for key in islice(seen, known, None):
        cells = key if isinstance(key, tuple) else (key,)
        for column, cell in zip(picked.by, cells, strict=True):
            if cell is None or not cell.strip():
                where = places.where(codes.index(seen[key]))
                raise InputError(f"empty cell in column {column!r}", allowed="a curve's name in every row", where=where)


def _labels(seen: _Codes) -> list[str]:
    """One name per key; two keys that would read the same (`a/b` + `c`, `a` + `b/c`) are told apart."""
    labels: dict[str, None] = {}
    for key in seen:
        label = "/".join(key) if isinstance(key, tuple) else str(key)
        labels[label if label not in labels else f"{label} ({len(labels) + 1})"] = None
    return list(labels)


def _split(whole: Points, codes: npt.NDArray[np.intc], labels: list[str]) -> Iterator[Points]:
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order])) + 1
    for label, rows in zip(labels, np.split(order, edges), strict=True):
        yield replace(whole.take(rows, label), rows=rows)


def to_series(
    points: Points, picked: Picked, places: Places, duplicates: Duplicates | None, named: bool
) -> list[Series]:
    """The curve as one `Series`, or as one per seed when `duplicates` is "seeds"."""
    points = _fill_n(points)
    if picked.num_answers is not None:
        points = replace(points, n=np.full_like(points.y, picked.num_answers))
    parts = [points]
    if not (points.x[1:] > points.x[:-1]).all():
        order = np.argsort(points.x, kind="stable")
        repeated = np.diff(points.x[order]) == 0
        if repeated.any() and duplicates is None:
            raise _duplicate_error(points, order, repeated, picked, places)
        first = np.concatenate([[True], ~repeated])  # begins a run of equal compute
        parts = [points.take(order)] if duplicates is None else _SETTLE[duplicates](points.take(order), first)
    starts = [_start(part) for part in parts]
    shared = next((start for start in starts if start is not None), None)
    names = (picked.x, picked.y) if named else ("compute", "value")
    return [_series(part, start or shared, names, places.label) for part, start in zip(parts, starts, strict=True)]


def _series(part: Points, start: StartValue | None, names: tuple[str, str], source: str) -> Series:
    """Not through `Series.of`: the rows are checked and sorted already, and a second time would double the memory."""
    skip = int(start is not None and part.x[0] == 0)
    n = None if part.n is None else part.n[skip:]
    x_name, y_name = map(_whole, names)
    return Series(part.x[skip:], part.y[skip:], n, start, _whole(part.name), x_name, y_name, source)


def _whole(text: str) -> str:
    """JSON and file names can hold half a character, which nothing can write again: it becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _start(part: Points) -> StartValue | None:
    """The step-0 measurement; seeds that have none of their own share it, since they start from the same policy."""
    if part.x[0] != 0:
        return None
    return StartValue(float(part.y[0]), None if part.n is None else float(part.n[0]))


def _fill_n(points: Points) -> Points:
    """No n known: None. Some known: the others get the median of those, since a weight is needed for every point."""
    if points.n is None or not np.isnan(points.n).any():
        return points
    missing = np.isnan(points.n)
    n = None if missing.all() else np.where(missing, np.median(points.n[~missing]), points.n)
    return replace(points, n=n)


def _mean(points: Points, first: npt.NDArray[np.bool_]) -> list[Points]:
    """One point per compute: the mean, weighted by n if known; the n add up."""
    at = np.flatnonzero(first)
    weight = np.ones_like(points.y) if points.n is None else points.n
    with np.errstate(over="ignore", invalid="ignore"):  # seen to below
        total = np.add.reduceat(weight, at)
        mean = np.add.reduceat(weight * points.y, at) / total
    if not (np.isfinite(mean) & np.isfinite(total)).all():
        raise InputError(f"values or n too large for a mean in curve {points.name!r}", allowed="smaller numbers")
    n = None if points.n is None else total
    return [Points(points.name, points.x[at], mean, n)]


def _last(points: Points, first: npt.NDArray[np.bool_]) -> list[Points]:
    """The later row of the file wins."""
    return [points.take(np.append(first[1:], True))]


def _seeds(points: Points, first: npt.NDArray[np.bool_]) -> list[Points]:
    """The i-th occurrence of each compute belongs to the i-th seed."""
    index = np.arange(first.size)
    occurrence = index - np.maximum.accumulate(np.where(first, index, 0))
    count = int(occurrence.max()) + 1
    return [points.take(occurrence == i, f"{points.name}#{i + 1}" if count > 1 else None) for i in range(count)]


_SETTLE = {"mean": _mean, "last": _last, "seeds": _seeds}


def _duplicate_error(
    points: Points, order: IndexArray, repeated: npt.NDArray[np.bool_], picked: Picked, places: Places
) -> InputError:
    again = np.flatnonzero(repeated) + 1
    at = again[np.argmin(order[again])]  # the pair that is complete first in the file
    rows = order if points.rows is None else points.rows[order]
    first, second = (places.number(int(rows[i])) for i in (at - 1, at))
    several = "" if picked.by else "--by COLUMN for several curves in one file, or "
    return InputError(
        f"duplicate {picked.x!r} in curve {points.name!r}", float(points.x[order[at]]),
        f"each once ({several}--duplicates mean|last|seeds)", f"{places.label}, {places.unit}s {first} and {second}",
    )  # fmt: skip
