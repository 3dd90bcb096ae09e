"""Running a study: every job once, failures kept, stopped and killed at any moment, and the race."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.study import race
from scalerl.study.execute import Asked, execute
from scalerl.study.folder import StudyFolder
from scalerl.study.process import start_child
from scalerl.study.race import Decision
from scalerl.study.reached import read_reached
from scalerl.study.results import write_results
from scalerl.study.rungs import every_job
from scalerl.study.runner import open_runner

from .stand_in import Silent, opened, starts, study

WAIT_S = 60.0


def _run(folder: StudyFolder, watch: Silent | None = None, **asked: Any) -> bool:
    with folder.hold():
        return execute(folder, open_runner(folder.config), Asked(**{"num_workers": 4, **asked}), watch or Silent())


def _states(folder: StudyFolder) -> dict[str, str | None]:
    outcomes = {f"{job.cell} {job.seed}": folder.outcome(job) for job in every_job(folder)}
    return {name: None if outcome is None else outcome.state for name, outcome in outcomes.items()}


def test_every_job_runs_once(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}})
    assert _run(folder)
    assert set(_states(folder).values()) == {"finished"}
    assert set(map(tuple, starts(folder).values())) == {("40",)}
    for job in folder.plan.jobs:
        (series,) = open_runner(folder.config).curve(job, folder.job_path(job))
        assert len(series) == 40
        assert read_reached(folder.job_path(job)).value == series.value[-1]
    assert _run(folder)
    assert set(map(tuple, starts(folder).values())) == {("40",)}


def test_a_study_that_died_before_it_said_that_a_job_has_ended(tmp_path: Path) -> None:
    """The job is trained, and only that is not written down: it ends, and is not trained again."""
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}}, seeds=[0])
    assert _run(folder)
    job = folder.plan.jobs[0]
    folder.clear_outcome(job)
    assert _run(folder)
    assert set(_states(folder).values()) == {"finished"}
    assert starts(folder)[job.name] == ["40"]


def test_added_seeds_and_cells_run_alone(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}}, seeds=[0])
    assert _run(folder)
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}, "mid": {"ceiling": 0.6}}, seeds=[0, 5])
    assert _run(folder)
    assert list(_states(folder)) == ["base 0", "low 0", "mid 0", "base 5", "low 5", "mid 5"]
    assert set(_states(folder).values()) == {"finished"}
    assert set(map(tuple, starts(folder).values())) == {("40",)}


FAILURES = {
    "fails": "exit code 3: RuntimeError: the loss is not finite",
    "mute": "exit code 4, without a word",
    "killed": "ended by signal 9, without a word",
}


def test_failures_are_kept_and_do_not_stop_the_others(tmp_path: Path) -> None:
    modes = [*FAILURES, "leaves nothing"]
    folder, watch = opened(tmp_path, {mode: {"mode": mode} for mode in modes}, seeds=[0]), Silent()
    assert _run(folder, watch)
    outcomes = {job.cell: folder.outcome(job) for job in folder.plan.jobs}
    errors = {cell: outcome.error for cell, outcome in outcomes.items() if outcome is not None and outcome.error}
    missing = errors.pop("leaves nothing")
    assert errors == FAILURES
    assert missing.startswith("ended well, but its curve cannot be read: ")
    assert missing.endswith("run/log.csv: the command left no log (runner.log)")
    assert _states(folder)["base 0"] == "finished"
    assert sorted(line.partition("-seed0")[0] for line in watch.lines) == sorted([*FAILURES, "leaves_nothing"])
    assert all("\n" not in line and " failed: " in line for line in watch.lines)


def test_failed_jobs_are_tried_again_when_asked(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"bad": {"mode": "fails"}}, seeds=[0])
    assert _run(folder)
    (folder.path / "mended").touch()
    assert _run(folder)
    assert _states(folder) == {"base 0": "finished", "bad 0": "failed"}
    assert _run(folder, retry_failed=True)
    assert _states(folder) == {"base 0": "finished", "bad 0": "finished"}


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"word": "b"}}, seeds=[0], base={"set": {"word": "a"}},
                    runner={"kind": "command", "command": "no-such-trainer {word} {out}"})  # fmt: skip
    assert _run(folder)
    outcome = folder.outcome(folder.plan.jobs[0])
    assert outcome is not None
    assert outcome.error == "exit code 127: no-such-trainer: cannot be started (No such file or directory)"


class _Impatient(Silent):
    """Presses Ctrl-C once two jobs have begun and one has trained a little."""

    def __init__(self, folder: StudyFolder, presses: int) -> None:
        super().__init__()
        self._folder, self._presses = folder, presses

    def tick(self) -> None:
        logs = self._folder.path.glob("jobs/*/run/log.csv")
        if len(starts(self._folder)) == 2 and any(len(log.read_text().splitlines()) > 3 for log in logs):
            self.stops = self._presses


@pytest.mark.parametrize("presses", [1, 2])
def test_stopped_by_the_user(tmp_path: Path, presses: int) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}}, base={"set": {"ceiling": 0.8, "mode": "slow"}})
    assert not _run(folder, _Impatient(folder, presses), num_workers=2)
    assert set(_states(folder).values()) == {None}
    assert len(starts(folder)) == 2
    assert _run(folder)
    assert set(_states(folder).values()) == {"finished"}
    assert sorted(len(found) for found in starts(folder).values()) == [1, 1, 2, 2]


def test_one_process_runs_a_study(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}})
    with folder.hold(), pytest.raises(InputError, match="in use"):
        _run(folder)


RACE = {"low": {"ceiling": 0.4}, "close": {"ceiling": 0.79}, "high": {"ceiling": 0.9}}


def test_the_race_stops_hopeless_cells(tmp_path: Path) -> None:
    folder, watch = opened(tmp_path, RACE), Silent()
    assert _run(folder, watch, prune=True)
    states = _states(folder)
    assert states["low 0"] == states["low 1"] == "pruned"
    assert states["base 0"] == states["high 1"] == "finished"
    stops = [line for line in folder.decisions() if line["action"] == "stop"]
    assert stops[0]["cell"] == "low"
    assert stops[0]["probability"] < 0.05
    low = next(job for job in folder.plan.jobs if job.cell == "low")
    outcome = folder.outcome(low)
    assert outcome is not None
    assert outcome.share == stops[0]["rung"]
    assert starts(folder)[low.name][-1] == str(round(40 * stops[0]["rung"]))
    assert any("low stopped at" in line for line in watch.lines)
    assert starts(folder)[folder.plan.jobs[0].name] == ["12", "20", "28", "40"]


def _stopping(*cells: str) -> Callable[..., list[Decision]]:
    """A judge that stops these at the first rung."""

    def judge(curves: dict[str, Any], base: str, *_: object, **__: object) -> list[Decision]:
        return [Decision(cell, "stop" if cell in cells else "keep", 0.01, "because") for cell in curves]

    return judge


def test_freed_compute_goes_to_the_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "judge", _stopping("low", "high"))
    monkeypatch.setattr(race, "undecided", lambda *_, **__: ["close"])
    folder = opened(tmp_path, RACE, prune={"rungs": [0.25]})
    watch = Silent()
    assert _run(folder, watch, prune=True)
    (line,) = [line for line in folder.decisions() if line["action"] == "seeds"]
    assert line["seeds"] == {"close": [2], "base": [2]}  # four times three quarters pay for one and its base
    assert line["freed"] == pytest.approx(4 * 0.75 * 40)
    assert _states(folder)["close 2"] == _states(folder)["base 2"] == "finished"
    assert any("close gets seed 2" in said for said in watch.lines)
    assert _run(folder, prune=True)
    assert len([line for line in folder.decisions() if line["action"] == "seeds"]) == 1


def test_decisions_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "judge", _stopping("low"))
    monkeypatch.setattr(race, "undecided", lambda *_, **__: [])
    folder = opened(tmp_path, RACE, seeds=[0], prune={"rungs": [0.25, 0.5]})
    assert _run(folder, prune=True)
    before = folder.decisions()
    monkeypatch.setattr(race, "judge", _stopping("low", "high"))
    assert _run(folder, prune=True)
    assert folder.decisions() == before
    folder = opened(tmp_path, RACE, seeds=[0, 1], prune={"rungs": [0.25, 0.5]})
    assert _run(folder, prune=True)  # a new seed of a stopped cell stops at the same rung, without a new decision
    assert folder.decisions() == before
    outcome = folder.outcome(next(job for job in folder.plan.jobs if (job.cell, job.seed) == ("low", 1)))
    assert outcome is not None
    assert (outcome.state, outcome.share) == ("pruned", 0.25)


def test_a_failed_cell_is_not_judged(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"bad": {"mode": "fails"}, "high": {"ceiling": 0.9}}, seeds=[0])
    assert _run(folder, prune=True)
    assert {line["cell"] for line in folder.decisions()} == {"base", "high"}


def test_without_the_base_nobody_is_judged(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"good": {"mode": "works"}}, seeds=[0], base={"set": {"ceiling": 0.8, "mode": "fails"}})
    assert _run(folder, prune=True)
    assert folder.decisions() == []
    assert _states(folder) == {"base 0": "failed", "good 0": "finished"}


KILLED = """
import sys
from pathlib import Path
from scalerl.study.execute import Asked, execute
from scalerl.study.folder import StudyFolder
from scalerl.study.runner import open_runner

