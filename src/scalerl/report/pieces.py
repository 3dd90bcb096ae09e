"""A run on the board as JSON in pieces: each field of the run, and each field of each of its units, with the number of
its last change. So a browser is sent the pieces that are new to it and no others.

Used by `board`. The page (`model.js`) joins a message to what it has; what a message leaves out is as it was. Of units
every key is named as soon as one of them has changed: a unit that is not named is gone. Knows nothing about curves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

UNITS, KEY = "units", "key"


@dataclass(frozen=True)
class Piece:
    """One value as JSON, and the number of the change that brought it."""

    number: int
    data: bytes


Fields = dict[str, Piece]


@dataclass(frozen=True)
class Pieces:
    """One run."""

    fields: Fields
    units: dict[str, Fields] | None = None
    """By key, in order; None: not a run with units."""
    listed: int = 0
    """The number of the change that brought the present list of units."""
    newest: int = 0
    """The largest number of all."""

    @classmethod
    def of(cls, run: Mapping[str, Any], number: int, before: Self | None = None) -> Self:
        """The run as it is at change `number`; pieces that are as they were `before` keep their number."""
        old = cls({}) if before is None else before
        fields = _pieces({name: value for name, value in run.items() if name != UNITS}, number, old.fields)
        units: dict[str, Fields] | None = None
        listed = 0
        if UNITS in run:
            known = old.units or {}
            units = {unit[KEY]: _pieces(unit, number, known.get(unit[KEY], {})) for unit in run[UNITS]}
            listed = old.listed if old.units is not None and list(known) == list(units) else number
        every = [fields, *(units or {}).values()]
        newest = max([listed, *(piece.number for some in every for piece in some.values())])
        return cls(fields, units, listed, newest)

    def since(self, seen: int) -> bytes:
        """What is newer than `seen`, as a JSON object with the run's id; everything since the beginning is since -1."""
        parts = {name: piece.data for name, piece in self.fields.items() if piece.number > seen or name == "id"}
        if self.units is not None and self._units_changed(seen):
            parts[UNITS] = b"[" + b", ".join(_joined(unit, seen) for unit in self.units.values()) + b"]"
        return _object(parts)

    def _units_changed(self, seen: int) -> bool:
        units = self.units or {}
        return self.listed > seen or any(piece.number > seen for unit in units.values() for piece in unit.values())


def _pieces(values: Mapping[str, Any], number: int, before: Fields) -> Fields:
    made: Fields = {}
    for name, value in values.items():
        data, old = encode(value), before.get(name)
        made[name] = old if old is not None and old.data == data else Piece(number, data)
    return made


def _joined(unit: Fields, seen: int) -> bytes:
    return _object({name: piece.data for name, piece in unit.items() if piece.number > seen or name == KEY})


def _object(parts: Mapping[str, bytes]) -> bytes:
    return b"{" + b", ".join(encode(name) + b": " + data for name, data in parts.items()) + b"}"


def encode(value: Any) -> bytes:
    """JSON on one line, which is what an event stream needs; NaN would be a bug and raises.

    Half a character (a file name that is not UTF-8, a name in somebody's JSON) is escaped as JSON does it.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
    return text.encode(errors="backslashreplace")
