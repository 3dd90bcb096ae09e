"""Ctrl-C and SIGTERM, once and twice, and a second process that wants the same run directory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from . import books, kills
from .nursery import Nursery, wait_for
from .small import Small

SLOW = [("slow_trainer", {"seconds": 0.3})]


def _logged(folder: Path, steps: int) -> bool:
    file = folder / "metrics.jsonl"
    return file.exists() and file.read_bytes().count(b"\n") >= steps


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_first_saves_and_the_run_goes_on(
    nursery: Nursery, tmp_path: Path, inline: kills.Ground, number: signal.Signals
) -> None:
    call = nursery.start(Small().begin("run"), tmp_path, tampering=SLOW)
    assert wait_for(lambda: _logged(tmp_path / "run", 3))
    call.send(number)
    assert call.wait() == 130, call.err
    assert "Stopped as you asked; everything is saved." in call.out
    assert "Traceback" not in call.err
    safe = books.kept(tmp_path / "run")
    assert 3 <= safe.step < Small().steps
    assert safe.steps_since == 0  # nothing is made again
    assert books.read_json(tmp_path / "run" / "stopped.json")["reason"] == "interrupted"
    assert nursery.run(Small().go_on("run"), tmp_path).code == 0
    assert books.complaints(tmp_path / "run", Small()) == []
    assert books.difference(tmp_path / "run", inline.folder) == []


def test_ctrl_c_in_a_terminal_reaches_both_processes(nursery: Nursery, tmp_path: Path, local: kills.Ground) -> None:
    """The generator leaves it to the trainer."""
    assert local.folder.is_dir()
    run = Small("local")
    call = nursery.start(run.begin("run"), tmp_path, tampering=SLOW)
    assert wait_for(lambda: _logged(tmp_path / "run", 3))
    call.send(signal.SIGINT, "group")
    assert call.wait() == 130, call.err
    assert books.kept(tmp_path / "run").steps_since == 0
    assert call.leftovers() == []
    assert nursery.run(run.go_on("run"), tmp_path).code == 0
    assert books.complaints(tmp_path / "run", run) == []


@pytest.mark.parametrize(
    ("launcher", "number"), [("inline", signal.SIGINT), ("inline", signal.SIGTERM), ("local", signal.SIGINT)],
    ids=["inline-SIGINT", "inline-SIGTERM", "local-SIGINT"],
)  # fmt: skip
def test_the_second_ends_at_once_and_the_run_goes_on(
    nursery: Nursery, tmp_path: Path, inline: kills.Ground, launcher: str, number: signal.Signals
) -> None:
    """In the middle of a step that would take minutes: sent earlier, the first could end the run before it."""
    run = Small(launcher)
    begun = tmp_path / "begun"
    call = nursery.start(run.begin("run"), tmp_path, tampering=[("stuck_trainer", {"step": 4, "file": str(begun)})])
    assert wait_for(begun.exists)
    call.send(number)
    assert wait_for(lambda: "again to end at once" in call.err)
    call.send(number)
    assert call.wait() == 130, call.err
    assert "Traceback" not in call.err
    assert call.leftovers() == []
    assert not (tmp_path / "run" / "stopped.json").exists()
    assert nursery.run(run.go_on("run"), tmp_path).code == 0
    assert books.complaints(tmp_path / "run", run) == []
    if launcher == "inline":
        assert books.difference(tmp_path / "run", inline.folder) == []


def test_a_second_process_on_the_same_run_refuses(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    """In one line, whichever way it is started; the first one goes on as if nothing had been."""
    first = nursery.start(Small().begin("run"), tmp_path, tampering=[("slow_trainer", {"seconds": 0.4})])
    assert wait_for(lambda: _logged(tmp_path / "run", 1))
    second = nursery.run(Small().go_on("run"), tmp_path)
    assert second.code == 2
    assert second.refusal is not None
    assert f"the run directory is in use: got 'process {first.pid} on" in second.refusal
    anew = nursery.run(Small().begin("run"), tmp_path)
    assert anew.code == 2
    assert anew.refusal is not None
    assert "the run exists already" in anew.refusal
    assert first.running()
    assert first.wait() == 0, first.err
    assert books.complaints(tmp_path / "run", Small()) == []
    assert books.difference(tmp_path / "run", inline.folder) == []


def test_two_processes_begin_the_same_run_at_once(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    calls = [nursery.start(Small().begin("run"), tmp_path, tampering=SLOW) for _ in range(2)]
    codes = sorted(call.wait() for call in calls)
    assert codes == [0, 2]
    assert books.complaints(tmp_path / "run", Small()) == []
    assert books.difference(tmp_path / "run", inline.folder) == []
