"""JSONL logs: one object a line, with a step, metrics that come and go, and perhaps a time.

Called by `open`. verl's file logger writes `{"step": 1, "data": {...}}`; many home-made trainers write `{"step": 1,
"loss": ...}` or wrap the metrics as `{"step": 1, "metrics": {...}}`. Unlike in the strict reader of tables
(`readers.jsonl`), lines may differ in their keys, and broken ones are counted and skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.columns import pick
from scalerl.readers.logs.fields import Recorder, choose_step, flat, is_step_name, metrics, number, rises
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.text_lines import Line, head_lines, text_lines

Object = dict[str, Any]

_DECODER = json.JSONDecoder()
_WRAPPERS = frozenset({"data", "metrics", "logs", "scalars", "values"})
_HEAD_OBJECTS = 1000
_ATTEMPTS = 50
"""How many places of a broken line are tried for an object that begins there."""


def head_objects(head: bytes) -> list[Object]:
    """The objects in a file's first block, for `is_json_log`; broken lines are left out.

    None at all when most lines are something else: a console may show an object now and then.
    """
    lines = head_lines(head if head.endswith(b"\n") else head + b"\n")
    candidates = [line for line in lines if line.lstrip().startswith("{")]
    if len(candidates) < len(lines) / 2:
        return []
    return [one for line in candidates for one in _objects(line)[0]]


def is_json_log(objects: Sequence[Object]) -> bool:
    """Whether these are lines of a log rather than the rows of a table, which the strict reader keeps.

    A log nests its metrics (verl), or its lines differ so that no metric is in all of them, or it has three metrics or
    more against rising steps and nothing that the strict reader would take for the value.
    """
    if not objects:
        return False
    fields = [_fields(one) for one in objects]
    step = choose_step(name for one in objects for name, _ in _numbers(one))
    names = [set(metrics(one)) for one in fields]
    every, common = set().union(*names), set.intersection(*names)
    if step is not None and any(isinstance(value, dict) and value for one in objects for value in one.values()):
        return bool(every)
    if len(every) >= 2 and not common:
        return step is not None or len(every) >= 3
    return step is not None and len(every) >= 3 and not _is_table(objects[0]) and rises(one.get(step) for one in fields)


def _is_table(first: Object) -> bool:
    """Whether the strict reader finds its columns in the first object."""
    try:
        pick(list(first), lambda name: number(first[name]) is not None)
    except InputError:
        return False
    return True


class JsonLog:
    """`Log` of a JSONL file."""

    name: str | None = None

    def __init__(self, path: str | Path, label: str) -> None:
        self.label = label
        self._path = Path(path)

    @cached_property
    def kind(self) -> str:
        verl = any(one.keys() == {"step", "data"} for one in self._head)
        return "a verl file log (JSONL)" if verl else "a JSONL log"

    def records(self, tally: Tally) -> Iterator[Record]:
        recorder = Recorder(choose_step(name for one in self._head for name, _ in _numbers(one)))
        for line, one in self._objects(tally):
            fields, nameless = _fields(one), recorder.num_nameless
            record = recorder.record(fields)
            if recorder.num_nameless > nameless:
                tally.skip("metrics whose name is not UTF-8", line.where, recorder.num_nameless - nameless)
            if record is not None:
                yield record
            elif metrics(fields):
                tally.skip("lines without a step, before the first step", line.where)

    @cached_property
    def _head(self) -> list[Object]:
        """Enough of the log to know its step field."""
        return [one for _, one in islice(self._objects(Tally()), _HEAD_OBJECTS)]

    def _objects(self, tally: Tally) -> Iterator[tuple[Line, Object]]:
        for line in text_lines(self._path, self.label, tally):
            objects, broken = _objects(line.text)
            if broken:
                tally.skip("broken lines" if line.whole else "torn last lines", line.where)
            for one in objects:
                yield line, one


def _objects(text: str) -> tuple[list[Object], bool]:
    """The objects of a line, usually one, and whether anything of the line could not be read.

    Two writers may leave two objects in one line, or one inside the other. After broken text only an object with a step
    is believed: others may be pieces of the broken one.
    """
    objects: list[Object] = []
    broken = False
    at, attempts = text.find("{"), 0
    if at < 0:
        return [], True
    while at >= 0 and attempts < _ATTEMPTS:
        attempts += 1
        try:
            one, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            broken, at = True, text.find('{"', at + 1)
            continue
        if not broken or any(is_step_name(name) for name in one):
            objects.append(one)
        at = text.find("{", end)
        broken |= at < 0 and not text[end:].isspace() and end < len(text)
    return objects, broken


def _wrapper(one: Mapping[str, Any]) -> str | None:
    """The key under which all metrics are, when there is just one such."""
    inside = [name for name, value in one.items() if type(value) is dict and value]
    return inside[0] if len(inside) == 1 and inside[0].lower() in _WRAPPERS else None


def _fields(one: Object) -> Object:
    """Flat, and without the name of a wrapper; what stands beside it (the step) wins over what is inside."""
    wrapper = _wrapper(one)
    if wrapper is None:
        return flat(one)
    outside = {name: value for name, value in one.items() if name != wrapper}
    return flat(one[wrapper]) | flat(outside)


def _numbers(one: Object) -> Iterator[tuple[str, float]]:
    found = ((name, number(value)) for name, value in _fields(one).items())
    return ((name, value) for name, value in found if value is not None)
