"""MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/NAME`, one text file for each metric.

Called by `open`. The files are read by hand: a line is `milliseconds value step`, which needs no package, while MLflow
itself is large and no longer opens a file store without being told to. The files are merged by time, so that records
come in the order in which they were logged. MLflow's database has its own file, `mlflow_database`.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from scalerl.errors import InputError
from scalerl.plain_file import check_readable
from scalerl.readers.cells import parses
from scalerl.readers.logs.records import Record, Tally

_META, _METRICS, _RUN_NAME = "meta.yaml", "metrics", "tags/mlflow.runName"
_RUN_ID = re.compile(r"^run_(?:id|uuid):\s*['\"]?(\w+)", re.MULTILINE)
_NAME = re.compile(r"^run_name:[ \t]*(.*)$", re.MULTILINE)
_DELETED = re.compile(r"^lifecycle_stage:\s*['\"]?deleted", re.MULTILINE)
_BLOCK_BYTES = 1 << 16
_MOST = 1 << 63
"""Times and steps are integers of MLflow's database elsewhere: beyond this they are damaged."""


@dataclass(frozen=True)
class MlflowRun:
    """A run folder."""

    path: Path
    name: str
    """What the user called it, or else its id."""


class Point(NamedTuple):
    """One line of a metric's file."""

    time_ms: int
    step: int
    name: str
    value: float


def is_mlflow_run(folder: Path) -> bool:
    meta = _meta(folder)
    return meta is not None and _RUN_ID.search(meta) is not None


def find_mlflow_runs(folder: Path) -> list[MlflowRun]:
    """The runs at or below a folder: a run, an experiment, or the whole `mlruns`. Deleted ones are left out."""
    found = [meta.parent for pattern in ("", "*/", "*/*/") for meta in sorted(folder.glob(pattern + _META))]
    return [run for path in found if (run := _run(path)) is not None]


class MlflowLog:
    """`Log` of one run folder."""

    kind = "an MLflow run (file store)"

    def __init__(self, folder: str | Path, label: str) -> None:
        self._folder = Path(folder)
        self.label = label
        run = _run(self._folder, deleted_too=True)
        if run is None:
            raise InputError("not a run of MLflow", allowed=f"a folder with {_META} and {_METRICS}/", where=label)
        self.name: str | None = run.name

    def records(self, tally: Tally) -> Iterator[Record]:
        """Metrics logged together have one step and one millisecond, and are one record."""
        root = self._folder / _METRICS
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        reading = _Reading(tally, sum(path.stat().st_size for path in files))
        streams = (reading.points(path, path.relative_to(root).as_posix()) for path in files)
        for (time_ms, step), points in groupby(heapq.merge(*streams), key=itemgetter(0, 1)):
            yield Record({point.name: point.value for point in points}, float(step), time_ms / 1000)


class _Reading:
    """One pass over many small files. None stays open: a run may have more metrics than a process may have files."""

    def __init__(self, tally: Tally, total: int) -> None:
        self._tally = tally
        self._total = total
        self._done = 0

    def points(self, path: Path, name: str) -> Iterator[Point]:
        for number, line in enumerate(self._lines(path), 1):
            point = _point(line, name)
            if point is not None:
                yield point
            elif line.strip():
                torn = not line.endswith(b"\n")
                self._tally.skip("torn last lines" if torn else "broken lines", f"{name}, line {number:,}")

    def _lines(self, path: Path) -> Iterator[bytes]:
        """Every line with its end; the last one may have none."""
        rest, position = b"", 0
        while block := self._block(path, position):
            position += len(block)
            lines = (rest + block).splitlines(keepends=True)
            rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
            yield from lines
        if rest:
            yield rest

    def _block(self, path: Path, position: int) -> bytes:
        try:
            with path.open("rb") as stream:
                stream.seek(position)
                block = stream.read(_BLOCK_BYTES)
        except OSError as error:
            self._tally.skip(f"unreadable files ({error.strerror})", path.name)
            return b""
        self._done += len(block)
        self._tally.read(self._done, max(self._done, self._total))
        return block


def _point(line: bytes, name: str) -> Point | None:
    """`milliseconds value [step]`; models logged to MLflow 3 add the name of a data set. A line without its end may
    have lost digits, so it does not count."""
    cells = line.decode(errors="replace").split()
    if not line.endswith(b"\n") or len(cells) < 2 or not parses(cells[1]):
        return None
    try:
        point = Point(int(cells[0]), int(cells[2]) if len(cells) > 2 else 0, name, float(cells[1]))
    except ValueError:
        return None
    return point if max(abs(point.time_ms), abs(point.step)) < _MOST else None


def _run(folder: Path, *, deleted_too: bool = False) -> MlflowRun | None:
    meta = _meta(folder)
    run_id = None if meta is None else _RUN_ID.search(meta)
    if meta is None or run_id is None or (_DELETED.search(meta) and not deleted_too):
        return None
    named = _NAME.search(meta)
    name = _text(folder / _RUN_NAME) or ("" if named is None else named[1].strip().strip("'\""))
    return MlflowRun(folder, name.strip() or run_id[1])


def _meta(folder: Path) -> str | None:
    return _text(folder / _META)


def _text(path: Path) -> str | None:
    try:
        check_readable(path)
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