class Watch:
    stops = 0
    def said(self, line): print(line, flush=True)
    def tick(self): pass

folder = StudyFolder.open(sys.argv[1])
with folder.hold():
    execute(folder, open_runner(folder.config), Asked(2, prune=True), Watch())
"""


def _killed_at(folder: StudyFolder, lines: int) -> None:
    """Run the study in a process that is killed once its logs have so many lines more than now."""
    before = _lines(folder)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder.path)])
    deadline = time.monotonic() + WAIT_S
    while _lines(folder) < before + lines:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def _lines(folder: StudyFolder) -> int:
    return sum(len(log.read_text().splitlines()) for log in folder.path.glob("jobs/*/run/log.csv"))


def test_killed_twice_it_ends_with_the_same_results(tmp_path: Path) -> None:
    """Four cells with a race; between the kills nothing is cleaned up."""
    steady = {"set": {"ceiling": 0.8, "mode": "steady"}}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    config = study(tmp_path / "whole", RACE, base=steady, seeds=[0])
    whole = StudyFolder.create_or_open(tmp_path / "whole/study", config)
    killed = StudyFolder.create_or_open(tmp_path / "killed/study", config)
    assert _run(whole, prune=True)
    _killed_at(killed, 30)
    _killed_at(killed, 50)
    watch = Silent()
    assert _run(killed, watch, prune=True)
    assert killed.decisions() == whole.decisions()
    assert _states(killed) == _states(whole)
    for folder in (whole, killed):
        write_results(folder)
    assert killed.results_path.read_bytes() == whole.results_path.read_bytes()


def test_what_an_earlier_start_left_behind_is_waited_for(tmp_path: Path) -> None:
    folder, watch = opened(tmp_path, {"low": {"ceiling": 0.4}}, seeds=[0]), Silent()
    job = folder.plan.jobs[0]
    folder.write_job(job)
    left = start_child(["sleep", "1"], folder.job_path(job), "an earlier start")
    assert _run(folder, watch)
    assert left.poll() == 0
    assert watch.lines[0].startswith(f"{job.name}: waiting for ")
    assert set(_states(folder).values()) == {"finished"}
