"""The clock of the machine jumps: durations, order and state of a run do not care, and old files are not taken for new.

What is measured in seconds comes from a clock that only goes forward; the time of day is only ever written down.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from pathlib import Path
from random import Random
from typing import Self

import pytest

import scalerl
from scalerl.pipeline.session import train
from scalerl.readers.source import open_source
from scalerl.runs import RunDirectory, directory, events, provenance, read_sessions, summarise
from scalerl.runs.verify import verify

from .tiny_run import STEPS, tiny_config

YEAR_S = 3e7


@pytest.fixture
def broken_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the time of day gives another year."""
    random, now = Random(3), time.time()

    def jump() -> float:
        return now + random.uniform(-YEAR_S, YEAR_S)

    class Jumping(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(jump(), tz)

    monkeypatch.setattr(time, "time", jump)
    for module in (directory, events, provenance):
        monkeypatch.setattr(module, "datetime", Jumping)


@pytest.mark.usefixtures("broken_clock")
def test_a_run_does_not_care_about_the_time_of_day(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(tiny_config("scale.budget.amount=2"), run, cache=tmp_path / "cache")
    assert summarise(run).state == "finished"
    with RunDirectory.hold(run, tiny_config()):
        assert summarise(run).state == "running"
    assert summarise(run).state == "crashed"
    train(tiny_config(), run, resume=True, cache=tmp_path / "cache")
    found, sessions = summarise(run), read_sessions(run)
    assert (found.state, found.step, len(sessions)) == ("finished", STEPS, 3)
    assert len({session["started"][:4] for session in sessions}) > 1  # the clock did jump
    lines = RunDirectory.open(run).metrics.read()
    walls = [line["wall_s"] for line in lines]
    assert walls == sorted(walls)
    assert 0 < walls[-1] < 600
    assert all(0 <= line["ledger"][role]["device_s"] < 600 for line in lines for role in line["ledger"])
    assert verify(run).level == "ok"


@pytest.mark.parametrize(("age_s", "fresh"), [(1.0, True), (YEAR_S, False), (-YEAR_S, False)])
def test_a_file_from_the_future_was_not_written_just_now(tmp_path: Path, age_s: float, fresh: bool) -> None:
    file = tmp_path / "run.csv"
    file.write_text("gpu_hours,pass_rate\n1,0.5\n2,0.6")
    os.utime(file, (time.time() - age_s,) * 2)
    with open_source(file) as source:
        assert (source.age_s < 60) == fresh


def test_no_duration_is_taken_from_the_time_of_day() -> None:
    """The only look at it that is not written down is the age of a file, which has nothing better."""
    root = Path(scalerl.__file__).parent
    call = re.compile(r"\btime\.(time|time_ns|localtime|gmtime)\b|\bfrom time import\b")
    uses = {
        file.relative_to(root).as_posix()
        for file in root.rglob("*.py")
        if call.search(file.read_text(encoding="utf-8"))
    }
    assert uses == {"readers/source.py"}
