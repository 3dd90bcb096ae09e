"""A run directory from somebody else, with a link, a pipe or a device where one of our files should be.

Archives bring all three. Nothing elsewhere may be read in their place for ever, written or cut.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runs.tiny_run import tiny_config

from scalerl.cli import main
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import RunDirectory, layout

LETTER = "precious, and without a newline at its end"
WRITTEN = (layout.LOCK, layout.METRICS, layout.EVALS, layout.EVENTS)
READ = (*WRITTEN, layout.CONFIG, layout.PROVENANCE, layout.STOPPED, "evals/step-000000.json")
PATIENCE_S = 60.0
"""Longer than the commands take on a busy machine; a pipe would be waited for until then."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One that has not trained, with a letter of ours beside it."""
    (tmp_path / "letter").write_text(LETTER)
    with RunDirectory.hold(tmp_path / "run", tiny_config()) as directory:
        return directory.path


def plant(path: Path, how: Callable[[Path], object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    how(path)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_link_is_not_written_through(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock is emptied when it is taken, a log is cut at its last newline: both would be the end of the letter."""
    plant(run / name, lambda path: path.symlink_to("../letter"))
    assert main(["runs", "verify", str(run), "--repair"]) == 1
    assert f"run/{name}: cannot be written (a link, not a file)" in capsys.readouterr().err
    assert main(["runs", "verify", str(run)]) == 1
    assert f"{name}: a link, not a file" in " ".join(capsys.readouterr().out.split())
    assert (run.parent / "letter").read_text() == LETTER


@pytest.mark.parametrize("name", [layout.LOCK, layout.METRICS])
def test_nobody_goes_on_over_a_link(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a checkpoint the logs would be cut to nothing."""
    plant(run / name, lambda path: path.symlink_to("../letter"))
    assert main(["train", "--out", str(run), "--resume", "--no-live"]) == 1
    assert f"run/{name}: cannot be written (a link, not a file)" in capsys.readouterr().err
    assert (run.parent / "letter").read_text() == LETTER


def test_a_run_behind_a_link_is_a_run(run: Path) -> None:
    """The folder may be anywhere: it is the user who names it."""
    (run.parent / "elsewhere").symlink_to("run")
    assert main(["runs", "verify", str(run.parent / "elsewhere"), "--repair"]) == 0


def test_nothing_is_waited_for(run: Path) -> None:
    """Pipes that nobody writes to, and a device without an end, each in a run of its own."""
    planted = [(name, os.mkfifo) for name in READ] + [
        (layout.CONFIG, lambda path: path.symlink_to("/dev/zero")),
        (layout.EVALS, lambda path: path.symlink_to("/dev/zero")),
    ]
    runs = [run.parent / f"{number}" for number in range(len(planted))]
    for place, (name, how) in zip(runs, planted, strict=True):
        subprocess.run(["cp", "-r", run, place], check=True)
        plant(place / name, how)
    others = run.parent / "trainer"
    others.mkdir()
    os.mkfifo(others / "trainer_state.json")
    calls = [["runs", "list", "."], *(["runs", "verify", place.name] for place in runs), ["fit", "trainer"]]
    calls += [[*command, place.name] for place in runs for command in (["runs", "show"], ["fit"])]
    child = (
        "import json, sys\nfrom scalerl.cli import main\nfor call in json.loads(sys.argv[1]): main(call)\nprint('end')"
    )
    command = [sys.executable, "-c", child, json.dumps(calls)]
    done = subprocess.run(command, cwd=run.parent, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.stdout.endswith("end\n"), done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert "a pipe or a device, not a file" in done.stderr
    assert not is_run_directory(runs[-2])
