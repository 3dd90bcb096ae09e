"""Downstream sets and parts of runs that are followed: after the fit, renewed with the curve, never in its way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalerl.curves import fit
from scalerl.errors import InputError
from scalerl.report.answers import Document
from scalerl.report.board import Board
from scalerl.report.followed import Followed
from scalerl.report.live_sets import LiveSets
from scalerl.report.set_documents import set_documents
from scalerl.runs import RunDirectory

from .runs import begin, table
from .set_runs import LAST, measure, mixed_run
from .test_follow import WAYS, Eyes


def sets_of(path: str) -> Sequence[Document]:
    return set_documents(Path(path), lambda name, seeds: fit(seeds, name=name), 0.8)


WITH_SETS = replace(WAYS, sets=sets_of)


def shown(eyes: Eyes) -> dict[str, Any]:
    (run,) = eyes.look()
    return {one["metric"]: one for one in run["sets"]}


def test_the_sets_of_a_run_are_those_of_its_report_and_follow_it(tmp_path: Path) -> None:
    mixed_run(tmp_path / "run")
    eyes = Eyes(tmp_path / "run", ways=WITH_SETS)
    found = shown(eyes)
    assert list(found) == ["part/sums", "part/goals", "downstream/aime24", "downstream/other"]
    assert list(found.values()) == json.loads(json.dumps(sets_of(str(tmp_path / "run"))))
    before = found["downstream/aime24"]
    measure(RunDirectory.open(tmp_path / "run"), LAST + 20)
    after = shown(eyes)["downstream/aime24"]
    assert after["evaluations"] == before["evaluations"] + 1
    assert after["last"]["step"] == LAST + 20
    assert after["law"]["points"] == before["law"]["points"] + 1


def test_a_run_without_sets_and_a_table_have_none(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(path: str) -> Sequence[Document]:
        asked.append(path)
        return sets_of(path)

    begin(tmp_path / "run", range(0, 400, 20))
    table(tmp_path / "table.csv", 12)
    eyes = Eyes(tmp_path / "run", tmp_path / "table.csv", ways=replace(WAYS, sets=counted))
    assert [run["sets"] for run in eyes.look()] == [[], []]
    assert set(asked) == {str(tmp_path / "run")}


def test_sets_that_cannot_be_read_stay_as_they_were(tmp_path: Path) -> None:
    broken = False

    def sometimes(path: str) -> Sequence[Document]:
        if broken:
            raise InputError("broken")
        return sets_of(path)

    mixed_run(tmp_path / "run")
    eyes = Eyes(tmp_path / "run", ways=replace(WAYS, sets=sometimes))
    before = shown(eyes)
    broken = True
    measure(RunDirectory.open(tmp_path / "run"), LAST + 20)
    assert shown(eyes) == before


def test_the_decision_comes_first(tmp_path: Path) -> None:
    """The law of the curve is on the board before any set is asked for."""
    mixed_run(tmp_path / "run")
    seen: list[bool] = []

    def asked(path: str) -> Sequence[Document]:
        (run,) = eyes.shown
        seen.append(run["units"][0]["fit"] is not None)
        return sets_of(path)

    eyes = Eyes(tmp_path / "run", ways=replace(WAYS, sets=asked))
    eyes.look()
    assert seen == [True]


def test_each_run_waits_once_and_one_that_is_dropped_does_not(tmp_path: Path) -> None:
    asked: list[str] = []

    def noted(path: str) -> Sequence[Document]:
        asked.append(path)
        return [{"metric": path}]

    board = Board({"schema": 1})
    waiting = LiveSets(replace(WAYS, sets=noted), board)
    first, second = (Followed(name, name, name) for name in "ab")
    for run in (first, second, first):
        waiting.add(run)
    waiting.drop(second)
    assert [waiting.renew_one(), waiting.renew_one()] == [True, False]
    assert asked == ["a"]
    assert [run["sets"] for run in json.loads(board.document())["runs"]] == [[{"metric": "a"}]]
