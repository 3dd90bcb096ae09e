"""Every bad input: exit code 2, one line on stderr that says what and where, nothing on stdout, nothing written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from .conftest import Run, curve, write

COMPUTE, VALUE = curve(0.7, 600, 1)
ROWS = [f"{c},{v}" for c, v in zip(COMPUTE, VALUE, strict=True)]


def _with_row(number: int, row: str) -> bytes:
    """A good table whose line `number` is `row`."""
    lines = ["gpu_hours,pass_rate", *ROWS]
    lines[number - 1] = row
    return "\n".join(lines).encode()


FILES = {
    "text": (_with_row(4, "300,high"), ["bad.csv", "line 4", "high"]),
    "nan": (_with_row(5, "300,nan"), ["bad.csv", "line 5", "nan"]),
    "nan compute": (_with_row(5, "nan,0.3"), ["bad.csv", "line 5", "nan"]),
    "infinite": (_with_row(5, "inf,0.3"), ["bad.csv", "line 5", "inf"]),
    "negative compute": (_with_row(6, "-300,0.3"), ["bad.csv", "line 6", "-300", "zero or more"]),
    "above the bounds": (_with_row(7, "300,1.2"), ["bad.csv", "line 7", "1.2", "0 to 1", "--bounds"]),
    "below the bounds": (_with_row(7, "300,-0.2"), ["bad.csv", "line 7", "-0.2", "0 to 1"]),
    "duplicate": (_with_row(9, ROWS[0]), ["bad.csv", "lines 2 and 9", "50.0", "--duplicates mean|last|seeds"]),
    "few points": ("\n".join(["gpu_hours,pass_rate", *ROWS[:4]]).encode(), ["bad", "too few points", "4", "allowed"]),
    "only step 0": (b"gpu_hours,pass_rate\n0,0.2\n", ["bad", "too few points"]),
    "header only": (b"gpu_hours,pass_rate\n", ["bad.csv"]),
    "empty": (b"", ["bad.csv", "empty"]),
    "binary": (bytes(range(256)) * 40, ["bad.csv", "binary"]),
    "compressed": (gzip.compress(_with_row(4, ROWS[2]), mtime=0), ["bad.csv"]),
    "latin-1": (_with_row(4, "caf\xe9,0.3").decode().encode("latin-1"), ["bad.csv", "line 4", "UTF-8"]),
    "utf-16": (_with_row(4, ROWS[2]).decode().encode("utf-16"), ["bad.csv", "UTF-8"]),
    "json list": (b'[{"gpu_hours": 1, "pass_rate": 0.1}]', ["bad.csv", "JSON"]),
    "no usual names": (b"alpha,beta,gamma\n1,0.1,3\n2,0.2,4\n", ["bad.csv", "alpha", "beta", "--x"]),
    "ragged": (_with_row(4, "1,2,3,4"), ["bad.csv", "line 4"]),
}


@pytest.mark.parametrize("command", ["fit", "decide", "backtest"])
@pytest.mark.parametrize("case", FILES)
def test_bad_file(case: str, command: str, run: Run, tmp_path: Path) -> None:
    content, words = FILES[case]
    (tmp_path / "bad.csv").write_bytes(content)
    plot = [] if command == "decide" else ["--plot", "out.png"]
    _refused(run, tmp_path, [command, "bad.csv", "--json", *plot], words)


OPTIONS = {
    "nothing": ("fit", ["nothing to read", "FILE", "--example"]),
    "missing file": ("fit nowhere.csv", ["nowhere.csv", "no such file"]),
    "one of two missing": ("compare one.csv nowhere.csv", ["nowhere.csv", "no such file"]),
    "folder": ("fit .", ["folder"]),
    "empty name": ("fit ''", ["folder"]),
    "unknown column": ("fit one.csv --x tokens", ["one.csv", "tokens", "gpu_hours", "pass_rate"]),
    "unknown value column": ("fit one.csv --y reward", ["one.csv", "reward", "gpu_hours", "pass_rate"]),
    "unknown n column": ("fit one.csv --n answers", ["one.csv", "answers", "gpu_hours", "pass_rate"]),
    "unknown by column": ("fit one.csv --by run", ["one.csv", "run", "gpu_hours", "pass_rate"]),
    "unknown example": ("fit --example gpt", ["gpt", "scalerl-8b"]),
    "example and file": ("fit one.csv --example scalerl-8b", ["--example", "FILE"]),
    "example and column": ("fit --example scalerl-8b --x gpu_hours", ["--example", "--x"]),
    "empty window": ("fit one.csv --from 1e6 --until 2e6", ["one", "window", "50"]),
    "small window": ("fit one.csv --until 60", ["one", "too few points"]),
    "window upside down": ("fit one.csv --from 500 --until 100", ["--from", "--until", "500", "100"]),
    "window of nothing": ("fit one.csv --from 500 --until 500", ["--from", "--until"]),
    "negative from": ("fit one.csv --from -1", ["--from", "-1", "zero or more"]),
    "infinite from": ("fit one.csv --from inf", ["--from", "inf"]),
    "zero until": ("fit one.csv --until 0", ["--until", "above zero"]),
    "nan until": ("fit one.csv --until nan", ["--until", "nan"]),
    "level 0": ("fit one.csv --level 0", ["--level", "between 0 and 1"]),
    "level 1": ("compare one.csv two.csv --level 1", ["--level", "between 0 and 1"]),
    "level 80": ("backtest one.csv --level 80", ["--level", "80", "between 0 and 1"]),
    "level text": ("decide one.csv --level high", ["--level", "high", "a number"]),
    "negative budget": ("fit one.csv --budget 1e4 --budget -5", ["--budget", "-5", "above zero"]),
    "zero budget": ("decide one.csv --budget 0", ["--budget", "above zero"]),
    "infinite budget": ("fit one.csv --budget inf", ["--budget", "inf", "finite"]),
    "spent budget": ("decide one.csv --budget 100", ["one", "budget", "100", "6000"]),
    "budget text": ("fit one.csv --budget lots", ["--budget", "lots", "a number"]),
    "infinite target": ("fit one.csv --target inf", ["--target", "inf", "finite"]),
    "target above the bounds": ("fit one.csv --target 1.5", ["--target", "1.5", "0 to 1"]),
    "target text": ("fit one.csv --target all", ["--target", "all", "a number"]),
    "floor text": ("fit one.csv --floor low", ["--floor", "low", "measured", "free", "number"]),
    "floor outside": ("fit one.csv --floor 2", ["--floor", "2", "0 to 1"]),
    "nothing measured": ("fit bare.csv --floor measured", ["bare", "zero compute"]),
    "ceiling outside": ("fit one.csv --ceiling 1.5", ["--ceiling", "1.5", "0 to 1"]),
    "ceiling below the floor": ("fit one.csv --ceiling 0.3 --floor 0.4", ["--ceiling", "--floor", "0.3", "0.4"]),
    "ceiling without one": ("fit one.csv --law flat --ceiling 0.6", ["ceiling", "flat"]),
    "law": ("fit one.csv --law cubic", ["--law", "cubic", "sigmoid", "power", "loglinear", "flat"]),
    "method": ("fit one.csv --method magic", ["--method", "magic", "varpro", "paper"]),
    "paper without a floor": ("fit bare.csv --method paper", ["bare", "floor"]),
    "bounds text": ("fit one.csv --bounds wide", ["--bounds", "wide", "none"]),
    "bounds upside down": ("fit one.csv --bounds 1,0", ["--bounds", "1,0"]),
    "bounds of three": ("fit one.csv --bounds 0,1,2", ["--bounds", "0,1,2"]),
    "bounds infinite": ("fit one.csv --bounds 0,inf", ["--bounds", "inf"]),
    "duplicates": ("fit one.csv --duplicates first", ["--duplicates", "first", "mean", "last", "seeds"]),
    "delta zero": ("fit one.csv --delta 0", ["--delta", "above zero"]),
    "delta negative": ("decide one.csv --delta -1", ["--delta", "-1", "above zero"]),
    "question": ("decide one.csv --question why", ["--question", "why", "value", "ceiling"]),
    "margin": ("compare one.csv two.csv --margin -1", ["--margin", "-1", "above zero"]),
    "reference": ("compare one.csv two.csv --reference three", ["--reference", "three", "one, two"]),
    "one curve": ("compare one.csv", ["one", "two curves"]),
    "same file twice": ("compare one.csv one.csv", ["one.csv"]),
    "share": ("backtest one.csv --shares 0.5,1.5", ["--shares", "1.5", "between 0 and 1"]),
    "share text": ("backtest one.csv --shares half", ["--shares", "half"]),
    "no shares": ("backtest one.csv --shares ''", ["--shares"]),
    "exit code of several": ("decide one.csv two.csv --exit-code", ["--exit-code", "one curve"]),
    "plot format": ("fit one.csv --plot out.gif", ["--plot", "out.gif", ".png", ".svg", ".pdf", ".html"]),
    "plot without format": ("compare one.csv two.csv --plot out", ["--plot", "out", ".png"]),
    "interactive backtest": ("backtest one.csv --plot out.html", ["--plot", "out.html", ".png"]),
    "plot is a folder": ("fit one.csv --plot folder.png", ["--plot", "folder.png"]),
    "plot inside a file": ("fit one.csv --plot one.csv/out.png", ["--plot", "one.csv"]),
    "plot name too long": (f"fit one.csv --plot {'x' * 300}.png", ["--plot"]),
    "file name too long": (f"fit {'x' * 300}.csv", ["xxx"]),
    "unknown option": ("fit one.csv --budgets 5", ["--budgets", "--budget"]),
    "option without value": ("fit one.csv --law", ["--law", "argument"]),
    "unknown command": ("fti one.csv", ["fti", "fit"]),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_bad_option(case: str, run: Run, tmp_path: Path, one: Path, two: Path) -> None:
    line, words = OPTIONS[case]
    write(tmp_path / "bare.csv", COMPUTE, VALUE, start=None)
    (tmp_path / "folder.png").mkdir()
    arguments = [argument.strip("'") for argument in line.split(" ")]
    if arguments[0] != "decide" and "--plot" not in arguments and arguments != ["fit", "one.csv", "--law"]:
        arguments[1:1] = ["--plot", "out.png"]
    _refused(run, tmp_path, arguments, words)


def _refused(run: Run, folder: Path, arguments: list[str], words: list[str]) -> None:
    before = sorted(folder.rglob("*"))
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("scalerl: error: ")
    assert ran.err.endswith("\n")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err
    assert sorted(folder.rglob("*")) == before


def test_a_strange_name_stays_on_one_line(run: Run, tmp_path: Path) -> None:
    _refused(run, tmp_path, ["fit", "a\nb\x1b[31m.csv"], ["no such file"])
