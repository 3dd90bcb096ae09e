"""MLflow's SQLite database (`mlflow.db`), where MLflow 3 keeps runs unless it is told otherwise.

Called by `open`. Opened read-only with Python's own sqlite3: a training run may be writing to it, and four columns of
one table need no package. Rows come in the order in which they were logged, one run at a time.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.logs.records import Record, Tally

MAGIC = b"SQLite format 3\0"
_TABLES = {"runs", "metrics", "experiments"}
_WAIT_S = 10.0
_LARGEST = 1.7976931348623157e308
"""What MLflow writes for infinity, which a database cannot hold."""

_RUNS = """
    SELECT runs.run_uuid, runs.name, experiments.name FROM runs LEFT JOIN experiments USING (experiment_id)
    WHERE runs.lifecycle_stage = 'active' ORDER BY runs.start_time
"""
_COUNT = "SELECT COUNT(*) FROM metrics WHERE run_uuid = ?"
_POINTS = "SELECT timestamp, step, key, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY rowid"

_BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""Also what sqlite3 raises when the message of its own error quotes a name that is not UTF-8."""

Row = tuple[int, int, str, float, bool]


@dataclass(frozen=True)
class DatabaseRun:
    """A run in a database."""

    run_id: str
    name: str
    experiment: str


def is_mlflow_database(path: Path) -> bool:
    """By content: SQLite, and MLflow's tables."""
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                return False
        with closing(_connect(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (OSError, *_BROKEN):
        return False
    return names >= _TABLES


def database_runs(path: Path, label: str) -> list[DatabaseRun]:
    """The runs that are not deleted, oldest first."""
    try:
        with closing(_connect(path)) as database:
            rows = database.execute(_RUNS).fetchall()
    except _BROKEN as error:
        raise InputError(f"the database cannot be read ({error})", where=label) from None
    return [DatabaseRun(str(run_id), str(name or run_id), str(experiment or "")) for run_id, name, experiment in rows]


class MlflowDatabaseLog:
    """`Log` of one run in a database."""

    kind = "an MLflow run (SQLite)"

    def __init__(self, path: str | Path, run: DatabaseRun, label: str) -> None:
        self._path = Path(path)
        self._run_id = run.run_id
        self.label = label
        self.name: str | None = run.name

    def records(self, tally: Tally) -> Iterator[Record]:
        """Metrics logged together have one step and one millisecond, and are one record."""
        for (time_ms, step), rows in groupby(self._rows(tally), key=itemgetter(0, 1)):
            yield Record({name: _value(value, is_nan) for *_, name, value, is_nan in rows}, float(step), time_ms / 1000)

    def _rows(self, tally: Tally) -> Iterator[Row]:
        done = 0
        try:
            with closing(_connect(self._path)) as database:
                (total,) = database.execute(_COUNT, (self._run_id,)).fetchone()
                for row in database.execute(_POINTS, (self._run_id,)):
                    done += 1
                    if done % 1000 == 0 or done == total:
                        tally.read(done, total)
                    if _is_point(row):
                        yield row
                    else:
                        tally.skip("rows that are not numbers", f"row {done:,}")
        except _BROKEN as error:
            tally.skip(f"ends of a database that cannot be read ({error})", f"row {done + 1:,}")


def _is_point(row: tuple[Any, ...]) -> bool:
    """SQLite keeps whatever was written into a column."""
    time_ms, step, name, value, _ = row
    return (
        isinstance(time_ms, int) and isinstance(step, int) and isinstance(name, str) and isinstance(value, float | int)
    )


def _value(value: float, is_nan: bool) -> float:
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= _LARGEST else value


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)
