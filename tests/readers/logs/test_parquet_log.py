"""Sparse Parquet logs, written with pyarrow."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.parquet_log import ParquetLog, is_parquet_log
from scalerl.readers.logs.records import Tally

SPARSE: dict[str, list[object]] = {
    "step": [1, 2, 2],
    "loss": [0.5, 0.4, None],
    "lr": [1.0, 1.0, None],
    "val_acc": [None, None, 0.25],
    "text": ["a", "b", "c"],
}


def write(path: Path, columns: dict[str, list[object]]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_sparse_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", SPARSE)
    assert is_parquet_log(path)
    tally = Tally()
    records = list(ParquetLog(path, "log").records(tally))
    assert [(record.step, dict(record.values)) for record in records] == [
        (1, {"loss": 0.5, "lr": 1.0}), (2, {"loss": 0.4, "lr": 1.0}), (2, {"val_acc": 0.25}),
    ]  # fmt: skip
    assert tally.skipped == {}


def test_a_full_table_stays_with_the_strict_reader(tmp_path: Path) -> None:
    full: dict[str, list[object]] = {"step": [1, 2], "val_acc": [0.1, 0.2], "loss": [1.0, 1.0], "lr": [1.0, 1.0]}
    assert not is_parquet_log(write(tmp_path / "table.parquet", full))


def test_a_cut_file_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", SPARSE)
    path.write_bytes(path.read_bytes()[:-20])
    assert not is_parquet_log(path)
    with pytest.raises(InputError, match=r"^log: broken Parquet file \("):
        list(ParquetLog(path, "log").records(Tally()))
