"""Append-only files of JSON objects, one a line, as our own runs write them: reading with a torn end tolerated.

Called by `run_directory` here and by the store of `scalerl.runs`, which writes such files. Other people's JSONL is read
by `jsonl`. The contract: a record counts once its newline is there. Whatever stands behind the last newline was torn
off by a crash and is no record; anything else that is broken is an error with its line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scalerl.errors import InputError

Record = dict[str, Any]
_TAIL_BYTES = 1 << 16


def read_records(path: Path) -> list[Record]:
    """Every complete record; none when the file is not there."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(path)) from None
    lines = data.split(b"\n")[:-1]
    return [parse_record(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def last_record(path: Path) -> Record | None:
    """The last complete record, without reading the lines before it; None when there is none."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, 2)
            data, start = b"", end
            while start > 0 and data.count(b"\n") < 2:
                start = max(0, start - max(_TAIL_BYTES, len(data)))
                stream.seek(start)
                data = stream.read(end - start)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(path)) from None
    lines = data.split(b"\n")[:-1]
    return parse_record(lines[-1], f"{path}, the last line") if lines else None


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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
