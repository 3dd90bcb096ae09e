"""Append-only files of JSON objects, one a line, as our own runs write them: reading with a torn end tolerated.

Called by `run_directory` here and by the store of `scalerl.runs`, which writes such files. Other people's JSONL is read
by `jsonl`. The contract: a record counts once its newline is there. Whatever stands behind the last newline was torn
off by a crash and is no record; anything else that is broken is an error with its line. No file is ever in memory as a
whole, unless all its records are asked for at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from scalerl.errors import InputError
from scalerl.plain_file import check_readable

Record = dict[str, Any]
PIECE_BYTES = 1 << 20
"""Read at a time, unless a line is longer."""
_TAIL_BYTES = 1 << 16
_SEAM_BYTES = 1 << 10
"""Of what was read last: enough to tell whether it is still there. A line has the time and the number of its step."""

_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole part, fill the unit interval evenly."""


def read_records(path: Path) -> list[Record]:
    """Every complete record; none when the file is not there."""
    return list(stream_records(path))


def stream_records(path: Path) -> Iterator[Record]:
    """Every complete record, one after the other: ten million of them take no more memory than a thousand."""
    tail = Tail(path)
    while records := tail.more():
        yield from records


def last_record(path: Path) -> Record | None:
    """The last complete record, without reading the lines before it; None when there is none."""
    return next(iter(last_records(path, 1)), None)


def last_records(path: Path, most: int) -> list[Record]:
    """The last complete records, so many at most, without reading the lines before them."""
    try:
        check_readable(path)
        with path.open("rb") as stream:
            end = stream.seek(0, 2)
            data, start = b"", end
            while start > 0 and data.count(b"\n") <= most:
                start = max(0, start - max(_TAIL_BYTES, len(data)))
                stream.seek(start)
                data = stream.read(end - start)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from None
    lines = data.split(b"\n")[:-1][-most:]
    return [parse_record(line, f"{path}, {_from_the_end(back)}") for back, line in enumerate(lines, 1 - len(lines))]


class Tail:
    """A file that grows, read piece by piece: each call goes on where the one before it stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.behind = True
        """Whether there was more to read than was asked for."""
        self._offset, self._lines, self._seam = 0, 0, b""

    def more(self, most_bytes: int = PIECE_BYTES, every: int = 1) -> list[Record]:
        """The next complete records, of about so many bytes; none: that is all there is at the moment.

        With `every` one in so many is enough, and the lines between them are passed over unread. Of each so many it is
        another one, or what repeats itself every eight steps would look the same for ever.
        """
        try:
            check_readable(self.path)
            with self.path.open("rb") as stream:
                data = _whole_lines(stream, self._offset, most_bytes)
                self.behind = bool(data) and len(stream.peek(1)) > 0
        except FileNotFoundError:
            self.behind = False
            return []
        except OSError as error:
            raise _unreadable(self.path, error) from None
        lines = data.split(b"\n")[:-1]
        chosen = _one_in(every, self._lines, len(lines))
        records = [_parse(lines[number - self._lines], self.path, number + 1) for number in chosen]
        self._offset, self._lines = self._offset + len(data), self._lines + len(lines)
        self._seam = (self._seam + data)[-_SEAM_BYTES:]
        return records

    @property
    def is_lost(self) -> bool:
        """Whether what was read is not there any more: the file was cut back or replaced. Then begin with another."""
        try:
            check_readable(self.path)
            with self.path.open("rb") as stream:
                stream.seek(self._offset - len(self._seam))
                return stream.read(len(self._seam)) != self._seam
        except OSError:
            return self._offset > 0


def parse_record(line: bytes, where: str) -> Record:
    """One line without its newline."""
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"broken JSON ({reason})", allowed="one object per line", where=where) from None
    if not isinstance(record, dict):
        raise InputError("not a JSON object", allowed="one object per line", where=where)
    return record


def _parse(line: bytes, path: Path, number: int) -> Record:
    """As `parse_record`, three times as fast: what is not plain goes there, to be read or refused."""
    try:
        record, end = _DECODER.raw_decode(text := line.decode())
        if type(record) is dict and end == len(text):
            return record
    except (ValueError, RecursionError):
        pass
    return parse_record(line, f"{path}, line {number}")


def _whole_lines(stream: BinaryIO, start: int, most: int) -> bytes:
    """About so many bytes from there, up to the end of a line; a line that is longer is read to its end."""
    stream.seek(start)
    parts = [stream.read(most)]
    while b"\n" not in parts[-1] and (more := stream.read(most)):
        parts.append(more)
    data = b"".join(parts)
    return data[: data.rfind(b"\n") + 1]


def _one_in(every: int, start: int, count: int) -> Iterable[int]:
    """Of the numbers from `start` on, one of each `every`: spread evenly, and the same however they are cut up."""
    if every == 1:
        return range(start, start + count)
    groups = range(start // every, (start + count) // every + 1)
    chosen = (group * every + int(group * _GOLDEN % 1 * every) for group in groups)
    return (number for number in chosen if start <= number < start + count)


def _from_the_end(back: int) -> str:
    return "the last line" if back == 0 else f"line {1 - back} from the end"


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"the file cannot be read ({error.strerror})", where=str(path))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
