"""Opening a file and finding out what it is: bytes in, decoded text blocks (or an open Parquet file) out.

Called by `table`. Knows nothing about columns or curves. Text is handed on in blocks of some hundred kilobytes that end
at a line end, so that a huge file never has to be in memory, and a bad byte still has a line number.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from scalerl.errors import InputError

Format = Literal["csv", "jsonl", "parquet"]
Block = TypeVar("Block")

BLOCK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 1 << 28
"""A line beyond this is taken for a broken file rather than read into memory."""

ALLOWED = "CSV, JSONL or Parquet, not compressed"
_BOM = b"\xef\xbb\xbf"


@dataclass
class Source:
    """An open file, with its first block already read."""

    path: str
    stream: BinaryIO
    head: bytes
    label: str = field(default="")
    """How messages name it."""
    ends_open: bool = False
    """After the text was read: its last line has no line end."""

    def __post_init__(self) -> None:
        self.label = self.label or self.path

    @property
    def format(self) -> Format:
        """Recognised by content; the extension only decides that broken JSON is not mistaken for CSV."""
        if self.head.startswith(b"PAR1"):
            return "parquet"
        if self.head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError("not UTF-8 text", "UTF-16", "UTF-8", self.label)
        if b"\0" in self.head:
            raise InputError("a binary file", allowed=ALLOWED, where=self.label)
        text = self.head.removeprefix(_BOM).lstrip()
        if not text:
            raise InputError("the file is empty", allowed=ALLOWED, where=self.label)
        if text.startswith(b"["):
            raise InputError("a JSON list", allowed="one JSON object per line (JSONL)", where=self.label)
        return "jsonl" if text.startswith(b"{") or self.path.lower().endswith((".jsonl", ".ndjson")) else "csv"

    def text(self) -> Iterator[str]:
        """Decoded blocks, each ending at a line end (the last one perhaps not)."""
        lines, position = 0, 0
        for block in self._blocks():
            try:
                if b"\0" in block:
                    raise InputError("a binary file", allowed=ALLOWED, where=self.label)
                yield block.removeprefix(_BOM).decode() if position == 0 else block.decode()
            except UnicodeDecodeError as error:
                line = lines + block.count(b"\n", 0, error.start) + 1
                where = f"{self.label}, line {line}, byte {position + error.start + 1} of the file"
                raise InputError("not UTF-8 text", f"byte 0x{block[error.start]:02x}", "UTF-8", where) from None
            lines += block.count(b"\n")
            position += len(block)

    @property
    def age_s(self) -> float:
        """Seconds since it was last written; infinite for what is no file.

        A file of the future is as old as the clock is behind: it was written before the clock went back.
        """
        status = os.fstat(self.stream.fileno()) if self.path != "-" else None
        return float("inf") if status is None else abs(time.time() - status.st_mtime)

    def _blocks(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        piece = self.head
        while piece:
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield b"".join([*rest, piece[:cut]])
                rest = []
            rest.append(piece[cut:])
            if sum(map(len, rest)) > LONGEST_LINE_BYTES:
                raise InputError(
                    "a line is too long", allowed=f"{LONGEST_LINE_BYTES >> 20} MiB a line", where=self.label
                )
            piece = self.stream.read(BLOCK_BYTES)
        if last := b"".join(rest):
            self.ends_open = True
            yield last


def first_block(blocks: Iterator[Block], source: Source) -> Block:
    """The first rows of a text; one that holds nothing but blanks of some kind is as empty as an empty one."""
    block = next(blocks, None)
    if block is None:
        raise InputError("the file is empty", allowed=ALLOWED, where=source.label)
    return block


@contextmanager
def open_source(path: str | Path) -> Iterator[Source]:
    """Open `path` ("-" is standard input), or say in one line why it cannot be opened."""
    name = str(path)
    if name == "-":
        yield _read_head(name, sys.stdin.buffer, "standard input")
        return
    with _open(name) as stream:
        yield _read_head(name, stream, name)


def _open(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except IsADirectoryError:
        allowed = f"a file ({ALLOWED}), or a run directory"
        raise InputError("a folder, not a file", allowed=allowed, where=name) from None
    except FileNotFoundError:
        raise InputError("no such file", allowed=ALLOWED, where=name) from None
    except PermissionError:
        raise InputError("permission to read the file denied", where=name) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"the file cannot be opened ({reason})", where=repr(name[:80])) from None


def _read_head(name: str, stream: BinaryIO, label: str) -> Source:
    try:
        return Source(name, stream, stream.read(BLOCK_BYTES), label)
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", where=label) from None
