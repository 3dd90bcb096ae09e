"""From the fields that a trainer wrote at one moment to a `Record`: which is the step, which the time, which a metric.

Called by `json_log`, `csv_log`, `parquet_log` and `console`, which know how the fields were written down. Knows names
and values only, no files.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from scalerl.readers.cells import parses
from scalerl.readers.logs.records import Record
from scalerl.readers.logs.text_lines import REPLACED

Fields = Mapping[str, Any]
"""Flat: names to what was written there."""

_STEP = r"_?(?:global_?|training_?|train_?|trainer_?|optimizer_?|policy_?|current_?)*steps?"
_STEP_RANKS = (
    r"_?step",
    _STEP,
    rf"(?:train|training|trainer|global|progress|metrics|state|rollout|eval)[/.]{_STEP}",
    r"(?:(?:train|training|trainer)[/.])?(?:training_)?_?(?:iteration|iter|it|update|num_updates|rollout_id|rollout)",
)
"""Best first; compared in small letters."""

_CLOCKS = frozenset({"_timestamp", "timestamp", "time", "ts", "wall_time", "walltime", "datetime", "date"})
"""A moment. A small number under one of these names is a duration or an age, and stays a metric."""
_FIRST_CLOCK_S = 1e8  # 1973: anything below is no moment of our time
_DEEPEST = 8
_MOST_NAMES = 10_000


def flat(found: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Dicts inside dicts, with `/` between the names; what is nested absurdly deep is left out."""
    if not prefix and not any(type(value) is dict for value in found.values()):
        return dict(found)
    fields: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            if depth < _DEEPEST:
                fields |= flat(value, f"{prefix}{name}/", depth + 1)
        else:
            fields[f"{prefix}{name}"] = value
    return fields


def number(value: object) -> float | None:
    """A JSON number as a float; None for everything else, true and false among it."""
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return None


def is_step_name(name: str) -> bool:
    return _rank(name) < len(_STEP_RANKS)


def choose_step(names: Iterable[str]) -> str | None:
    """The field that counts the steps of a log, from the names that occur (each as often as it does)."""
    counts = Counter(name for name in names if is_step_name(name))
    return min(counts, key=lambda name: (-counts[name], _rank(name)), default=None)


def rises(steps: Iterable[object]) -> bool:
    """Whether every step is a number above the one before it."""
    values = [float(step) if isinstance(step, str) and parses(step) else number(step) for step in steps]
    return all(a is not None and b is not None and a < b for a, b in pairwise(values))


def metrics(fields: Fields) -> dict[str, float]:
    """Every number that is neither a step nor a moment."""
    found = ((name, number(value)) for name, value in fields.items())
    kept = ((name, value) for name, value in found if value is not None and not is_step_name(name))
    return {name: value for name, value in kept if moment(name, value) is None and REPLACED not in name}


class Recorder:
    """Makes the records of one log, which all count the same steps.

    Fields without the step are taken to belong to the step written last before them; before any step they are lost.
    """

    def __init__(self, step_name: str | None) -> None:
        self._step_name = step_name
        self._last: float | None = None
        self._roles: dict[str, str] = {}
        self.num_nameless = 0
        """Metrics left out because their name is not UTF-8."""

    def record(self, fields: Fields, session: int = 0) -> Record | None:
        """None when there is no metric in the fields, or no step yet in a log that has steps."""
        values: dict[str, float] = {}
        step = time_s = None
        for name, cell in fields.items():  # the innermost loop of every text format
            role = self._roles.get(name) or self._role(name)
            value = cell if type(cell) is float else number(cell)
            if role == "clock" and (when := moment(name, cell)) is not None:
                time_s = when if time_s is None else time_s
            elif value is None:
                continue
            elif role == "step":
                step = value
            elif role == "nameless":
                self.num_nameless += 1
            else:
                values[name] = value
        placed = self._count(step, values)
        return Record(values, self._last, time_s, session) if placed and values else None

    def _count(self, step: float | None, values: Mapping[str, float]) -> bool:
        """Go on to a step; False when none is known yet."""
        if self._step_name is None:
            return True
        if step is None and (other := choose_step(values)) is not None:
            step = values[other]
        if step is not None and math.isfinite(step):
            self._last = step
        return self._last is not None

    def _role(self, name: str) -> str:
        """What a field of this name is, remembered: a log writes the same names again and again."""
        if name == self._step_name:
            role = "step"
        elif REPLACED in name:
            role = "nameless"
        else:
            role = "clock" if _is_clock(name) else "metric"
        if len(self._roles) < _MOST_NAMES:
            self._roles[name] = role
        return role


def moment(name: str, value: object) -> float | None:
    """Seconds since 1970 if the field is a clock: a number, also in milli- or nanoseconds, or ISO 8601 text."""
    if not _is_clock(name):
        return None
    if isinstance(value, str):
        return iso_time(value)
    seconds = number(value)
    if seconds is None or not math.isfinite(seconds) or seconds < _FIRST_CLOCK_S:
        return None
    for unit in (1e9, 1e6, 1e3):
        if seconds / unit > _FIRST_CLOCK_S:
            return seconds / unit
    return seconds


def iso_time(text: str) -> float | None:
    """`2026-01-31T12:00:00Z`, `2026-01-31 12:00:00,123`; without a zone it is taken as UTC: only differences count."""
    try:
        when = datetime.fromisoformat(text.strip().replace(",", "."))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=_MOST_NAMES)
def _is_clock(name: str) -> bool:
    return name.lower().rpartition("/")[2] in _CLOCKS


@lru_cache(maxsize=_MOST_NAMES)
def _rank(name: str) -> int:
    lowered = name.lower().replace(" ", "_")
    return next((i for i, rank in enumerate(_STEP_RANKS) if re.fullmatch(rank, lowered)), len(_STEP_RANKS))
