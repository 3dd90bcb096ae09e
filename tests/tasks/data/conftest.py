"""Samples of every layout, and writers of every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Rows = Sequence[dict[str, Any]]
SAMPLES = Path(__file__).parents[2] / "data"


def sample(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines()]


def write_jsonl(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=7)
    return path


def write_arrow_file(path: Path, rows: Rows) -> Path:
    table = pa.Table.from_pylist(list(rows))
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return path


def write_arrow_stream(path: Path, rows: Rows) -> Path:
    table = pa.Table.from_pylist(list(rows))
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return path


def write_saved_dataset(path: Path, rows: Rows) -> Path:
    """As `datasets.save_to_disk` leaves it, in two shards."""
    path.mkdir()
    half = len(rows) // 2
    names = [f"data-{i:05}-of-00002.arrow" for i in range(2)]
    for name, part in zip(names, (rows[:half], rows[half:]), strict=True):
        write_arrow_stream(path / name, part)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (path / "dataset_info.json").write_text("{}")
    return path


def write_shards(path: Path, rows: Rows) -> Path:
    path.mkdir()
    for i in range(2):
        write_parquet(path / f"train-{i:05}-of-00002.parquet", rows[i * len(rows) // 2 : (i + 1) * len(rows) // 2])
    return path


FORMATS: dict[str, Callable[[Path, Rows], Path]] = {
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "arrow": write_arrow_file,
    "stream.arrow": write_arrow_stream,
    "saved": write_saved_dataset,
    "shards": write_shards,
}


@pytest.fixture(params=FORMATS)
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Rows], str]:
    """Writes rows in one of the formats and says where."""
    name: str = request.param
    return lambda rows: str(FORMATS[name](tmp_path / f"rows.{name}", rows))
