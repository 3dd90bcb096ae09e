"""JSON lines: what was appended comes back, whatever a crash tears off, and a full disk tears off nothing."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl.errors import InputError, StorageError
from scalerl.runs import Records

from .conftest import FullDisk

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6)


def written(folder: str | Path, records: list[dict[str, Any]]) -> Records:
    store = Records(Path(folder) / "metrics.jsonl")
    for record in records:
        store.append(record)
    return store


@settings(max_examples=40)
@given(RECORDS)
def test_what_was_appended_comes_back(records: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = written(folder, records)
        assert store.read() == records
        assert store.last() == (records[-1] if records else None)


@settings(max_examples=40)
@given(RECORDS, st.data())
def test_any_torn_file_reads_as_a_prefix_and_goes_on_from_there(records: list[dict[str, Any]], data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = written(folder, [*records, {"last": True}])
        whole = store.path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        store.path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        assert store.read() == [*records, {"last": True}][:kept]
        assert store.offset() == len(b"".join(whole.splitlines(keepends=True)[:kept]))
        store.append({"again": 1})
        assert store.read() == [*[*records, {"last": True}][:kept], {"again": 1}]


@settings(max_examples=40)
@given(RECORDS, RECORDS)
def test_truncate_forgets_what_came_after_the_offset(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = written(folder, before)
        offset = store.offset()
        written(folder, after)
        with store.path.open("ab") as stream:
            stream.write(b'{"torn": ')
        store.truncate(offset)
        assert store.read() == before
        assert store.offset() == offset == store.path.stat().st_size


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    store = Records(tmp_path / "metrics.jsonl")
    assert (store.read(), store.last(), store.offset()) == ([], None, 0)
    store.truncate(0)
    assert not store.path.exists()


def test_the_last_record_is_found_in_a_long_file(tmp_path: Path) -> None:
    fat = {"text": "x" * 200_000}
    store = written(tmp_path, [{"step": 1}, fat, {"step": 3}])
    assert store.last() == {"step": 3}
    written(tmp_path, [fat])
    assert store.last() == fat


def test_not_finite_is_null_and_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    record = {"a": math.nan, "b": [math.inf, np.float32(0.5)], "c": np.int64(3), "d": {"e": -math.inf}, "f": (1, 2)}
    store = written(tmp_path, [record])
    assert store.read() == [{"a": None, "b": [None, 0.5], "c": 3, "d": {"e": None}, "f": [1, 2]}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"{broken", "broken JSON"), (b"[1]", "not a JSON object"), (b"", "broken JSON"), (b'{"a": NaN}', "broken JSON")],
)
def test_a_broken_line_elsewhere_is_an_error_with_its_number(tmp_path: Path, line: bytes, reason: str) -> None:
    store = Records(tmp_path / "metrics.jsonl")
    store.path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(InputError, match=rf"metrics.jsonl, line 2: {reason}"):
        store.read()


def test_an_offset_that_does_not_fit_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    store = written(tmp_path, [{"step": 1}, {"step": 2}])
    before = store.path.read_bytes()
    with pytest.raises(InputError, match=r"metrics.jsonl: the file is shorter than the checkpoint says: got 24"):
        store.truncate(1000)
    with pytest.raises(InputError, match=r"no line ends where the checkpoint says: got 5"):
        store.truncate(5)
    assert store.path.read_bytes() == before
    with pytest.raises(InputError, match="shorter"):
        Records(tmp_path / "nothing.jsonl").truncate(1)


def test_a_full_disk_is_one_error_and_tears_nothing(tmp_path: Path, full_disk: FullDisk) -> None:
    store = written(tmp_path, [{"step": 1}])
    before = store.path.read_bytes()
    with full_disk(len(before) + 10), pytest.raises(StorageError, match=r"metrics.jsonl: cannot be written \(File too"):
        store.append({"step": 2, "text": "long enough"})
    assert store.path.read_bytes() == before
    store.append({"step": 2})
    assert [record["step"] for record in store.read()] == [1, 2]


def test_a_text_that_is_no_utf_8_is_written_all_the_same(tmp_path: Path) -> None:
    """The name of a folder may be of any bytes, and events name files."""
    store = written(tmp_path, [{"message": os.fsdecode(b"runs/\xff: damaged"), "step": 1}])
    assert store.read() == [{"message": "runs/\udcff: damaged", "step": 1}]


def test_a_link_is_neither_written_nor_cut(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("precious, without an end")
    store = Records(tmp_path / "metrics.jsonl")
    store.path.symlink_to("letter")
    for call in (lambda: store.append({"step": 1}), lambda: store.truncate(0), store.offset):
        with pytest.raises(StorageError, match=r"metrics.jsonl: cannot be written \(a link, not a file\)"):
            call()
    assert (tmp_path / "letter").read_text() == "precious, without an end"


def test_a_line_is_plain_json(tmp_path: Path) -> None:
    store = written(tmp_path, [{"name": "größe", "step": 1}])
    assert store.path.read_text(encoding="utf-8") == '{"name": "größe", "step": 1}\n'
    assert json.loads(store.path.read_text(encoding="utf-8"))["step"] == 1
