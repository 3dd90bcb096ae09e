"""Datasets that once ended a reader with something else than one line; each was found by fuzzing (tests/fuzz)."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from scalerl.errors import InputError
from scalerl.tasks.data.cells import ABSENT, Key
from scalerl.tasks.records import Columns, open_records


@pytest.mark.parametrize("part", ["²", "٣", "1" * 5000, "-1", ""])
def test_a_place_in_a_list_that_is_no_number(part: str) -> None:
    assert Key("messages", (part,)).cell({"messages": ["a", "b", "c", "d"]}) is ABSENT


def table(offsets: tuple[int, ...] = (0, 1, 2)) -> pa.Table:
    """Two prompts that are not UTF-8."""
    buffers = [pa.py_buffer(struct.pack("<3i", *offsets)), pa.py_buffer(b"\xff\xfe")]
    return pa.table({"prompt": pa.StringArray.from_buffers(2, *buffers), "answer": ["a", "b"]})


def refuse(path: Path) -> str:
    with pytest.raises(InputError) as caught, open_records(path, Columns()) as records:
        list(records.read())
    return str(caught.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    assert "broken Parquet file" in refuse(tmp_path / "a.parquet")


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 1 << 30, 2), (0, -5, 2)])
def test_an_arrow_file_whose_offsets_point_anywhere(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    """Unchecked, they are read from wherever in memory they point to."""
    found = table(offsets)
    with ipc.new_file(tmp_path / "a.arrow", found.schema) as writer:
        writer.write_table(found)
    assert "broken Arrow file" in refuse(tmp_path / "a.arrow")


def test_an_arrow_file_with_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    found = pa.table({"prompt": ["a"], "answerxxx": ["b"]})
    with ipc.new_file(tmp_path / "whole", found.schema) as writer:
        writer.write_table(found)
    (tmp_path / "a.arrow").write_bytes((tmp_path / "whole").read_bytes().replace(b"answerxxx", b"answer\xff\xff\xff"))
    assert "broken Arrow file" in refuse(tmp_path / "a.arrow")


@pytest.mark.parametrize(
    "text",
    [
        '{"_data_files": 1}',
        '{"_data_files": [1]}',
        "[" * 100_000,
        '{"_data_files": [{"filename": "NAME"}]}'.replace("NAME", "x" * 300),
    ],
)
def test_a_damaged_folder_of_a_dataset(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert "dataset" in refuse(tmp_path)
