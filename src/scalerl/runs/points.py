"""Lines of evals.jsonl and metrics.jsonl that people count with: checked once, where they are read.

Used by the status of a run, by `runs show` and by a run that goes on. A damaged file can hold anything under any key; a
line that cannot be used is an `InputError` with its place, never a surprise in somebody's arithmetic. `runs verify`
does not ask here: it says everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalerl.compute import Ledger
from scalerl.errors import InputError
from scalerl.readers.json_lines import Record
from scalerl.runs.directory import RunDirectory
from scalerl.runs.scores import DOWNSTREAM, HELD_OUT, PART

_NUMBERS = (HELD_OUT, "standard_error", "truncation_rate", "mean_length", "wall_s")
_LARGEST = 1e300
"""As for the ledger: what can be added up."""
_MOST_SHOWN = 40
"""Characters of a value that is no number."""


def read_points(directory: RunDirectory) -> list[Record]:
    """Every evaluation."""
    where = directory.evals.path
    return [check_line(record, f"{where}, line {number}") for number, record in enumerate(directory.evals.read(), 1)]


def check_line(record: Record, where: str) -> Record:
    """The record itself. What is not there is not asked for, but the step."""
    step = record.get("step")
    if type(step) is not int or step < 0:
        raise InputError("step", _short(step), "a whole number from 0 on", where)
    for name, value in record.items():
        if (name in _NUMBERS or name.startswith((DOWNSTREAM, PART))) and not _is_number(value):
            raise InputError(name, _short(value), "a number, or null", where)
    if "ledger" in record:
        read_ledger(record, where)
    return record


def read_ledger(record: Mapping[str, Any], where: str) -> Ledger:
    """What a line says of the compute so far."""
    try:
        return Ledger.from_dict(record["ledger"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"no ledger in this line ({error!r:.100})", allowed="one by role", where=where) from None


def _is_number(value: object) -> bool:
    return value is None or (type(value) in {int, float} and abs(value) < _LARGEST)  # type: ignore[arg-type]


def _short(value: object) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
