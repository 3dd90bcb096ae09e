"""Curves as files, and the command line called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalerl.cli import main


@dataclass(frozen=True)
class Ran:
    """What one call of the command line did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(f"not JSON: {constant}")


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `scalerl` with these arguments, in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return call


def curve(ceiling: float, midpoint: float, seed: int, points: int = 24) -> tuple[list[float], list[float]]:
    """A sigmoid from .2 with exponent 1.3 and a little noise, over 50 to 6000."""
    compute = np.geomspace(50, 6000, points)
    noise = np.random.default_rng(seed).normal(0, 0.004, points)
    value = 0.2 + (ceiling - 0.2) / (1 + (midpoint / compute) ** 1.3) + noise
    return compute.round(3).tolist(), value.round(5).tolist()


def write(path: Path, compute: list[float], value: list[float], start: float | None = 0.2) -> Path:
    rows = [] if start is None else [f"0,{start}"]
    rows += [f"{c},{v}" for c, v in zip(compute, value, strict=True)]
    path.write_text("gpu_hours,pass_rate\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A curve with a step-0 row that ends well above its midpoint."""
    return write(tmp_path / "one.csv", *curve(0.7, 600, 1))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """The same recipe with a lower ceiling."""
    return write(tmp_path / "two.csv", *curve(0.55, 600, 2))


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    """Two seeds in one file: every compute occurs twice, the second time .02 higher."""
    compute, value = curve(0.7, 600, 3)
    return write(tmp_path / "repeated.csv", compute + compute, value + [v + 0.02 for v in value], start=None)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Two curves in one file, told apart by a column, with unusual names."""
    rows = ["run,cost,score,answers,step"]
    for name, ceiling in (("red", 0.7), ("blue", 0.5)):
        for step, (c, v) in enumerate(zip(*curve(ceiling, 600, len(name)), strict=True)):
            rows.append(f"{name},{c},{v},{100 + 50 * step},{step + 1}")
    path = tmp_path / "long.csv"
    path.write_text("\n".join(rows) + "\n")
    return path
