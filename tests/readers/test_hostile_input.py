"""Inputs that once ended a reader with something else than one line; each was found by fuzzing (tests/fuzz)."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.errors import InputError
from scalerl.readers import read_table
from scalerl.readers.cells import shorten
from scalerl.readers.curves import list_metrics
from scalerl.readers.logs.console import ConsoleLog
from scalerl.readers.logs.hugging_face import find_trainer_states
from scalerl.readers.logs.mlflow_database import MlflowDatabaseLog, database_runs, is_mlflow_database
from scalerl.readers.logs.mlflow_files import MlflowLog
from scalerl.readers.logs.records import Log, Tally
from scalerl.readers.logs.wandb_values import to_records
from scalerl.readers.run_directory import is_run_directory

HUGE, DIGITS = "1" * 400, "1" * 5000
"""An integer beyond floats, and one that Python does not even convert."""


def deep(levels: int) -> Any:
    found: Any = 1.0
    for _ in range(levels):
        found = {"a": found}
    return found


def records(log: Log) -> tuple[list[dict[str, float]], dict[str, int]]:
    tally = Tally()
    return [dict(record.values) for record in log.records(tally)], tally.skipped


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", "\u00a0\n"), ("a.csv", ",\n\n,\n"), ("a.csv", "\x1c\n")])
def test_nothing_but_blanks_of_some_kind(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError):
        read_table(written(tmp_path / name, text))


def test_half_a_character_in_a_name_is_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"step": 1, "pass_rate\\ud800": 0.5}\n{"step": 2, "pass_rate\\ud800": 0.6}\n')
    (series,) = read_table(path)
    assert series.value_name == "pass_rate\ufffd"
    series.value_name.encode()


@pytest.mark.parametrize("number", ["1e308", "-1e308"])
def test_compute_that_adds_up_to_more_than_a_float(tmp_path: Path, number: str) -> None:
    lines = [f'{{"step": {step}, "data": {{"val/acc": 0.5, "perf/total_num_tokens": {number}}}}}' for step in range(5)]
    with pytest.raises(InputError, match=r"finite|zero or more"):
        read_table(written(tmp_path / "a.jsonl", "\n".join(lines) + "\n"))


def test_a_mean_of_more_than_a_float(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "flops,acc,n\n1,0.5,1e308\n1,0.5,1e308\n")
    with pytest.raises(InputError, match="too large for a mean"):
        read_table(path, duplicates="mean")


def test_cells_that_cannot_be_shown() -> None:
    assert shorten(int("f" * 5000, 16)) == "a huge int"
    assert len(shorten(deep(100_000))) <= 40


def test_huge_numbers_in_a_run_directory(tmp_path: Path) -> None:
    used = {"device_s": 1.0, "flops": 1.0, "tokens": 1}
    record = {"step": 1, "pass_rate": 0.5, "ledger": {"generation": used, "training": used}}
    written(tmp_path / "config.json", '{"identity": "", "config": {}}')
    written(tmp_path / "evals.jsonl", json.dumps(record).replace('"flops": 1.0', f'"flops": {HUGE}') + "\n")
    with pytest.raises(InputError, match="inf"):
        read_table(tmp_path)
    written(tmp_path / "evals.jsonl", json.dumps(record | {"other": int(HUGE)}) + "\n")
    assert "other" in list_metrics(tmp_path)[0].survey.metrics


def test_a_config_that_is_nested_absurdly_deep_is_no_run(tmp_path: Path) -> None:
    written(tmp_path / "config.json", "[" * 100_000)
    assert not is_run_directory(tmp_path)


def test_digits_without_end_in_a_trainer_state(tmp_path: Path) -> None:
    text = f'{{"global_step": {DIGITS}, "log_history": []}}'
    path = written(tmp_path / "trainer_state.json", text)
    assert find_trainer_states(tmp_path) == [path]


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    path = written(folder / "checkpoint-8" / "trainer_state.json", '{"log_history": []}')
    assert find_trainer_states(folder) == [path]


def test_digits_without_end_in_a_progress_bar(tmp_path: Path) -> None:
    bar, wipe = f" 1%|#  | {DIGITS}/8 [00:00<?]\r", " " * 20 + "\r"
    text = f"{wipe}{{'loss': 0.1, 'epoch': 0.1}}\r{bar}{wipe}{{'loss': 0.2, 'epoch': 0.2}}\r{bar}\n"
    found, _ = records(ConsoleLog(written(tmp_path / "log", text), "log"))
    assert [one["loss"] for one in found] == [0.1, 0.2]


def test_times_and_steps_beyond_floats_in_mlflow_files(tmp_path: Path) -> None:
    written(tmp_path / "meta.yaml", "run_id: abc\n")
    written(tmp_path / "metrics" / "acc", f"1000 0.5 1\n{HUGE} 0.6 2\n2000 0.7 {HUGE}\n")
    found, skipped = records(MlflowLog(tmp_path, "run"))
    assert found == [{"acc": 0.5}]
    assert skipped == {"broken lines": 2}


def test_odd_types_in_an_mlflow_database(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE experiments (experiment_id, name); CREATE TABLE runs (run_uuid, name, experiment_id, "
            "lifecycle_stage, start_time); CREATE TABLE metrics (run_uuid, timestamp, step, key, value, is_nan);"
            "INSERT INTO runs VALUES ('u', 7, 1, 'active', 1); INSERT INTO metrics VALUES ('u', 1, 1, x'00ff', 0.5, 0);"
            "INSERT INTO metrics VALUES ('u', 1, 2, 'acc', 0.5, 0);"
        )
    database.close()
    (run,) = database_runs(path, "label")
    assert run.name == "7"
    assert records(MlflowDatabaseLog(path, run, "label")) == ([{"acc": 0.5}], {"rows that are not numbers": 1})


def test_a_database_whose_schema_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE experiments (experiment_id, name)")
    database.close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE experiments", b"CREATE TABLE \xff\xfe\xfdriments \xff"))
    assert not is_mlflow_database(path)


def test_rows_of_wandb_that_are_nested_absurdly_deep() -> None:
    (record,) = to_records([{"_step": 1, "deep": deep(100_000), "acc": 0.5}])
    assert record.values == {"acc": 0.5}


NOT_UTF8 = pa.StringArray.from_buffers(2, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"\xff\xfe"))


@pytest.mark.parametrize(
    "names", [("step", "acc", "acc", "loss"), ("step", "step", "acc", "loss")], ids=["a value", "the step"]
)
def test_a_parquet_log_with_a_column_twice(tmp_path: Path, names: tuple[str, ...]) -> None:
    columns = [pa.array(cells) for cells in ([1, 2, 3], [0.1, 0.2, 0.3], [0.1, None, 0.3], [1.0, 2.0, 3.0])]
    pq.write_table(pa.Table.from_arrays(columns, names=list(names)), tmp_path / "a.parquet")
    with pytest.raises(InputError):
        read_table(tmp_path / "a.parquet", y=names[2])


def test_parquet_with_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"step": [1, 2], "acc": [0.1, 0.2], "time": NOT_UTF8}), path)
    (series,) = read_table(path, x="step", y="acc")  # the bad column is not needed
    assert list(series.value) == [0.1, 0.2]
    with pytest.raises(InputError, match="broken Parquet"):
        read_table(path, x="step", y="acc", by="time")
    with pytest.raises(InputError, match="broken Parquet"):
        list_metrics(path)


def test_a_shape_that_asks_for_all_memory(tmp_path: Path) -> None:
    """A few bytes of an event can name a tensor of any size with one number in it."""
    event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    types_pb2 = pytest.importorskip("tensorboard.compat.proto.types_pb2")
    from scalerl.readers.logs.crc32c import crc32c, masked
    from scalerl.readers.logs.tensorboard import TensorBoardLog

    event = event_pb2.Event(wall_time=1.0, step=1)
    value = event.summary.value.add(tag="bomb")
    value.metadata.plugin_data.plugin_name = "scalars"
    value.tensor.dtype = types_pb2.DT_INT64
    value.tensor.int64_val.append(1)
    value.tensor.tensor_shape.dim.add(size=1 << 40)
    payload = event.SerializeToString()
    length = struct.pack("<Q", len(payload))
    sums = [struct.pack("<I", int(masked(crc32c([part]))[0])) for part in (length, payload)]
    path = written(tmp_path / "events.out.tfevents.1", length + sums[0] + payload + sums[1])
    assert records(TensorBoardLog([path], "log")) == ([], {})
