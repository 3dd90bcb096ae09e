"""Jobs of another study are taken over when they are the same and have finished, and never run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalerl.study.execute import Asked, execute
from scalerl.study.folder import StudyFolder
from scalerl.study.reuse import reuse
from scalerl.study.runner import open_runner

from .stand_in import Silent, starts, study


def _run(folder: StudyFolder, *others: StudyFolder) -> Silent:
    watch = Silent()
    with folder.hold():
        assert execute(folder, open_runner(folder.config), Asked(4, reuse=others), watch)
    return watch


def _opened(place: Path, name: str, cells: dict[str, dict[str, Any]], **others: Any) -> StudyFolder:
    """Several studies with one trainer."""
    return StudyFolder.create_or_open(place / name, study(place, cells, name=name, **others))


def test_the_base_of_another_study_is_taken_over(tmp_path: Path) -> None:
    first = _opened(tmp_path, "first", {"low": {"ceiling": 0.4}})
    _run(first)
    second = _opened(tmp_path, "second", {"mid": {"ceiling": 0.6}})
    watch = _run(second, first)
    taken = [job for job in second.plan.jobs if job.cell == "base"]
    assert [line.split(" taken over from ")[0] for line in watch.lines] == [job.name for job in taken]
    for job in taken:
        assert (second.run_path(job) / "log.csv").read_bytes() == (first.run_path(job) / "log.csv").read_bytes()
        assert second.outcome(job) == first.outcome(job)
        assert starts(second)[job.name] == ["40"]  # copied with the folder, not started again
    assert reuse(second, [first]) == []


def test_what_has_not_finished_or_has_another_budget_is_not(tmp_path: Path) -> None:
    first = _opened(tmp_path, "first", {"bad": {"mode": "fails"}}, seeds=[0])
    _run(first)
    again = _opened(tmp_path, "again", {"bad": {"mode": "fails"}}, seeds=[0], steps=50)
    assert reuse(again, [first]) == []
    same = _opened(tmp_path, "same", {"bad": {"mode": "fails"}}, seeds=[0])
    assert [line.partition("-seed")[0] for line in reuse(same, [first])] == ["base"]
