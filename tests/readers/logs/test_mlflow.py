"""MLflow's file store and its SQLite database, both written by the real MLflow."""

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.mlflow_database import MlflowDatabaseLog, database_runs, is_mlflow_database
from scalerl.readers.logs.mlflow_files import MlflowLog, find_mlflow_runs, is_mlflow_run
from scalerl.readers.logs.records import Log, Record, Tally

WRITER = """
import json, sys
import mlflow
ids = {}
for uri in sys.argv[1:]:
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("gsm8k")
    for name in ("grpo", "cispo", "deleted"):
        with mlflow.start_run(run_name=name) as run:
            for step in range(4):
                mlflow.log_metrics({"val-core/gsm8k/acc/mean_at_1": step / 10, "timing_s/step": 40.5}, step=step)
            mlflow.log_metric("odd", float("nan"), step=4)
            mlflow.log_metric("odd", float("-inf"), step=5)
        ids[name] = run.info.run_id
    mlflow.delete_run(ids["deleted"])
print(json.dumps(ids))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlflow")
    command = [sys.executable, "-c", WRITER, (folder / "mlruns").as_uri(), f"sqlite:///{folder / 'mlflow.db'}"]
    env = os.environ | {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(command, check=True, capture_output=True, env=env, cwd=folder)
    assert len(json.loads(done.stdout.splitlines()[-1])) == 3
    return folder


@pytest.fixture
def run(written: Path, tmp_path: Path) -> Path:
    """A copy of one run folder, to be damaged."""
    return Path(shutil.copytree(find_mlflow_runs(written / "mlruns")[0].path, tmp_path / "run"))


def read(log: Log) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(log.records(tally)), tally


def check(log: Log) -> None:
    records, tally = read(log)
    assert [record.step for record in records] == [0, 1, 2, 3, 4, 5]
    assert records[2].values == {"val-core/gsm8k/acc/mean_at_1": 0.2, "timing_s/step": 40.5}
    assert math.isnan(records[4].values["odd"])
    assert records[5].values == {"odd": -math.inf}
    times = [record.time_s or 0 for record in records]
    assert times == sorted(times)
    assert times[0] > 1.7e9
    assert tally.skipped == {}


def test_the_file_store(written: Path) -> None:
    runs = find_mlflow_runs(written / "mlruns")
    assert sorted(one.name for one in runs) == ["cispo", "grpo"]
    assert find_mlflow_runs(runs[0].path.parent) == runs
    assert find_mlflow_runs(runs[0].path) == runs[:1]
    assert is_mlflow_run(runs[0].path)
    assert not is_mlflow_run(runs[0].path.parent)
    log = MlflowLog(runs[0].path, "run")
    assert log.name == runs[0].name
    check(log)


def test_the_database(written: Path) -> None:
    path = written / "mlflow.db"
    assert is_mlflow_database(path)
    runs = database_runs(path, "mlflow.db")
    assert [(one.name, one.experiment) for one in runs] == [("grpo", "gsm8k"), ("cispo", "gsm8k")]
    check(MlflowDatabaseLog(path, runs[0], "mlflow.db"))


def test_a_run_that_is_being_written(run: Path) -> None:
    """The last line has no end yet: 0.3 may become 0.35."""
    path = run / "metrics" / "val-core" / "gsm8k" / "acc" / "mean_at_1"
    path.write_bytes(path.read_bytes()[:-3])
    records, tally = read(MlflowLog(run, "run"))
    assert records[3].values == {"timing_s/step": 40.5}
    assert tally.notes() == ["skipped 1 torn last line (first: val-core/gsm8k/acc/mean_at_1, line 4)"]


@pytest.mark.parametrize("garbage", [b"\xff\xfe\n", b"1700000000000\n", b"x 0.5 1\n", b"1 0.5 one\n", b"\0\0\0\n"])
def test_garbage_in_the_middle(run: Path, garbage: bytes) -> None:
    path = run / "metrics" / "timing_s" / "step"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], garbage, *lines[2:]]))
    records, tally = read(MlflowLog(run, "run"))
    assert [record.step for record in records] == [0, 1, 2, 3, 4, 5]
    assert tally.notes() == ["skipped 1 broken line (first: timing_s/step, line 3)"]


def test_lines_of_old_versions_have_no_step(run: Path) -> None:
    shutil.rmtree(run / "metrics")
    (run / "metrics").mkdir()
    (run / "metrics" / "acc").write_text("1700000000000 0.5\n")
    (record,), _ = read(MlflowLog(run, "run"))
    assert record == Record({"acc": 0.5}, 0.0, 1.7e9)


def test_a_metric_longer_than_a_block(run: Path) -> None:
    text = "".join(f"{1700000000000 + i} {i / 10000} {i}\n" for i in range(10_000))
    (run / "metrics" / "long").write_text(text)
    told: list[tuple[int, int]] = []
    records = list(MlflowLog(run, "run").records(Tally(lambda done, total: told.append((done, total)))))
    assert [record.values["long"] for record in records if "long" in record.values] == [
        i / 10000 for i in range(10_000)
    ]
    assert told[-1][0] == told[-1][1] > len(text)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    assert find_mlflow_runs(tmp_path) == []
    with pytest.raises(InputError, match=r"^here: not a run of MLflow"):
        MlflowLog(tmp_path, "here")


def test_a_cut_database_is_counted_or_one_line(written: Path, tmp_path: Path) -> None:
    data = (written / "mlflow.db").read_bytes()
    run = database_runs(written / "mlflow.db", "")[0]
    path = tmp_path / "cut.db"
    for share in (0.0, 0.01, 0.3, 0.7, 0.99):
        path.write_bytes(data[: int(len(data) * share)])
        records, tally = read(MlflowDatabaseLog(path, run, "cut"))
        assert len(records) <= 6
        assert (len(records) == 6) or tally.skipped
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="the database cannot be read"):
        database_runs(path, "cut")


def test_other_databases_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (id INTEGER)")
    database.close()
    assert not is_mlflow_database(path)
    path.write_bytes(b"no database")
    assert not is_mlflow_database(path)
