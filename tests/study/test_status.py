"""The status of a study: from its files alone, for every state of a job, and fast with many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalerl.series import Series
from scalerl.study.execute import Asked, execute
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome
from scalerl.study.process import start_child
from scalerl.study.reached import Reached, write_reached
from scalerl.study.runner import Progress, open_runner
from scalerl.study.status import StudyStatus, study_status

from .stand_in import Silent, opened


class FakeProcess:
    """Has ended before it began."""

    def poll(self) -> int:
        return 0

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class FakeRunner:
    """Trains nothing."""

    def check(self, *_: object, **__: object) -> None: ...

    def start(self, *_: object, **__: object) -> FakeProcess:
        return FakeProcess()

    def curve(self, *_: object, **__: object) -> list[Series]:
        return [Series.of([1.0, 2.0], [0.3, 0.4])]

    def downstream(self, *_: object, **__: object) -> dict[str, Series]:
        return {}

    def progress(self, *_: object, **__: object) -> Progress:
        return Progress()


def _status(folder: StudyFolder) -> StudyStatus:
    return study_status(folder, open_runner(folder.config))


def test_the_states_of_a_job(tmp_path: Path) -> None:
    cells = {name: {"ceiling": 0.1 * i} for i, name in enumerate(("ended", "stopped", "failed", "begun", "busy"), 1)}
    folder = opened(tmp_path, cells, seeds=[0])
    jobs = {job.cell: job for job in folder.plan.jobs}
    for cell in cells:
        folder.write_job(jobs[cell])
    write_reached(folder.job_path(jobs["ended"]), Reached(1.0, 100.0, 0.5))
    folder.write_outcome(jobs["ended"], Outcome("finished", 1.0))
    write_reached(folder.job_path(jobs["stopped"]), Reached(0.5, 50.0, 0.25))
    folder.write_outcome(jobs["stopped"], Outcome("pruned", 0.5))
    folder.write_outcome(jobs["failed"], Outcome("failed", 0.0, "exit code 1: no"))
    write_reached(folder.job_path(jobs["begun"]), Reached(0.3, 30.0))
    child = start_child(["sleep", "60"], folder.job_path(jobs["busy"]), "a test")
    try:
        status = _status(folder)
        assert {job.cell: job.state for job in status.jobs} == {
            "base": "waiting", "ended": "finished", "stopped": "pruned", "failed": "failed", "begun": "interrupted",
            "busy": "running",
        }  # fmt: skip
        with folder.hold():
            held = _status(folder)
    finally:
        child.kill()
    assert {job.cell: job.state for job in held.jobs}["begun"] == "waiting"
    assert held.runs_in is not None
    assert status.runs_in is None
    by_cell = {job.cell: job for job in status.jobs}
    assert (by_cell["stopped"].share, by_cell["stopped"].value) == (0.5, 0.25)
    assert by_cell["failed"].error == "exit code 1: no"
    assert status.counts == {"running": 1, "waiting": 1, "interrupted": 1, "finished": 1, "pruned": 1, "failed": 1}
    assert not status.done
    # 100 seconds for a whole job: 1 + 1 + .7 of them are ahead, for one worker
    assert status.left_s == 270.0
    assert status.share == (3 + 0.3) / 6


def test_without_any_pace_the_time_is_unknown(tmp_path: Path) -> None:
    assert _status(opened(tmp_path, {"low": {"ceiling": 0.4}})).left_s is None


def test_seeds_that_a_race_has_added(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}}, seeds=[0])
    folder.add_decision({"action": "seeds", "seeds": {"low": [1, 2]}, "freed": 1.0, "reason": "r"})
    assert [(job.cell, job.seed) for job in _status(folder).jobs] == [("base", 0), ("low", 0), ("low", 1), ("low", 2)]


def test_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 cells: run with a fake trainer, opened again and looked at."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # three files for each job
    folder = opened(tmp_path, {f"cell{i}": {"ceiling": i / 1000} for i in range(1, 500)}, seeds=[0])
    with folder.hold():
        assert execute(folder, FakeRunner(), Asked(num_workers=50), Silent())
    status = study_status(StudyFolder.open(folder.path), FakeRunner())
    assert status.counts == {"finished": 500}
    assert status.done


def test_the_jobs_of_each_cell(tmp_path: Path) -> None:
    folder = opened(tmp_path, {"low": {"ceiling": 0.4}, "high": {"ceiling": 0.9}})
    status = _status(folder)
    assert status.cells == ("base", "low", "high")
    assert [(job.cell, job.seed) for job in status.of_cell("low")] == [("low", 0), ("low", 1)]
    assert status.of_cell("none") == ()
    assert [(job.cell, job.seed) for job in folder.plan.jobs_of("high")] == [("high", 0), ("high", 1)]
    assert folder.plan.jobs_of("none") == ()
