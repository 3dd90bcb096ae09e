"""Our own JSON lines: piece by piece or at once the same records, and what grows is not read twice."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.readers.json_lines import PIECE_BYTES, Tail, last_record, last_records, read_records, stream_records


def write(path: Path, records: list[dict[str, Any]], torn: str = "") -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records) + torn)
    return path


def some(count: int) -> list[dict[str, Any]]:
    rng = random.Random(count)
    return [{"step": i, "text": "ä" * rng.randrange(30), "values": [None, rng.random()]} for i in range(count)]


@pytest.mark.parametrize("torn", ["", '{"step": 9', "\x00"])
@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_piece_by_piece_are_the_same_records(tmp_path: Path, torn: str, piece: int) -> None:
    records = some(50)
    path = write(tmp_path / "a.jsonl", records, torn)
    tail, pieces = Tail(path), []
    while more := tail.more(piece):
        pieces.append(more)
    assert [record for more in pieces for record in more] == records == read_records(path)
    assert len(pieces) == {1: 50, 1 << 20: 1}.get(piece, len(pieces))
    assert not tail.behind


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_one_in_so_many(tmp_path: Path, piece: int) -> None:
    path = write(tmp_path / "a.jsonl", some(56 * 8))
    tail, found = Tail(path), []
    while tail.behind:
        found += [record["step"] for record in tail.more(piece, every=8)]
    assert [step // 8 for step in found] == list(range(56))
    assert {step % 8 for step in found} == set(range(8))


def test_what_is_appended_is_read_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", some(10))
    tail = Tail(path)
    assert len(tail.more()) == 10
    assert tail.more() == []
    with path.open("a") as stream:
        stream.write('{"step": 10}\n{"st')
    assert tail.more() == [{"step": 10}]
    with path.open("a") as stream:
        stream.write('ep": 11}\n')
    assert tail.more() == [{"step": 11}]
    with path.open("a") as stream:
        stream.write("nonsense\n")
    for _ in range(2):  # an error is no progress
        with pytest.raises(InputError, match="line 13"):
            tail.more()


@pytest.mark.parametrize("change", ["cut", "rewritten", "replaced", "gone"])
def test_a_file_that_was_cut_back_or_replaced_is_noticed(tmp_path: Path, change: str) -> None:
    path = write(tmp_path / "a.jsonl", some(100))
    tail = Tail(path)
    assert not tail.is_lost
    tail.more()
    assert not tail.is_lost
    with path.open("a") as stream:
        stream.write('{"step": 100}\n')
    assert not tail.is_lost
    if change == "cut":
        write(path, some(100)[:50])
    elif change == "rewritten":  # cut back, and as long again by now
        write(path, [*some(100)[:98], *({"step": i, "text": "other"} for i in range(98, 200))])
    elif change == "replaced":
        write(tmp_path / "b.jsonl", some(101)).replace(path)
    else:
        path.unlink()
    assert tail.is_lost


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = Tail(path)
    assert (tail.more(), tail.behind, tail.is_lost) == ([], False, False)
    assert (read_records(path), last_record(path), last_records(path, 3)) == ([], None, [])
    write(path, some(3))
    assert tail.more() == some(3)


def test_whether_there_is_more(tmp_path: Path) -> None:
    tail = Tail(write(tmp_path / "a.jsonl", some(50)))
    tail.more(100)
    assert tail.behind
    tail.more()
    assert not tail.behind


def test_the_last_records(tmp_path: Path) -> None:
    records = some(3000)  # some blocks of what is read from the end
    path = write(tmp_path / "a.jsonl", records, '{"torn')
    assert last_record(path) == records[-1]
    assert last_records(path, 2500) == records[-2500:]
    assert last_records(path, 5000) == records
    with path.open("a") as stream:
        stream.write("\n")
    with pytest.raises(InputError, match="the last line"):
        last_records(path, 2)
    with path.open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(InputError, match="line 2 from the end"):
        last_records(path, 2)
    assert last_record(path) == {}


@pytest.mark.parametrize(
    "line", ["", "[]", "3", '{"a": NaN}', '{"a": 1} {"b": 2}', "{" * 5000, '{"a": "\udcff"}', "\xff"]
)
def test_broken_lines_are_refused_with_their_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"step": 0}\n' + line.encode("latin-1" if line == "\xff" else "utf-8", "surrogateescape") + b"\n{}\n"
    )
    with pytest.raises(InputError, match=r"a\.jsonl, line 2"):
        read_records(path)
    with pytest.raises(InputError, match=r"a\.jsonl, line 2"):
        list(stream_records(path))


def test_lines_with_blanks_around_them_are_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b' {"a": 1}\r\n{"a": 2} \n')
    assert read_records(path) == [{"a": 1}, {"a": 2}]


def test_a_long_file_takes_the_memory_of_a_piece(tmp_path: Path) -> None:
    line = json.dumps({f"metric_{i}": i / 7 for i in range(40)}) + "\n"
    path = tmp_path / "a.jsonl"
    path.write_text(line * (8 * PIECE_BYTES // len(line)))
    tracemalloc.start()
    try:
        count = sum(1 for _ in stream_records(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 8 * PIECE_BYTES // len(line)
    assert peak < 16 * PIECE_BYTES  # the records of one piece; all of them would take some sixty
