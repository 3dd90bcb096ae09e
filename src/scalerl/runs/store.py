"""Append-only JSON lines: metrics.jsonl and evals.jsonl of a run directory.

Used by the run directory. What the records mean is not known here. The crash contract:

- A record is one write of one whole line, handed to the operating system at once: it survives the death of the process.
- `offset` and `truncate` bring the file and its name to the disk first: a checkpoint that notes an offset never refers
  to lines that a power cut could still take. Records after the last `offset` may be lost then, and happen again.
- Where nothing happens again (events, decisions) a record is appended `to_disk`: it survives a power cut as well.
- What a crash tears off in the middle of a line is no record: `read` leaves it out, the next `append` removes it.
- A failed `append` (full disk) leaves the file as it was and raises `StorageError`.
- A link in the place of the file is refused: what is written or cut here is never a file elsewhere.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from scalerl.errors import InputError, StorageError
from scalerl.folder import flush_names
from scalerl.plain_file import check_ours
from scalerl.readers.json_lines import Record, last_record, last_records, read_records, stream_records

_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class Records:
    """One file. Any number of readers, one writer."""

    path: Path

    def append(self, record: Mapping[str, Any], *, to_disk: bool = False) -> None:
        """Add one line. Numbers that are not finite become null: unknown, never a broken file."""
        text = json.dumps(plain(record), allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
        line = text.encode(errors="backslashreplace") + b"\n"  # a path may be no UTF-8
        try:
            check_ours(self.path)
            with self.path.open("a+b", buffering=0) as stream:
                end = _whole_lines(stream)
                if end != stream.seek(0, os.SEEK_END):
                    stream.truncate(end)
                _write_or_undo(stream, line, end)
            if to_disk:
                self._flush()
        except OSError as error:
            raise StorageError.of(error, self.path) from None

    def read(self) -> list[Record]:
        """Every complete record; a line that is broken and not the torn end is an `InputError` with its number."""
        return read_records(self.path)

    def stream(self) -> Iterator[Record]:
        """The same, one after the other: for files that may be long."""
        return stream_records(self.path)

    def newest(self, most: int) -> list[Record]:
        """The last complete records, so many at most, oldest first; reads the end of the file only."""
        return last_records(self.path, most)

    def last(self) -> Record | None:
        """The last complete record; reads the end of the file only."""
        return last_record(self.path)

    def offset(self) -> int:
        """Bytes of complete records, now on the disk: what a checkpoint notes for `truncate`."""
        if not self.path.exists():
            return 0
        try:
            self._flush()
            with self.path.open("rb", buffering=0) as stream:
                return _whole_lines(stream)
        except OSError as error:
            raise StorageError.of(error, self.path) from None

    def truncate(self, offset: int) -> None:
        """Forget every record after `offset`, and a torn end."""
        if not self.path.exists() and offset == 0:
            return
        try:
            check_ours(self.path)
            self._check_offset(offset)
            with self.path.open("r+b", buffering=0) as stream:
                stream.truncate(offset)
            self._flush()
        except OSError as error:
            raise StorageError.of(error, self.path) from None

    def _flush(self) -> None:
        """What was written and the name of the file to the disk: the one is of no use without the other."""
        check_ours(self.path)
        with self.path.open("r+b", buffering=0) as stream:
            os.fsync(stream.fileno())
        flush_names(self.path.parent)

    def _check_offset(self, offset: int) -> None:
        """It must be the end of a line of this file; otherwise something else has written here."""
        where, size = str(self.path), self.path.stat().st_size if self.path.exists() else 0
        if not 0 <= offset <= size:
            raise InputError("the file is shorter than the checkpoint says", size, f"at least {offset} bytes", where)
        if offset:
            with self.path.open("rb") as stream:
                stream.seek(offset - 1)
                if stream.read(1) != b"\n":
                    raise InputError("no line ends where the checkpoint says", offset, "the end of a line", where)


def plain(value: Any) -> Any:
    """JSON values: numpy and torch scalars become numbers, what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _whole_lines(stream: BinaryIO | Any) -> int:
    """Bytes up to and with the last newline."""
    end = stream.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        stream.seek(start)
        newline = stream.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_or_undo(stream: BinaryIO | Any, line: bytes, end: int) -> None:
    """The whole line or nothing of it; giving back space needs no space."""
    try:
        written = 0
        while written < len(line):
            written += stream.write(line[written:])
    except OSError:
        with suppress(OSError):
            stream.truncate(end)
        raise
