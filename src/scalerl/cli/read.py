"""`scalerl read`: what a log has in it, and its curve as a table that any other tool can read.

Called by the typer application. How a log is read is the readers' business.
"""

from __future__ import annotations

import csv
import io
import json as json_text
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.cli import checks, options, sources
from scalerl.cli.output import Outcome, one_or_many, text_of, to_json
from scalerl.cli.reading_bar import reading_bar

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalerl.readers.curves import Listing
    from scalerl.series import Series

FORMATS = ("csv", "jsonl", "parquet")
MOST_ROWS = 5
"""Shown from each end of a curve."""
Row = dict[str, Any]


def read(
    files: options.Files = None,
    x: options.X = None,
    y: options.Y = None,
    n: options.N = None,
    by: options.By = None,
    duplicates: options.Repeats = None,
    bounds: options.Bounds = "0,1",
    gpus: options.Gpus = None,
    params: options.Params = None,
    gpu_hours_per_step: options.GpuHoursPerStep = None,
    restarts: options.RestartsName = "replace",
    list_metrics: options.ListMetrics = False,
    to: options.CurveFile = None,
    json: options.Json = False,
) -> Outcome:
    """Read any trainer's log: list its metrics, or make a curve of it. The commands that fit take logs directly too."""
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, None, (x, y, n, by), duplicates, checks.bounds(bounds), log)
    target = None if to is None or to == "-" else checks.output_path("--to", to, FORMATS, reading.files)
    if list_metrics:
        return _listed(reading.files, json=json)
    curves = sources.read(reading)
    rows = [row for seeds in curves.seeds.values() for one in seeds for row in _rows(one, curves)]
    if to == "-":
        return Outcome(_csv(rows), tuple(curves.notes()))
    if target is not None:
        _write(target, rows)
    if json:
        return Outcome(to_json(one_or_many([_document(one, curves) for one in _each(curves)])))
    return Outcome(text_of(_text(curves, target)))


def _listed(files: Sequence[str], *, json: bool) -> Outcome:
    from scalerl.readers.curves import list_metrics

    with reading_bar() as progress:
        found = [listing for file in files for listing in list_metrics(file, progress=progress)]
    if json:
        return Outcome(to_json(one_or_many([_listing_document(listing) for listing in found])))
    from scalerl.report.listing import render_listing

    return Outcome(text_of([render_listing(listing) for listing in found]))


def _listing_document(listing: Listing) -> Row:
    metrics = [
        {
            "name": one.name, "count": one.count, "unusable": one.num_unusable, "low": one.low, "high": one.high,
            "first": one.first, "last": one.last, "first_step": one.first_step, "last_step": one.last_step,
        }
        for one in listing.survey.metrics.values()
    ]  # fmt: skip
    return {"name": listing.name, "kind": listing.kind, "metrics": metrics, "notes": listing.notes}


def _each(curves: sources.Curves) -> Iterator[Series]:
    return (one for seeds in curves.seeds.values() for one in seeds)


def _rows(series: Series, curves: sources.Curves) -> Iterator[Row]:
    """One for each point, the one at zero compute first. Several curves in one file get a column for their name."""
    name = {"curve": series.name} if sum(map(len, curves.seeds.values())) > 1 else {}
    value_name = series.value_name if series.value_name not in {series.compute_name, "n", "curve"} else "value"
    if series.start is not None:
        n = {} if series.n is None else {"n": series.start.n}
        yield name | {series.compute_name: 0.0, value_name: series.start.value} | n
    for i in range(len(series)):
        n = {} if series.n is None else {"n": float(series.n[i])}
        yield name | {series.compute_name: float(series.compute[i]), value_name: float(series.value[i])} | n


def _write(path: Path, rows: Sequence[Row]) -> None:
    from scalerl.report.output import write

    match path.suffix.lower():
        case ".csv":
            data = _csv(rows).encode()
        case ".jsonl":
            data = "".join(json_text.dumps(row) + "\n" for row in rows).encode()
        case _:
            data = _parquet(rows)
    write(path, data)


def _csv(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    data = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(list(rows)), data)
    return data.getvalue()


def _document(series: Series, curves: sources.Curves) -> Row:
    return series.to_dict() | curves.source([series])


def _text(curves: sources.Curves, target: Path | None) -> list[RenderableType]:
    from rich.text import Text

    from scalerl.report.listing import render_series

    parts: list[RenderableType] = [*sources.about(curves, ())]
    parts += [render_series(one, MOST_ROWS) for one in _each(curves)]
    if target is not None:
        parts.append(Text(f"Written: {target}"))
    return parts
