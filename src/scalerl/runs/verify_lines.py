"""Files of JSON lines read for a check: one line at a time, in constant memory, broken ones said and not raised.

Used by the modules `verify_*`. What a record means is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from scalerl.compute import ROLES, Ledger, Usage
from scalerl.errors import InputError
from scalerl.plain_file import check_readable
from scalerl.readers.json_lines import Record, parse_record

LONGEST_BYTES = 1 << 24
"""A line of ours has some kilobytes; whatever is longer than this is broken, and never held in memory."""
_TAIL_BYTES = 1 << 16
_LARGEST = 1e300
"""As for the ledger: what can be added up."""


@dataclass(frozen=True)
class Line:
    """One line of a file."""

    number: int
    end: int
    """Bytes from the beginning of the file to its end, newline included."""
    record: Record | None
    problem: str | None = None
    """Why there is no record."""
    torn: bool = False
    """It has no newline: a crash tore it off, or it is being written."""


def read_lines(file: Path) -> Iterator[Line]:
    """Every line; none when the file is not there. `OSError` when it cannot be read."""
    if not file.exists():
        return
    check_readable(file)
    with file.open("rb") as stream:
        number = end = 0
        while piece := stream.readline(LONGEST_BYTES):
            number, end, too_long = number + 1, end + len(piece), False
            while len(piece) == LONGEST_BYTES and not piece.endswith(b"\n"):
                too_long, piece = True, stream.readline(LONGEST_BYTES)
                end += len(piece)
            yield _line(number, end, piece, too_long)


def _line(number: int, end: int, piece: bytes, too_long: bool) -> Line:
    if not piece.endswith(b"\n"):
        return Line(number, end, None, "no end of line", torn=True)
    if too_long:
        return Line(number, end, None, f"longer than {LONGEST_BYTES >> 20} MiB")
    try:
        return Line(number, end, parse_record(piece[:-1], ""))
    except InputError as error:
        return Line(number, end, None, error.what)


def record_ending_at(file: Path, end: int) -> Record:
    """The record whose line ends after so many bytes; `InputError` that says why there is none."""
    check_readable(file)
    size = file.stat().st_size if file.exists() else 0
    if end > size:
        raise InputError(f"the file has {size:,} bytes, the checkpoint refers to {end:,}")
    with file.open("rb") as stream:
        data, start = b"", end
        while start > 0 and data.count(b"\n", 0, -1) < 1 and len(data) < LONGEST_BYTES:
            start = max(0, start - max(_TAIL_BYTES, len(data)))
            stream.seek(start)
            data = stream.read(end - start)
    if not data.endswith(b"\n"):
        raise InputError(f"no line ends at byte {end:,}, to which the checkpoint refers")
    return parse_record(data[:-1].rpartition(b"\n")[2], "")


def step_of(record: Record) -> int | None:
    """A whole number from 0 on."""
    step = record.get("step")
    return step if type(step) is int and step >= 0 else None


def ledger_of(record: Record) -> Ledger | None:
    """The ledger of a line; None unless every number is one."""
    values = record.get("ledger")
    if not isinstance(values, dict):
        return None
    found = {role: _usage(values.get(role)) for role in ROLES}
    whole = {role: usage for role, usage in found.items() if usage is not None}
    return Ledger(**whole) if len(whole) == len(ROLES) else None


def _usage(values: Any) -> Usage | None:
    if not isinstance(values, dict):
        return None
    device_s, flops, tokens = (values.get(name) for name in ("device_s", "flops", "tokens"))
    if not (is_number(device_s) and is_number(flops) and type(tokens) is int):
        return None
    return Usage(device_s, flops, tokens) if min(device_s, flops, tokens) >= 0 else None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Finite, also as a float; True and False are none."""
    return type(value) in {int, float} and abs(value) < _LARGEST
