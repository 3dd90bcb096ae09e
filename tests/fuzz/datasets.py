"""Fuzz targets of datasets: rows of any shape in every layout, Parquet and Arrow, traces for supervised training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from scalerl.errors import InputError
from scalerl.supervised.traces import read_traces
from scalerl.tasks.data.layouts import LAYOUTS
from scalerl.tasks.data.survey import Question, inspect
from scalerl.tasks.files import FileTask
from scalerl.tasks.records import Columns, open_records

from . import samples
from .target import JSON_WORDS, Run, Target, check_json, each, pack, unpack, write_files

_WORDS = (
    *JSON_WORDS, '"prompt":', '"answer":', '"problem":', '"question":', '"solution":', '"reward_model":',
    '"ground_truth":', '"messages":', '"role": "user"', '"content":', '"conversations":', '"from": "gpt"', '"value":',
    '"tools":', "####", "\\\\boxed{1}", '"tests":', '"input_output":', '"starter_code":', '"metadata":', "}\n{",
    '"completion":',
)  # fmt: skip
_FOLDER = (
    "dataset_dict.json", "state.json", "train/state.json", "train/data-00000-of-00001.arrow",
    "data-00000-of-00001.arrow", "train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl", "test.jsonl",
)  # fmt: skip


def read_all(path: Path) -> None:
    """As a task reads it and as `scalerl data inspect` does, in every layout."""
    layouts = [partial(_records, path, name) for name in ("auto", *LAYOUTS)]
    each(lambda: _inspect(path), lambda: _task(path), *layouts)


def _records(path: Path, layout: str) -> None:
    for tables in (False, True):
        with open_records(path, Columns(layout)) as records:
            for record in records.read(tables=tables):
                if isinstance(record, InputError):
                    assert "\n" not in str(record)
                else:
                    f"{record.prompt}{record.answer}".encode()


def _inspect(path: Path) -> None:
    check_json(inspect(Question(str(path), Columns("auto"), "number", checked=4)))


def _task(path: Path) -> None:
    task = FileTask(path=str(path), layout="auto", verifier="exact", skip_unusable=True, whole=True)
    for problem in task.problems("held_out")[:3]:
        task.verify(problem, f"</think>{problem.answer}")


def _make_file(name: str) -> Callable[[Path], Run]:
    def make(folder: Path) -> Run:
        path = folder / name

        def run(data: bytes) -> None:
            path.write_bytes(data)
            read_all(path)

        return run

    return make


def _make_folder(folder: Path) -> Run:
    place = folder / "data"
    place.mkdir(exist_ok=True)

    def run(data: bytes) -> None:
        write_files(place, unpack(data, _FOLDER), _FOLDER)
        _records(place, "auto")

    return run


def _make_traces(folder: Path) -> Run:
    path = folder / "traces.jsonl"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        for trace in read_traces(path):
            trace.question.encode()

    return run


def _folders() -> list[bytes]:
    row, named = '{"prompt": "a", "answer": "b"}', '{"_data_files": [{"filename": "%s"}]}'
    return [
        pack(
            {
                "dataset_dict.json": '{"splits": ["train"]}',
                "train/state.json": named % "data-00000-of-00001.arrow",
                "train/data-00000-of-00001.arrow": samples.arrows()[1],
            }
        ),
        pack({"state.json": named % "test.jsonl", "test.jsonl": row}),
        pack({name: row for name in _FOLDER if name.startswith("train-")}),
    ]


def _traces() -> list[bytes]:
    return [
        b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": []}\n',
        b'{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n',
        b'{"prompt": "a", "completion": "b"}\n',
        b'{"prompt": [{"role": "user", "content": [{"text": "a"}]}], "completion": [{"from": "gpt", "value": "b"}]}\n',
    ]


TARGETS = (
    Target(
        "data-jsonl",
        _make_file("data.jsonl"),
        lambda: samples.files(samples.TESTS / "data", "*.jsonl", 2000),
        _WORDS,
        cost=12,
    ),
    Target("data-arrow", _make_file("data.arrow"), samples.arrows, ("PAR1", "ARROW1", "\xff\xff\xff\xff"), cost=15),
    Target(
        "data-folder", _make_folder, _folders, (*_WORDS, "=== state.json\n", '"_data_files":', '"filename":'), cost=4
    ),
    Target("data-traces", _make_traces, _traces, _WORDS, cost=2),
)
