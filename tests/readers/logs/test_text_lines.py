"""Lines of damaged text files: what is handed on, and what is counted."""

from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.readers.logs import text_lines as module
from scalerl.readers.logs.records import Tally
from scalerl.readers.logs.text_lines import REPLACED, Line, head_lines, text_lines


def lines(path: Path, data: bytes) -> tuple[list[Line], Tally]:
    path.write_bytes(data)
    tally = Tally()
    return list(text_lines(path, "log", tally)), tally


def test_numbers_are_those_of_an_editor(tmp_path: Path) -> None:
    found, tally = lines(tmp_path / "log", b"\xef\xbb\xbfone\r\n\r\n\ntwo\n")
    assert found == [Line(1, "one", True), Line(4, "two", True)]
    assert tally.skipped == {}


def test_the_last_line_may_be_torn(tmp_path: Path) -> None:
    found, _ = lines(tmp_path / "log", b"one\ntw")
    assert found == [Line(1, "one", True), Line(2, "tw", False)]


def test_progress_bars_and_colours(tmp_path: Path) -> None:
    data = b"\r 10%|# | 1/10\r 20%|## | 2/10\r\x1b[32mINFO\x1b[0m step=1\x1b[A\x1b]0;title\x07\n"
    found, _ = lines(tmp_path / "log", data)
    assert [line.text for line in found] == [" 10%|# | 1/10", " 20%|## | 2/10", "INFO step=1"]
    assert {line.number for line in found} == {1}


def test_bytes_that_are_not_utf8_cost_nothing_else(tmp_path: Path) -> None:
    found, tally = lines(tmp_path / "log", b"caf\xe9 step=1\nok\n")
    assert [line.text for line in found] == [f"caf{REPLACED} step=1", "ok"]
    assert tally.skipped == {}


def test_nul_bytes_are_counted_and_what_is_beside_them_is_kept(tmp_path: Path) -> None:
    found, tally = lines(tmp_path / "log", b"one\n" + bytes(5000) + b"two\n" + bytes(10) + b"\nthree\n")
    assert [line.text for line in found] == ["one", "two", "three"]
    assert tally.notes() == ["skipped 2 lines with NUL bytes (which were ignored) (first: line 2)"]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 18])
def test_blocks_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    found, _ = lines(tmp_path / "log", "ä\r\nöü\n\nß\ré\nend".encode())
    assert [(line.number, line.text) for line in found] == [(1, "ä"), (2, "öü"), (4, "ß"), (4, "é"), (5, "end")]


def test_a_line_too_long_is_skipped_and_the_next_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(module, "LONGEST_LINE_BYTES", 10_000)
    found, tally = lines(tmp_path / "log", b"one\n" + b"x" * 50_000 + b"\ntwo\n")
    assert [(line.number, line.text) for line in found] == [(1, "one"), (3, "two")]
    assert list(tally.skipped.values()) == [1]
    assert list(tally.first.values()) == ["line 2"]


def test_progress_is_told_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 100)
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\n" * 50)
    told: list[tuple[int, int]] = []
    assert len(list(text_lines(path, "log", Tally(lambda done, total: told.append((done, total)))))) == 50
    assert told[0] == (0, 550)
    assert told[-1] == (550, 550)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert lines(tmp_path / "log", b"")[0] == []


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^mine: no such file$"):
        next(text_lines(tmp_path / "none", "mine", Tally()))
    with pytest.raises(InputError, match=r"^mine: a folder, not a file$"):
        next(text_lines(tmp_path, "mine", Tally()))


def test_the_head_leaves_out_a_line_that_goes_on() -> None:
    assert head_lines(b"\none\ntwo\nthr") == ["one", "two"]
