"""A disk that cannot be written: reading works, writing ends with one line that names the place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.runs.tiny_run import tiny_config

from scalerl.runs import RunDirectory

from .conftest import curve, write
from .tiny import tiny_options

CHILD = """
import contextlib, io, json, sys
from scalerl.cli import main
def call(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()
print(json.dumps([call(arguments) for arguments in json.loads(sys.argv[1])]))
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def read_only(folder: Path, calls: Sequence[Sequence[str]]) -> list[Ran]:
    """The commands, one after the other in one process, with the whole disk read-only and nothing in the cache."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bwrap is not installed")
    sandbox = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--chdir", str(folder)]
    sandbox += ["--setenv", "TMPDIR", "/dev/shm"]  # torch does not start without any
    sandbox += ["--setenv", "SCALERL_CACHE", str(folder / "cache")]
    probe = subprocess.run([*sandbox, "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"bwrap does not work here: {probe.stderr.strip()}")
    command = [*sandbox, sys.executable, "-c", CHILD, json.dumps(calls)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [Ran(*values) for values in json.loads(done.stdout.splitlines()[-1])]


def test_a_read_only_disk(tmp_path: Path) -> None:
    with RunDirectory.hold(tmp_path / "run", tiny_config()) as run:
        run.metrics.path.write_bytes(b"torn")
    write(tmp_path / "curve.csv", *curve(0.7, 600, 1))
    reading = [["fit", "curve.csv"], ["runs", "list"], ["runs", "show", "run"], ["runs", "verify", "run"]]
    writing = [
        ["fit", "curve.csv", "--plot", "curve.png"],
        ["report", "curve.csv", "--out", "page.html"],
        ["runs", "verify", "run", "--repair"],
        ["train", "--out", "new", *tiny_options()],
        ["train", "--out", "run", "--resume", "--budget", "8 steps"],
        ["sft", "--out", "policy"],
        ["study", "run", "batch", "--out", "study"],
    ]
    ran = read_only(tmp_path, [*reading, *writing])
    for call, one in zip(reading, ran, strict=False):
        assert (call, one.code, one.err) == (call, 0, "")
    wanted = [
        (2, f"--plot: no permission to write: got '{tmp_path}'"),
        (2, f"-o: no permission to write: got '{tmp_path}'"),
        (1, "run/lock: cannot be written (Read-only file system)"),
        (2, "new: the folder cannot be made (Read-only file system)"),
        (2, "run/checkpoints: the folder cannot be made (Read-only file system)"),
        (2, "policy: the folder cannot be made (Read-only file system)"),
        (1, "study: cannot be written (Read-only file system)"),
    ]
    found = [(one.code, one.err.removeprefix("scalerl: error: ")) for one in ran[len(reading) :]]
    assert [(code, text[: len(words)]) for (code, text), (_, words) in zip(found, wanted, strict=True)] == wanted
    assert all(text.count("\n") == 1 for _, text in found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.csv", "run"]
