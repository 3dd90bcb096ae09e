"""Lines of a text log that may be damaged: bytes in, numbered text out, a few hundred kilobytes in memory.

Called by `json_log`, `console` and `csv_log`. Knows nothing about metrics. What a log on disk can suffer and what
happens to it here:

- a line without its line end (the last one, still being written): handed on with `whole` False;
- bytes that are not UTF-8: replaced by U+FFFD. Text that nobody needs (a sampled answer) may hold them; whoever takes a
  name or a number from a line must not take one with U+FFFD in it;
- NUL bytes, which a crashed machine leaves: removed and counted; what else the line holds is handed on;
- progress bars: a carriage return ends a piece of a line as a line end does;
- terminal colours and cursor movements: removed;
- a line beyond 16 MiB: skipped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scalerl.errors import InputError
from scalerl.readers.logs.records import Tally

BLOCK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 1 << 24
REPLACED = "\N{REPLACEMENT CHARACTER}"

_BOM = b"\xef\xbb\xbf"
_ENDS = re.compile(rb"([\r\n])")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


class Line(NamedTuple):
    """A line, or a piece of one that ends at a carriage return."""

    number: int
    text: str
    whole: bool
    """False when the file ends before the line does: its last number may be cut off."""

    @property
    def where(self) -> str:
        return f"line {self.number:,}"


def open_log(path: Path, label: str) -> BinaryIO:
    """Open a file, or say in one line why that is not possible."""
    try:
        return path.open("rb")
    except IsADirectoryError:
        raise InputError("a folder, not a file", where=label) from None
    except FileNotFoundError:
        raise InputError("no such file", where=label) from None
    except PermissionError:
        raise InputError("permission to read the file denied", where=label) from None
    except OSError as error:
        raise InputError(f"the file cannot be opened ({error.strerror})", where=label) from None


def blocks(path: Path, label: str, tally: Tally) -> Iterator[bytes]:
    """The bytes of a file. A disk that fails in the middle ends it and is counted."""
    with open_log(path, label) as stream:
        total, done = path.stat().st_size, 0
        tally.read(done, total)
        while True:
            try:
                block = stream.read(BLOCK_BYTES)
            except OSError as error:
                tally.skip(f"unreadable parts ({error.strerror})", f"byte {done + 1:,}")
                return
            if not block:
                return
            done += len(block)
            tally.read(done, max(done, total))
            yield block


def text_lines(path: Path, label: str, tally: Tally) -> Iterator[Line]:
    """Every line that is not blank."""
    return (line for line in pieces(path, label, tally) if line.text and not line.text.isspace())


def pieces(path: Path, label: str, tally: Tally) -> Iterator[Line]:
    """Blank lines too: a progress bar is wiped by blanks. Numbers count line ends, as an editor does."""
    number = 1
    for raw, end in _raw_lines(blocks(path, label, tally), tally):
        yield Line(number, _text(raw, number, tally), whole=bool(end))
        number += end == b"\n"


def head_lines(head: bytes) -> list[str]:
    """The lines of a first block, for recognising a format; the last one only if its line end is there."""
    tally = Tally()
    texts = [_text(raw, 1, tally) for raw, end in _raw_lines(iter([head]), tally) if end]
    return [text for text in texts if text and not text.isspace()]


def _raw_lines(data: Iterator[bytes], tally: Tally) -> Iterator[tuple[bytes, bytes]]:
    """Each line with what ended it: a line end, a carriage return, or nothing at the end of the file."""
    rest = bytearray()
    lost = False  # inside a line that is too long
    number = 1
    first = True
    for block in data:
        *pairs, last = _split(block.removeprefix(_BOM) if first else block)
        first = False
        for raw, end in pairs:
            yield (b"" if lost else bytes(rest) + raw if rest else raw), end
            number += end == b"\n"
            rest.clear()
            lost = False
        if not lost:
            rest += last[0]
        if len(rest) > LONGEST_LINE_BYTES:
            tally.skip(f"lines longer than {LONGEST_LINE_BYTES >> 20} MiB", f"line {number:,}")
            rest.clear()
            lost = True
    if rest:
        yield bytes(rest), b""


def _split(block: bytes) -> list[tuple[bytes, bytes]]:
    """Lines with their ends; the last one has none and may be empty."""
    if b"\r" not in block:
        *lines, last = block.split(b"\n")
        return [*((line, b"\n") for line in lines), (last, b"")]
    parts = [*_ENDS.split(block), b""]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _text(raw: bytes, number: int, tally: Tally) -> str:
    if b"\0" in raw:
        tally.skip("lines with NUL bytes (which were ignored)", f"line {number:,}")
        raw = raw.replace(b"\0", b"")
    text = raw.decode(errors="replace")
    return _ESCAPES.sub("", text) if "\x1b" in text else text
