"""Fuzz targets of the engine: any numbers as a curve, any options; and numbers as people see them."""

from __future__ import annotations

import io
import json
import struct
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.cli import main
from scalerl.curves import Fit, decide, fit, forecast, reach
from scalerl.curves.laws import LAWS
from scalerl.series import Series

from . import samples
from .target import JSON_WORDS, NUMBER_WORDS, Run, Target, check_json

_ODD = (0.0, -0.0, 1.0, 0.5, 1e-300, 5e-324, 1e308, -1e308, float("inf"), float("nan"), 2.0**53, 1e21, -1.0)
_LAWS = tuple(LAWS)
_PAPER = 0x77
"""The paper's procedure searches a grid for seconds: seldom."""
_COMMANDS = (
    "read --bounds none", "read --list", "read --list --json", "read --json --bounds none", "read --to OUT.csv",
    "read --to OUT.parquet --bounds none", "fit --budget end", "fit --json --bounds none", "report -o OUT.html",
    "report -o OUT.md --bounds none", "decide --json",
)  # fmt: skip


def _doubles(data: bytes) -> list[float]:
    """Numbers of eight bytes; a byte below 16 alone stands for one that is often trouble."""
    found: list[float] = []
    while data and len(found) < 80:
        if data[0] < len(_ODD):
            found.append(_ODD[data[0]])
            data = data[1:]
        else:
            found.append(struct.unpack("<d", data[1:9].ljust(8, b"\0"))[0])
            data = data[9:]
    return found


def _as_bytes(values: list[float]) -> bytes:
    return b"".join(b"\x20" + struct.pack("<d", value) for value in values)


def _make_fit(_: Path) -> Run:
    """The first bytes are options, the rest is compute and value by turns."""

    def run(data: bytes) -> None:
        head, rest = data[:4].ljust(4, b"\0"), _doubles(data[4:])
        compute, value = rest[::2], rest[1::2]
        series = Series.of(
            compute[: len(value)], value, n=64 if head[0] & 1 else None, start=0.1 if head[0] & 2 else None
        )
        options: dict[str, Any] = {
            "law": _LAWS[head[1] % len(_LAWS)],
            "method": "paper" if head[0] == _PAPER else "varpro",
        }
        options["bounds"] = None if head[0] & 8 else (0.0, 1.0)
        options["floor"] = ("free", "measured", 0.2, None)[head[2] % 4]
        options["ceiling"] = 0.9 if head[3] & 1 else None
        found = fit([series, series] if head[3] & 2 else series, **options)
        check_json(found.to_dict())
        assert Fit.from_json(found.to_json()).parameters == found.parameters
        assert str(found)
        last = found.last_compute
        forecast(found, [2 * last, last])
        reach(found, 0.7)
        assert str(decide(found, 4 * last if np.isfinite(4 * last) else None))

    return run


def _fits() -> list[bytes]:
    points = [number for step in range(1, 9) for number in (100.0 * step, samples.rate(step))]
    heads = ((0, 0, 0, 0), (3, 0, 1, 0), (8, 1, 3, 1), (8, 2, 3, 0), (1, 0, 2, 2))
    return [bytes(head) + _as_bytes(points) for head in heads]


def _make_numbers(_: Path) -> Run:
    """Every way to show a number."""

    def run(data: bytes) -> None:
        value, low, high, *_ = (_doubles(data) + [0.5] * 3)[:3]
        for compute in (False, True):
            for signed in (False, True):
                numbers.ranged(value, low, high, compute=compute, signed=signed)
                numbers.ranged(value, None, high, compute=compute, signed=signed)
        shown = [
            numbers.number(value),
            numbers.amount(value),
            numbers.amount(low, 2),
            numbers.probability(value),
            numbers.percent(high),
        ]
        assert all(text and "\n" not in text for text in shown)
        text = data.decode(errors="replace")
        assert numbers.name(text).isprintable()
        assert len(numbers.names(text.split(","))) == len(text.split(","))

    return run


def _make_command(folder: Path) -> Run:
    """The commands that read any file, as they stand on a command line."""
    path = folder / "log"

    def run(data: bytes) -> None:
        path.write_bytes(data[1:])
        kind = data[:1] or b"\0"
        words = _COMMANDS[kind[0] % len(_COMMANDS)].replace("OUT", str(folder / "out")).split()
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            code = main([*words, str(path)])
        assert code in {0, 2}
        assert code == 0 or errors.getvalue().count("scalerl: error: ") == 1  # beside progress, where it takes long
        if code == 0 and "--json" in words:
            json.loads(out.getvalue(), parse_constant=_refuse)

    return run


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


def _commands() -> list[bytes]:
    logs = (*samples.tables()[:4], *samples.lines(), *samples.consoles()[:3], samples.trainer_states()[0])
    return [bytes([number % len(_COMMANDS)]) + log for number, log in enumerate((*logs, *logs))]


TARGETS = (
    Target("fit", _make_fit, _fits, ("\x01", "\x05", "\x08", "\x20"), cost=60),
    Target(
        "numbers",
        _make_numbers,
        lambda: [_as_bytes([1328.0, 0.4, 1e21]), _as_bytes([0.5, 0.4, 0.6]), b"\x05\x06\x07"],
        ("\x05", "\x06", "\x20", "/", ",", "\u202e"),
    ),
    Target("command-line", _make_command, _commands, (*NUMBER_WORDS, *JSON_WORDS), cost=80),
)
