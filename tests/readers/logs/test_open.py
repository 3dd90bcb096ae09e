"""Every format is recognised by what is in it, whatever it is called; what is ambiguous is listed."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.readers import read_table
from scalerl.readers.curves import list_metrics, read_curves
from scalerl.readers.logs.open import find_logs

STEPS = range(10, 90, 10)


def trainer_state(path: Path) -> None:
    history = [{"step": step, "epoch": step / 100, "eval_reward": step / 100} for step in STEPS]
    path.write_text(json.dumps({"best_metric": None, "global_step": 80, "log_history": history}, indent=2))


def verl_lines(path: Path) -> None:
    lines = [{"step": s, "data": {"val-core/gsm8k/acc/mean@1": s / 100, "actor/lr": 1e-6}} for s in STEPS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def verl_console(path: Path) -> None:
    lines = [f"(TaskRunner pid=1) step:{s} - val-core/gsm8k/acc/mean@1:{s / 100} - actor/lr:1e-06" for s in STEPS]
    path.write_text("starting\n" + "\n".join(lines) + "\n")


def history_lines(path: Path) -> None:
    lines = [{"_step": s, "_timestamp": 1e9 + s, "_runtime": s, "eval/acc": s / 100} for s in STEPS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def web_export(path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Step", "one - eval/acc", "one - eval/acc__MIN", "one - eval/acc__MAX", "two - eval/acc"])
        writer.writerows([s, s / 100, s / 100, s / 100, s / 200] for s in STEPS)


def sparse_csv(path: Path) -> None:
    rows = [f"{s},{1 / s},{'' if s % 20 else s / 100},3,4" for s in STEPS]
    path.write_text("step,loss,eval_accuracy,lr,norm\n" + "\n".join(rows) + "\n")


def generic_lines(path: Path) -> None:
    lines = [{"step": s, "loss": 1 / s, "lr": 1e-3} | ({"eval/acc": s / 100} if s % 20 == 0 else {}) for s in STEPS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def event_file(path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(path.parent / "events")) as writer:
        for step in STEPS:
            writer.add_scalar("eval/accuracy", step / 100, step)
    next((path.parent / "events").iterdir()).rename(path)
    (path.parent / "events").rmdir()


FORMATS: dict[str, tuple[Callable[[Path], None], str]] = {
    "trainer_state": (trainer_state, "Hugging Face"),
    "verl": (verl_lines, "verl"),
    "console": (verl_console, "console"),
    "history": (history_lines, "W&B history"),
    "sparse": (sparse_csv, "CSV"),
    "generic": (generic_lines, "JSON"),
    "events": (event_file, "TensorBoard"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_recognised_by_content_and_read(tmp_path: Path, name: str) -> None:
    write, kind = FORMATS[name]
    path = tmp_path / "some.thing"
    write(path)
    logs = find_logs(path)
    assert logs is not None
    (log,) = logs
    assert kind in log.kind
    (series,) = read_table(path)
    assert series.value[-1] == pytest.approx(0.8)
    assert series.compute[-1] == pytest.approx(80.0)
    assert any(log.kind in note for note in series.notes)
    (listing,) = list_metrics(path)
    assert listing.survey.metrics[series.value_name].high == pytest.approx(0.8)


def test_an_export_of_two_runs_is_two_curves(tmp_path: Path) -> None:
    web_export(tmp_path / "chart.csv")
    curves = read_curves([tmp_path / "chart.csv"])
    assert list(curves) == ["one", "two"]
    assert curves["two"][0].value[-1] == pytest.approx(0.4)


@pytest.mark.parametrize(
    "text",
    [
        "compute,pass_rate\n1,0.1\n2,0.2\n",
        '{"step": 1, "pass_rate": 0.1}\n{"step": 2, "pass_rate": 0.2}\n',
        "1,2\n3,4\n",
    ],
)
def test_a_plain_table_is_no_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "table").write_text(text)
    assert find_logs(tmp_path / "table") is None


def test_a_plain_table_can_have_gpu_hours_too(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("step,pass_rate\n" + "".join(f"{s},{s / 100}\n" for s in STEPS))
    (series,) = read_table(tmp_path / "table.csv", gpu_hours_per_step=2.0)
    assert series.compute.tolist() == [2.0 * step for step in STEPS]
    assert series.compute_name == "gpu_hours"


def test_a_folder_is_the_log_in_it(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-80").mkdir(parents=True)
    trainer_state(tmp_path / "out" / "checkpoint-80" / "trainer_state.json")
    (series,) = read_table(tmp_path / "out")
    assert series.name == "out"
    assert len(series) == 8
    (tmp_path / "verl").mkdir()
    verl_lines(tmp_path / "verl" / "experiment.jsonl")
    assert len(read_table(tmp_path / "verl")[0]) == 8


def test_two_logs_in_a_folder_are_listed(tmp_path: Path) -> None:
    trainer_state(tmp_path / "trainer_state.json")
    (tmp_path / "runs").mkdir()
    event_file(tmp_path / "runs" / "events.out.tfevents.1.host")
    with pytest.raises(
        InputError, match=r"2 logs in this folder; allowed: one of .*trainer_state.json.*runs"
    ) as caught:
        read_table(tmp_path)
    assert "\n" not in str(caught.value)


def test_folders_of_runs_one_level_down_are_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trainer_state(tmp_path / name / "trainer_state.json")
    with pytest.raises(InputError, match=r"2 runs in this folder; allowed: one of .*a, .*b"):
        read_table(tmp_path)


def test_event_files_without_a_scalar_do_not_count(tmp_path: Path) -> None:
    """The Hugging Face Trainer puts its hyperparameters into a folder of their own."""
    from torch.utils.tensorboard import SummaryWriter

    (tmp_path / "a").mkdir()
    event_file(tmp_path / "a" / "events.out.tfevents.1.host")
    with SummaryWriter(str(tmp_path / "a" / "hparams")) as writer:
        writer.add_text("args", "lr=1")
    assert len(read_table(tmp_path / "a")[0]) == 8


def test_runs_of_a_database(tmp_path: Path) -> None:
    """The tables of MLflow's own schema that are read; written by MLflow itself in test_mlflow_database."""
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER, name TEXT);"
            "CREATE TABLE runs (run_uuid TEXT, name TEXT, experiment_id INT, start_time INT, lifecycle_stage TEXT);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan BOOL);"
            "INSERT INTO experiments VALUES (0, 'Default');"
        )
        for run in ("one", "two"):
            database.execute("INSERT INTO runs VALUES (?, ?, 0, 0, 'active')", (run * 2, run))
            rows = [("eval/acc", step / 100, step, run * 2, step, 0) for step in STEPS]
            database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    assert list(read_curves([tmp_path / "mlflow.db"])) == ["one", "two"]
    (series,) = read_table(f"{tmp_path / 'mlflow.db'}#two")
    assert len(series) == 8
    with pytest.raises(InputError, match=r"no such run in this file: got 'three'; allowed: one of .*one"):
        read_table(f"{tmp_path / 'mlflow.db'}#three")


def test_what_a_log_cannot_have_is_refused(tmp_path: Path) -> None:
    verl_lines(tmp_path / "verl.jsonl")
    with pytest.raises(InputError, match=r"--by: got 'run'; allowed: nothing: a log is one curve"):
        read_table(tmp_path / "verl.jsonl", by="run")
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "missing.wandb")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="the file is empty"):
        list_metrics(tmp_path / "empty.jsonl")
