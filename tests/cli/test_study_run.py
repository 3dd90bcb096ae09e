"""`scalerl study run`, `status` and `add-seed`: with a trainer of milliseconds, and our own killed twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.study.stand_in import TRAINER

from scalerl.cli import main, study_run
from scalerl.cli.output import Outcome
from scalerl.cli.study_view import StudyView
from scalerl.curves.results import Estimate
from scalerl.runs.lock import holder
from scalerl.study.folder import StudyFolder

from .conftest import Run
from .tiny import TINY

WAIT_S = 300.0

STUDY = """
name = "stand_in"
seeds = [0]
base.set = {{ ceiling = 0.8, mode = "{mode}" }}
cells = [{{ name = "low", set = {{ ceiling = 0.4 }} }}, {{ name = "bad", set = {{ mode = "{other}" }} }}]
runner = {{ kind = "command", command = "{python} -S trainer.py {{ceiling}} '{{mode}}' {{seed}} {{budget}} {{out}}", \
log = "{{out}}/log.csv", budget = 20 }}
"""


@pytest.fixture
def study(run: Run) -> str:
    """A study in the folder of the test, whose cell `bad` ends with an error."""
    del run  # it has changed the folder
    _write("works", "fails")
    return "study.toml"


def _write(mode: str, other: str) -> None:
    Path("trainer.py").write_text(TRAINER)
    Path("study.toml").write_text(STUDY.format(mode=mode, other=other, python=sys.executable))


def test_the_same_command_goes_on_in_a_folder_called_like_the_study(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Path] = []

    def noted(folder: StudyFolder, *_: object) -> Outcome:
        ran.append(folder.path)
        return Outcome("")

    monkeypatch.setattr(study_run, "_run", noted)
    for words in (["--out", "batch"], ["--out", "batch"], []):
        done = run("study", "run", "batch", *words)
        assert done.code == 0, done.err
    assert ran == [Path("batch")] * 3


def test_a_study_from_beginning_to_end(run: Run, study: str) -> None:
    ran = run("study", "run", study, "--out", "out", "--workers", "3")
    assert ran.code == 3
    text = " ".join(ran.out.split())
    for words in ("stand_in: 3 of 3 jobs ended, 1 failed", "low 1 100 %", "finished",
                  "failed: exit code 3: RuntimeError: the loss is not finite", "Report: scalerl study report out",
                  "scalerl study run out --retry-failed"):  # fmt: skip
        assert words in text
    assert "3 of 3 jobs ended" in ran.err
    assert "failed: exit code 3: RuntimeError" in ran.err
    results = json.loads(Path("out/results.json").read_text())
    assert results["study"] == "stand_in"
    shown = run("study", "status", "out")
    assert shown.code == 0
    assert "3 of 3 jobs ended, 1 failed" in shown.out
    ahead = run("study", "status", "out", "--forecast", "--json").document["forecasts"]
    assert set(ahead) == {"base", "low"}
    assert ahead["low"]["low"] < ahead["low"]["value"] < ahead["low"]["high"] < ahead["base"]["low"]
    assert str(Estimate(**ahead["low"])) in run("study", "status", "out", "--forecast").out


def test_going_on_with_a_folder(run: Run, study: str) -> None:
    assert run("study", "run", study, "--out", "out").code == 3
    Path("out/mended").touch()
    document = run("study", "run", "out", "--retry-failed", "--json").document
    assert document["folder"] == "out"
    assert document["counts"] == {"finished": 3}
    assert {job["share"] for job in document["jobs"]} == {1.0}
    assert run("study", "status", "out", "--json").document["counts"] == {"finished": 3}


def test_another_seed(run: Run, study: str) -> None:
    assert run("study", "run", study, "--out", "out").code == 3
    ran = run("study", "add-seed", "out")
    assert ran.out == "seeds added: 1: 6 jobs now. Run: scalerl study run out\n"
    assert run("study", "status", "out", "--json").document["counts"] == {"waiting": 3, "finished": 2, "failed": 1}
    assert run("study", "add-seed", "out", "--seeds", "1").err == (
        "scalerl: error: out: --seeds: got '1'; allowed: others than 0, 1, which it has\n"
    )
    document = run("study", "run", "out", "--seeds", "7", "--json")
    assert "scalerl: note: seeds added: 7" in document.err
    assert json.loads(document.out)["counts"] == {"finished": 6, "failed": 3}


def test_a_race(run: Run, study: str) -> None:
    ran = run("study", "run", study, "--out", "out", "--prune", "--workers", 3)
    assert ran.code == 3
    assert "low stopped at" in ran.err
    assert "pruned" in ran.out
    assert "stop" in Path("out/decisions.jsonl").read_text()


def test_bad_input(run: Run, study: str) -> None:
    cases = {
        ("run", study, "--workers", "0"): "--workers: got 0; allowed: at least 1",
        ("run", "no_such_study"): "no_such_study",
        ("status", "nowhere"): "nowhere: not the folder of a study",
        ("add-seed", "nowhere"): "nowhere: not the folder of a study",
    }
    for arguments, words in cases.items():
        ran = run("study", *arguments)
        assert ran.code == 2, arguments
        assert words in ran.err
        assert ran.err.count("\n") == 1
    assert not Path("out").exists()
    assert run("study", "run", study, "--out", "out").code == 3
    assert "--budget: got '7'; allowed: nothing" in run("study", "run", "out", "--budget", "7").err
    _write("works", "mute")
    assert "belongs to another study" in run("study", "run", study, "--out", "out").err


def test_the_live_view_is_drawn_from_the_folder(run: Run, study: str) -> None:
    ran = run("study", "run", study, "--out", "out", "--live")
    assert "budget used" in ran.err
    assert "3 of 3 jobs ended" in ran.err


def test_a_view_that_fails_is_a_note(run: Run, study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.cli.study_view.headline", lambda _: 1 / 0)
    ran = run("study", "run", study, "--out", "out")
    assert ran.code == 3
    assert "scalerl: note: the view failed (ZeroDivisionError" in ran.err


def test_the_first_interrupt_saves_and_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _write("slow", "works")
    pressed: list[float] = []

    def tick(view: StudyView) -> None:
        if not pressed and list(Path("out").glob("jobs/*/run/log.csv")):
            pressed.append(0.0)
            signal.raise_signal(signal.SIGINT)
        view.show()

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(StudyView, "tick", tick)
        ran = run("study", "run", "study.toml", "--out", "out")
    assert ran.code == 130
    assert "stopping: the trainers save and end (Ctrl-C again ends them at once)" in ran.err
    assert "interrupted" in ran.out
    assert "Go on: scalerl study run out" in ran.out
    assert signal.getsignal(signal.SIGINT) is before
    assert run("study", "run", "out", "--workers", 3).code == 0


OWN = """
name = "own"
seeds = [0]
base.recipe = "scalerl"
base.scale = "laptop"
[base.set]
{values}
"scale.budget.amount" = 30.0
[[cells]]
name = "sample"
set = {{ "recipe.aggregation" = "sample" }}
[[cells]]
name = "prompt"
set = {{ "recipe.advantage.normalisation" = "prompt" }}
[[cells]]
name = "cap"
set = {{ "recipe.loss.cap" = 8.0 }}
"""


class _Done:
    """A trainer that has run in this process."""

    def __init__(self, code: int) -> None:
        self._code = code

    def poll(self) -> int:
        return self._code


def _train_here(command: list[str], *_: object) -> _Done:
    """The very command line of the runner, without the seconds that a new process takes to load torch."""
    return _Done(main(command[command.index("train") :]))


def _steps(folder: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in folder.glob("jobs/*/run/metrics.jsonl"))


def _killed_at(folder: Path, steps: int, *, trainers_too: bool) -> None:
    """Kill a study in the middle; its trainers notice, or are killed with it."""
    command = [sys.executable, "-m", "scalerl", "study", "run", "own.toml", "--out", str(folder), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + WAIT_S
    while _steps(folder) < steps:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    for lock in folder.glob("jobs/*/lock") if trainers_too else ():
        held = holder(lock)
        if held is not None and held.pid is not None:
            os.killpg(held.pid, signal.SIGKILL)


def test_killed_twice_our_own_trainer_ends_with_the_same_results(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path / "cache"))
    pairs = dict(text.partition("=")[::2] for text in (*TINY, "scale.evaluation.every=10", "scale.checkpoint_every=4"))
    values = "\n".join(f'"{key}" = {value}' for key, value in pairs.items())
    Path("own.toml").write_text(OWN.format(values=values))
    _killed_at(Path("killed"), 5, trainers_too=False)
    _killed_at(Path("killed"), 75, trainers_too=True)
    assert run("study", "status", "killed", "--json").document["counts"] != {"finished": 4}
    monkeypatch.setattr("scalerl.study.own_runner.start_child", _train_here)
    assert run("study", "run", "killed").code == 0
    assert run("study", "run", "own.toml", "--out", "whole").code == 0
    assert Path("killed/results.json").read_bytes() == Path("whole/results.json").read_bytes()
    assert len(json.loads(Path("whole/results.json").read_text())["cells"]) == 4
