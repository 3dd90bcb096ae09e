"""The real Trainer of transformers: its trainer states, and what it prints with and without a progress bar."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalerl.readers.logs.console import ConsoleLog
from scalerl.readers.logs.hugging_face import TrainerStateLog, is_trainer_state, trainer_state_log
from scalerl.readers.logs.records import Tally


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two training runs; everything they printed is in console.log, or printed.log without the bar."""
    folder = tmp_path_factory.mktemp("hf")
    command = [sys.executable, str(Path(__file__).parent / "tiny_trainer.py"), str(folder)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with (folder / "console.log").open("wb") as stream:
        subprocess.run(command, check=True, stdout=stream, stderr=subprocess.STDOUT, env=env)
    return folder


def test_a_trainer_state(trained: Path) -> None:
    path = trained / "bar" / "checkpoint-6" / "trainer_state.json"
    assert is_trainer_state(path.read_bytes()[:4096])
    tally = Tally()
    records = list(TrainerStateLog(path, "state").records(tally))
    history = json.loads(path.read_text())["log_history"]
    assert [record.step for record in records] == [2, 3, 4, 6, 6]
    assert [record.values for record in records] == [
        {name: value for name, value in entry.items() if name != "step"} for entry in history
    ]
    assert "eval_loss" in records[1].values
    assert tally.skipped == {}


def test_the_newest_checkpoint_of_a_folder(trained: Path) -> None:
    log = trainer_state_log(trained / "bar", "out")
    assert log is not None
    assert log.kind == "a Hugging Face trainer state (checkpoint-6/trainer_state.json, the newest of 2)"
    assert [record.step for record in log.records(Tally())] == [2, 3, 4, 6, 6]
    assert trainer_state_log(trained, "out") is None


def test_the_progress_bar_tells_the_step(trained: Path) -> None:
    tally = Tally()
    records = list(ConsoleLog(trained / "console.log", "console").records(tally))
    assert [record.step for record in records] == [2, 3, 4, 6, 6, 6]
    assert [record.values["epoch"] for record in records] == [0.6667, 1, 1.333, 2, 2, 2]
    assert ["eval_loss" in record.values for record in records] == [False, True, False, False, True, False]
    assert tally.skipped == {}


def test_without_a_bar_there_are_no_steps(trained: Path) -> None:
    tally = Tally()
    records = list(ConsoleLog(trained / "printed.log", "console").records(tally))
    assert [record.step for record in records] == [None] * 6
    assert [record.values["epoch"] for record in records] == [0.6667, 1, 1.333, 2, 2, 2]
    assert tally.skipped == {}
