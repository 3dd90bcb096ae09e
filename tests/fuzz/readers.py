"""Fuzz targets of the readers: any bytes as a log, a table, a folder; every option as any text.

A file is read as `scalerl fit` reads it and listed as `scalerl read --list` does; what comes out must be finite numbers
that JSON and UTF-8 can hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scalerl.readers.curves import list_metrics, read_curves, read_table
from scalerl.series import Series

from . import samples
from .target import JSON_WORDS, NUMBER_WORDS, Run, Target, as_text, check_json, each, fields, pack, unpack, write_files

_TABLE_WORDS = (
    *NUMBER_WORDS, ",", "\t", ";", "|", '"', '""', "\r", "\r\n", "step", "pass_rate", "flops", "n", "accuracy",
    "val/acc", "\ufeff", "_step", "_timestamp", " - ", "__MIN", "Step",
)  # fmt: skip
_LINE_WORDS = (*JSON_WORDS, *_TABLE_WORDS, '"step":', '"data": {', '"metrics"', "}\n{", '"_step":', '"_runtime":')
_CONSOLE_WORDS = (
    *NUMBER_WORDS, "step:", " - ", "{'", "': ", "'}", "np.float64(", "tensor(", "\x1b[0m", "\r", "%|", "/12 [",
    "Step 3 | ", "iteration: ", "\0", "[repeated 3x across cluster]", "2026-03-01 10:00:00", "epoch",
    "0000-00-00 99:99:99",
)  # fmt: skip
_FOLDER = (
    "trainer_state.json", "checkpoint-8/trainer_state.json", "checkpoint-x/trainer_state.json", "meta.yaml",
    "metrics/acc", "metrics/a/b", "tags/mlflow.runName", "log.csv", "log.jsonl", "output.log",
    "events.out.tfevents.1", "wandb/run-1/run-abc.wandb",
)  # fmt: skip


def check(series: Sequence[Series]) -> None:
    """What a reader may hand on."""
    for one in series:
        assert np.isfinite(one.compute).all()
        assert np.isfinite(one.value).all()
        assert (np.diff(one.compute) > 0).all()
        assert one.n is None or (one.n > 0).all()
        check_json(one.to_dict())


def read_both(path: Path, **options: Any) -> None:
    """As a curve and as a list."""
    each(lambda: check(read_table(path, **options)), lambda: _list(path))


def _list(path: Path) -> None:
    for listing in list_metrics(path):
        check_json(
            [listing.name, listing.kind, listing.notes, [metric.name for metric in listing.survey.metrics.values()]]
        )


def _file(name: str, *, made: Callable[[bytes], bytes] = bytes) -> Callable[[Path], Run]:
    """The bytes as a file of this name; `made` may wrap them first."""

    def make(folder: Path) -> Run:
        path = folder / name

        def run(data: bytes) -> None:
            path.write_bytes(made(data))
            read_both(path, bounds=None)

        return run

    return make


def _events(data: bytes) -> bytes:
    """Raw, or payloads in intact frames: behind a wrong checksum nothing would ever be decoded."""
    if data[:1] == b"R":
        return data[1:]
    return b"".join(map(samples.event_frame, (samples.events()[0], *samples.divided(data[1:]))))


def _history(data: bytes) -> bytes:
    return data[1:] if data[:1] == b"R" else samples.wandb_file(samples.divided(data[1:]))


def _event_samples() -> list[bytes]:
    whole = b"".join(map(samples.event_frame, samples.events()))
    return [b"R" + whole, b"F" + samples.joined(samples.events()[1:])]


def _history_samples() -> list[bytes]:
    return [b"R" + samples.wandb_file(samples.histories()), b"F" + samples.joined(samples.histories())]


def _make_folder(folder: Path) -> Run:
    place = folder / "logs"
    place.mkdir(exist_ok=True)

    def run(data: bytes) -> None:
        write_files(place, unpack(data, _FOLDER), _FOLDER)
        read_both(place, bounds=None)

    return run


def _folder_samples() -> list[bytes]:
    state, points = samples.trainer_states()[0], "".join(f"{1000 * s} {samples.rate(s)} {s}\n" for s in samples.STEPS)
    run = {
        "meta.yaml": "run_id: abc\nrun_name: 'a'\nlifecycle_stage: active\n",
        "metrics/acc": points,
        "metrics/a/b": points,
    }
    return [
        pack({"trainer_state.json": state}),
        pack({"checkpoint-8/trainer_state.json": state, "checkpoint-x/trainer_state.json": state}),
        pack(run | {"tags/mlflow.runName": "b"}),
        pack({"log.csv": samples.tables()[3], "output.log": b"nothing\n"}),
        pack({"log.jsonl": samples.lines()[1]}),
        pack({"output.log": samples.consoles()[0]}),
        pack({"events.out.tfevents.1": b"".join(map(samples.event_frame, samples.events()))}),
        pack({"wandb/run-1/run-abc.wandb": samples.wandb_file(samples.histories())}),
    ]


def _make_options(folder: Path) -> Run:
    """The table is the last field; before it x, y, n, by, duplicates, restarts and numbers."""
    path = folder / "table.csv"

    def run(data: bytes) -> None:
        x, y, n, by, duplicates, restarts, *rest = (fields(data) + [""] * 8)[:8]
        numbers = struct.unpack("<4d", rest[0].encode("utf-8", "surrogateescape").ljust(32, b"\0")[:32])
        path.write_bytes(rest[1].encode("utf-8", "surrogateescape"))
        options: dict[str, Any] = {
            name: text for name, text in zip(("x", "y", "n", "by"), (x, y, n, by), strict=True) if text
        }
        options["bounds"] = None if numbers[0] == 0 else (numbers[0], numbers[1])
        if duplicates:
            options["duplicates"] = duplicates
        if restarts:
            options["restarts"] = restarts
        if numbers[2]:
            options["gpus" if numbers[3] > 0 else "gpu_hours_per_step"] = numbers[2]
        read_both(path, **options)

    return run


def _option_samples() -> list[bytes]:
    table, lines = samples.tables()[2], samples.lines()[2]
    bounds, gpus = struct.pack("<4d", 0.0, 1.0, 0, 0), struct.pack("<4d", 0.0, 0.0, 8.0, 1.0)
    return [
        b"\0".join([b"flops", b"accuracy", b"n", b"seed", b"", b"", b"", table]),
        b"\0".join([b"", b"", b"64", b"", b"mean", b"", b"", table]),
        b"\0".join([b"", b"", b"none", b"", b"seeds", b"continue", bounds.replace(b"\0", b"\1"), table]),
        b"\0".join([b"steps", b"eval_acc", b"", b"", b"last", b"replace", b"", lines]),
        b"\0".join([b"", b"eval_acc", b"", b"", b"", b"", gpus.replace(b"\0", b"\1"), lines]),
    ]


def _make_path(folder: Path) -> Run:
    """Any text as a path below a folder; none of it leaves the folder."""
    (folder / "a.csv").write_bytes(samples.tables()[0])
    (folder / "mlflow.db").write_bytes(samples.databases()[0])

    def run(data: bytes) -> None:
        text = as_text(data).replace("..", "").replace("~", "")
        if text.startswith("wandb:"):
            from scalerl.readers.logs.wandb_online import WandbOnlineLog, is_wandb_address

            assert is_wandb_address(text)
            WandbOnlineLog(text)
            return
        paths = [f"{folder}/{part}" for part in text.split("\n")]
        check([one for seeds in read_curves(paths).values() for one in seeds])

    return run


TARGETS = (
    Target("read-csv", _file("log.csv"), samples.tables, _TABLE_WORDS, cost=4),
    Target("read-jsonl", _file("log.jsonl"), samples.lines, _LINE_WORDS, cost=4),
    Target(
        "read-json",
        _file("trainer_state.json"),
        samples.trainer_states,
        (*JSON_WORDS, '"log_history": [', "}, {"),
        cost=4,
    ),
    Target("read-console", _file("output.log"), samples.consoles, _CONSOLE_WORDS, cost=5),
    Target("read-parquet", _file("log.parquet"), samples.parquets, ("PAR1", "step", "_step", "\0"), cost=8),
    Target(
        "read-tensorboard",
        _file("events.out.tfevents.1", made=_events),
        _event_samples,
        ("scalars", "\xff\xff"),
        cost=6,
    ),
    Target("read-wandb", _file("run-abc.wandb", made=_history), _history_samples, JSON_WORDS, cost=4),
    Target("read-mlflow-database", _file("mlflow.db"), samples.databases, ("u1", "active", "\xff\xff\xff\xff"), cost=4),
    Target(
        "read-folder", _make_folder, _folder_samples, (*_LINE_WORDS, "\n=== ", "=== meta.yaml\nrun_id: a\n"), cost=8
    ),
    Target(
        "read-options",
        _make_options,
        _option_samples,
        (*_TABLE_WORDS, "mean", "seeds", "none", "tokens", "hours", "\0"),
        cost=3,
    ),
    Target(
        "read-path",
        _make_path,
        lambda: [b"a.csv", b"mlflow.db#u1", b"a.csv\na.csv", b"wandb:e/p/r", b"https://wandb.ai/e/p/runs/r"],
        ("#", "wandb:", "/runs/", "\0", "/", "a.csv", "x" * 300),
        cost=2,
    ),
)
