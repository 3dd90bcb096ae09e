"""Memory follows the needed columns, not the file: fat text beside the numbers costs nothing."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.readers import read_table

ROWS = 800
TEXT = ('word, "quoted"\n' * 4000)[:50_000]


def write_csv(path: Path) -> None:
    quoted = '"' + TEXT.replace('"', '""') + '"'
    with path.open("w") as file:
        file.write("step,text,y\n")
        file.writelines(f"{i},{quoted},0.5\n" for i in range(1, ROWS + 1))


def write_jsonl(path: Path) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps({"step": i, "text": TEXT, "y": 0.5}) + "\n" for i in range(1, ROWS + 1))


def write_parquet(path: Path) -> None:
    schema = pa.schema([("step", pa.int64()), ("text", pa.string()), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(1, ROWS + 1, 100):
            steps = list(range(start, start + 100))
            writer.write_table(pa.table({"step": steps, "text": [TEXT] * 100, "y": [0.5] * 100}, schema=schema))


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet])
def test_fat_text_is_never_held(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "run"
    write(path)
    assert path.stat().st_size > 35e6
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        (series,) = read_table(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(series) == ROWS
    assert peak < 8e6
    assert pa.default_memory_pool().max_memory() - arrow_before < 100e6


def test_a_cell_of_many_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,text,y\n1," + '"' + "line\n" * 1_000_000 + '",0.5\n2,' + "x" * 3_000_000 + ",0.6\n")
    (series,) = read_table(path)
    assert series.value.tolist() == [0.5, 0.6]


def test_line_numbers_survive_a_cell_of_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,text,y\n1," + '"' + "line\n" * 1_000_000 + '",0.5\n2,x,oops\n')
    with pytest.raises(ValueError, match="line 1000003: not a number"):
        read_table(path)
