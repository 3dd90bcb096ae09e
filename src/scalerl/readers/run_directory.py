"""Our own run directory as a table of evaluations: `scalerl fit RUN_DIR`.

Called by `table` for a path that is a folder. It reads config.json (only to recognise a run) and evals.jsonl, and knows
nothing else about a run: who writes it is `scalerl.runs`. Compute is that of generation and training; the evaluation's
own cost is not part of what the policy was trained with. The evaluation of step 0 stands at compute 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scalerl.errors import InputError
from scalerl.plain_file import read_plain
from scalerl.readers.cells import Chunk, FloatArray, not_a_number, pack_lines
from scalerl.readers.columns import Picked, count_of, find
from scalerl.readers.json_lines import Record, read_records
from scalerl.readers.logs.records import Record as LogRecord
from scalerl.readers.logs.records import Tally

CONFIG, EVALS = "config.json", "evals.jsonl"
COMPUTE = ("flops", "tokens", "device_hours", "steps")
"""What can stand on the x axis; the first is the default, because it does not depend on the machine's load."""
VALUE, COUNT = "pass_rate", "num_judged"
_ROLES = ("generation", "training")


def is_run_directory(path: str | Path) -> bool:
    """A folder whose config.json is one of ours (a model folder has a config.json too)."""
    try:
        saved = json.loads(read_plain(Path(path) / CONFIG))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(saved, dict) and {"identity", "config"} <= saved.keys()


class RunRows:
    """`Rows` of a run: one for each evaluation."""

    unit: Literal["line", "row"] = "line"
    named = True

    def __init__(self, path: str | Path) -> None:
        self.label = str(Path(path) / EVALS)
        self._records = read_records(Path(path) / EVALS)
        if not any(record.get(VALUE, "absent") is not None for record in self._records):
            raise InputError("the run has no evaluations yet", allowed="a run with evaluations", where=str(path))
        fields = dict.fromkeys(name for record in self._records for name, value in record.items() if _is_number(value))
        self.columns = (*COMPUTE, *(name for name in fields if name not in (*COMPUTE, "step")))

    def is_number(self, column: str) -> bool:
        return column in self.columns

    def pick(self, *, x: str | None, y: str | None, n: str | None, by: str | None) -> Picked:
        """Nothing is guessed here: the names are ours."""
        if by is not None:
            raise InputError("--by", by, "nothing: a run directory is one curve", self.label)
        compute = find(COMPUTE, x or COMPUTE[0], "--x", self.label)
        value = find(self.columns, y or VALUE, "--y", self.label)
        num_answers, count = count_of(self.columns, n, self.label)
        own_count = COUNT if value == VALUE else f"{value}/{COUNT}"  # a downstream set has its own
        if n is None and own_count in self.columns:
            count = own_count
        return Picked(compute, value, count, num_answers=num_answers)

    def chunks(self, picked: Picked) -> Iterator[Chunk]:
        """Lines whose value is null are left out: nothing could be judged, which is not a pass rate of zero."""
        lines = [line for line, record in enumerate(self._records, 1) if record.get(picked.y, "absent") is not None]
        x, y = self._column(picked.x, lines), self._column(picked.y, lines)
        n = None if picked.n is None else self._column(picked.n, lines)
        yield Chunk(x, y, n, None, pack_lines(lines))

    def as_log(self) -> Iterator[LogRecord]:
        """Every number of every evaluation, compute in all its units."""
        for line, record in enumerate(self._records, 1):
            units = {name: self._cell(record, name, line) for name in COMPUTE}
            values = {name: _float(value) for name, value in record.items() if _is_number(value) and name != "step"}
            yield LogRecord(units | values, units["steps"])

    def _column(self, name: str, lines: list[int]) -> FloatArray:
        return np.array([self._cell(self._records[line - 1], name, line) for line in lines])

    def _cell(self, record: Record, name: str, line: int) -> float:
        where = f"{self.label}, line {line}"
        if name not in COMPUTE:
            return _number(record, name, where)
        step = _number(record, "step", where)
        if name == "steps" or step == 0:
            return step
        return _spent(record, name, where)


class RunLog:
    """The evaluations of a run as a `Log`, to list what there is."""

    kind = "a run directory of scalerl"
    name = None

    def __init__(self, path: str | Path) -> None:
        self.label = str(path)
        self._rows = RunRows(path)

    def records(self, tally: Tally) -> Iterator[LogRecord]:  # noqa: ARG002  # the protocol's
        return self._rows.as_log()


def _spent(record: Record, name: str, where: str) -> float:
    """Generation and training together, from the ledger."""
    key = "device_s" if name == "device_hours" else name
    ledger = record.get("ledger")
    if not isinstance(ledger, dict) or not all(isinstance(ledger.get(role), dict) for role in _ROLES):
        raise InputError("no ledger in this object", allowed=f"one with {' and '.join(_ROLES)}", where=where)
    total = sum(_number(ledger[role], key, where) for role in _ROLES)
    return total / 3600 if name == "device_hours" else total


def _number(values: dict[str, Any], name: str, where: str) -> float:
    if name not in values:
        raise InputError(f"no {name!r} in this object", allowed="a number in every line", where=where)
    if not _is_number(values[name]):
        raise not_a_number(values[name], name, where)
    return _float(values[name])


def _float(value: float) -> float:
    """A number of JSON; an integer beyond the range of a float is infinite, and refused later as such."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _is_number(value: object) -> bool:
    return type(value) in {int, float}
