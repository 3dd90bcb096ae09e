"""The process: help, version, pipes, interruption, start-up."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import scalerl
import scalerl.cli.sources
from scalerl.cli import main
from scalerl.cli.output import text_of, to_json

from .conftest import Run


def _process(
    *arguments: object, stdin: int | None = None, stdout: int = subprocess.PIPE, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "scalerl", *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, text=True, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=env)


def test_help(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for command in ("fit", "compare", "decide", "backtest", "--version"):
        assert command in ran.out
    assert run().out == ran.out
    assert run().code == 0


@pytest.mark.parametrize("command", ["fit", "compare", "decide", "backtest"])
def test_help_of_a_command(command: str, run: Run) -> None:
    ran = run(command, "-h")
    assert ran.code == 0
    for option in ("--x", "--y", "--n", "--by", "--duplicates", "--bounds", "--level", "--json"):
        assert option in ran.out
    assert ran.err == ""


def test_help_documents_the_exit_codes(run: Run) -> None:
    words = " ".join(run("decide", "--help").out.replace("│", " ").split())
    assert "0 SCALE, 10 STOP, 11 NEED MORE DATA, 12 UNSTABLE" in words


def test_version(run: Run) -> None:
    assert run("--version").out == f"scalerl {scalerl.__version__}\n"


HEAVY = "('numpy', 'scipy', 'matplotlib', 'plotly', 'pyarrow')"


def _loaded(arguments: list[str], names: str) -> str:
    """Which of the modules the command line itself loads, beyond what `import scalerl` does."""
    code = (
        "import sys, scalerl; before = set(sys.modules); from scalerl.cli import main; "
        f"main({arguments!r}); print([name for name in {names} if name in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_help_loads_nothing_heavy() -> None:
    assert _loaded(["fit", "--help"], HEAVY) == "[]"


def test_a_fit_loads_no_plotting(one: Path) -> None:
    assert _loaded(["fit", str(one)], "('matplotlib', 'plotly', 'pyarrow')") == "[]"


def test_as_a_module(one: Path) -> None:
    process = _process("fit", one, "--json")
    out, err = process.communicate()
    assert process.returncode == 0
    assert err == ""
    assert '"schema": 1' in out


def test_standard_input(one: Path) -> None:
    process = _process("fit", "-", "--json", stdin=subprocess.PIPE)
    out, _ = process.communicate(one.read_text())
    assert process.returncode == 0
    assert '"name": "stdin"' in out


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_a_closed_pipe_is_no_error(arguments: list[str], one: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        process = _process("fit", one, *arguments, stdout=write)
        _, err = process.communicate()
    finally:
        os.close(write)
    assert process.returncode == 141
    assert err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(one: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = _process("fit", one, "--json", stdout=full.fileno())
        _, err = process.communicate()
    assert process.returncode == 1
    assert err.startswith("scalerl: error: cannot write the output")
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_where_nobody_thought_of_it_is_one_line(
    run: Run, one: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "tmp/x")

    monkeypatch.setattr(scalerl.cli.sources, "read", fail)
    ran = run("fit", one)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"scalerl: error: tmp/x: {os.strerror(number)}; what was saved before is kept\n"


def test_interrupted_in_this_process(run: Run, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scalerl.cli.sources, "read", interrupt)
    ran = run("fit", one)
    assert ran.code == 130
    assert ran.out == ""


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_interrupted_from_outside(tmp_path: Path) -> None:
    """The file is a pipe that stays silent: opening its other end waits until the command reads, and then it waits."""
    pipe = tmp_path / "curve.csv"
    os.mkfifo(pipe)
    process = _process("fit", pipe)
    with pipe.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err) == ("", "")


def test_a_poor_terminal_gets_question_marks(one: Path) -> None:
    process = _process("fit", one, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.isascii()


def test_a_bug_is_not_hidden(run: Run, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(scalerl.cli.sources, "read", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["fit", str(one)])


def test_unknown_numbers_become_null() -> None:
    text = to_json({"a": [float("nan"), float("inf"), 1.5], "b": {"c": -float("inf")}})
    assert "NaN" not in text
    assert "Infinity" not in text
    assert text.count("null") == 3


def test_text_follows_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "word " * 40
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, text_of([words]).splitlines())) <= 40
