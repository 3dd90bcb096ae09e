"""Tables of any origin (CSV, JSONL, Parquet) as `Series`: the door through which other people's numbers come in.

Called by the command line and by users. Knows nothing about laws or reports. The steps: `source` opens the file and
says what it is, one of `delimited`, `jsonl`, `parquet` streams it, `columns` chooses the columns, `points` makes
curves. A folder can be a curve too: one of our run directories (`run_directory`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.cells import Rows
from scalerl.readers.columns import pick
from scalerl.readers.delimited import DelimitedRows, wide_fields
from scalerl.readers.jsonl import JsonlRows
from scalerl.readers.parquet import ParquetRows
from scalerl.readers.points import Duplicates, Places, collect, to_series
from scalerl.readers.run_directory import RunRows, is_run_directory
from scalerl.readers.source import Source, open_source
from scalerl.series import Series

Bounds = tuple[float, float] | None
_DUPLICATES = ("mean", "last", "seeds")


def read_table(
    path: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    n: str | None = None,
    by: str | None = None,
    duplicates: Duplicates | None = None,
    bounds: Bounds = (0.0, 1.0),
) -> list[Series]:
    """Every curve of one file, in order of first appearance.

    `x`, `y`, `n`: the columns of compute, value and number of answers; guessed from usual names when not given (see
    `columns`), `n="none"` to read none. A cell of `n` may be empty: with some known, the others get the median of
    those; with none known, `Series.n` is None.
    `by`: the column (or several, separated by commas) whose values name the curves; without it the file is one curve,
    called like the file.
    `duplicates`: what several rows at one compute are. None: an error; "mean": one measurement, averaged (by n if
    known); "last": the later row replaces the earlier; "seeds": runs of one recipe, named `curve#1`, `curve#2`, ...
    `bounds`: values outside are an error; None allows any.
    A row at zero compute is the step-0 measurement (`Series.start`), not a point. `path` "-" is standard input.

    `path` may be a run directory: then `x` is flops (default), tokens, device_hours or steps, and `y` the pass rate.
    """
    curves = _read(path, x=x, y=y, n=n, by=by, duplicates=duplicates, bounds=bounds, name=_stem(path))
    return [series for seeds in curves.values() for series in seeds]


def read_curves(
    paths: Sequence[str | Path],
    *,
    x: str | None = None,
    y: str | None = None,
    n: str | None = None,
    by: str | None = None,
    duplicates: Duplicates | None = None,
    bounds: Bounds = (0.0, 1.0),
) -> dict[str, list[Series]]:
    """Every curve of several files by name; the seeds of one curve are together in its list.

    Options as in `read_table`. Without `by` each file is one curve, called like the file, with as many parent folders
    as tell the files apart. With `by`, a name that occurs in several files gets its file's name in front.
    """
    curves: dict[str, list[Series]] = {}
    names = _file_names(paths)
    read = {
        name: _read(path, x=x, y=y, n=n, by=by, duplicates=duplicates, bounds=bounds, name=name)
        for name, path in zip(names, paths, strict=True)
    }
    labels = [label for found in read.values() for label in found]
    for name, found in read.items():
        for label, seeds in found.items():
            unique = label if labels.count(label) == 1 else f"{name}/{label}"
            curves[unique] = seeds if unique == label else [_renamed(s, f"{name}/{s.name}") for s in seeds]
    return curves


def _read(
    path: str | Path, *, x: str | None, y: str | None, n: str | None, by: str | None,
    duplicates: Duplicates | None, bounds: Bounds, name: str,
) -> dict[str, list[Series]]:  # fmt: skip
    _check_options(duplicates, bounds)
    if is_run_directory(path):
        run = RunRows(path)
        picked, places = run.pick(x=x, y=y, n=n, by=by), Places(run.label, run.unit)
        points = collect(run.chunks(picked), picked, places, bounds, name)
        return {name: to_series(points[0], picked, places, duplicates, run.named)}
    with open_source(path) as source, wide_fields():
        rows = _rows(source)
        picked = pick(rows.columns, rows.is_number, x=x, y=y, n=n, by=by, where=source.label)
        places = Places(source.label, rows.unit)
        points = collect(rows.chunks(picked), picked, places, bounds, name)
    return {part.name: to_series(part, picked, places, duplicates, rows.named) for part in points}


def _rows(source: Source) -> Rows:
    match source.format:
        case "parquet":
            return ParquetRows(source)
        case "jsonl":
            return JsonlRows(source)
        case "csv":
            return DelimitedRows(source)


def _check_options(duplicates: str | None, bounds: Bounds) -> None:
    if duplicates is not None and duplicates not in _DUPLICATES:
        raise InputError("unknown --duplicates", duplicates, " or ".join(_DUPLICATES))
    if bounds is not None and not (all(map(math.isfinite, bounds)) and bounds[0] < bounds[1]):
        raise InputError("unusable --bounds", bounds, "two finite numbers, the lower first")


def _stem(path: str | Path) -> str:
    return _parts(path)[-1]


def _parts(path: str | Path) -> tuple[str, ...]:
    """The folders and the name; of a file without its ending (a folder may have a dot in its name)."""
    if str(path) == "-":
        return ("stdin",)
    whole = Path(path).absolute()
    if whole.name == "..":
        whole = whole.resolve()
    return (*whole.parts[1:-1], whole.name if is_run_directory(whole) else whole.stem)


def _file_names(paths: Sequence[str | Path]) -> list[str]:
    """Stems, with as many parent folders in front as tell them apart."""
    whole = [_parts(path) for path in paths]
    for depth in range(1, max(map(len, whole), default=0) + 1):
        names = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(names)) == len(names):
            return names
    if not paths:
        return []
    repeated = next(p for i, p in enumerate(paths) if whole[i] in whole[:i])
    raise InputError("two files with one name", str(repeated), "each file once, names that differ before the dot")


def _renamed(series: Series, name: str) -> Series:
    return Series(
        series.compute, series.value, series.n, series.start,
        name, series.compute_name, series.value_name, series.source,
    )  # fmt: skip
