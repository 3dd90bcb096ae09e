"""The shapes of metric lines on a console: verl's, printed dicts, and `key: number` pairs with a step.

Called by `console`. Each shape says whether a line has it, and takes the numbers out; files are not known here.

- verl: `(TaskRunner pid=12) step:3 - actor/lr:1e-06 - val-core/gsm8k/acc/mean@1:np.float64(0.41)`
- a dict: `{'loss': '0.12', 'reward': 0.5, 'epoch': 0.02}` (transformers, TRL: floats may be text), or with the step in
  front: `Global step 3: {...}` (OpenRLHF), `perf 3: {...}`, `rollout 3: {...}`, `eval 3: {...}` (slime)
- pairs: `step=12 loss=0.3 acc=0.41`, `Step 12 | Reward: 0.41 | Time: 3.2s` (prime-rl), `iteration: 5, reward: 0.3`
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from scalerl.readers.logs.fields import is_step_name, iso_time
from scalerl.readers.logs.text_lines import REPLACED

# Lines may be huge and nearly match: names are bounded and a number matches in one way only.
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity)"
_WRAPPED = rf"(?:(?:np|numpy|torch)\.)?[a-z]+\d*\(\s*({_NUMBER})[^()]*\)"
_VALUE = re.compile(rf"(?:({_NUMBER})|{_WRAPPED})")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")
_STAMP_WITHIN = 80

_VERL = re.compile(r"(?<![A-Za-z_/])step:(\d{1,15}) - ")
_RAY = re.compile(r"^\([\w.:<>, ]*pid=\d+[^)]*\)\s*")
_REPEATED = re.compile(r"\s*\[repeated \d+x across [^\]]*\].*$")

_DICT = re.compile(r"\{\s*'[^'{}]{1,200}'\s*:")  # with double quotes it is JSON, which has its own reader
_ENTRY = re.compile(rf"'([^']{{1,200}})'\s*:\s*(?:['\"]({_NUMBER})['\"]|({_NUMBER})|{_WRAPPED})(?=\s*[,}}])")
_STEP_BEFORE = re.compile(r"(?:step|rollout|perf|eval|iteration|iter|update)\s*[:#=]?\s*(\d{1,15})\W*$", re.IGNORECASE)

_STEP_PAIR = re.compile(r"(?<![\w/])((?:global[ _]|train(?:ing|er)?[ _/])?(?:step|iteration|iter|update)s?)"
                        r"\s*[:=#]?\s*(\d{1,15})(?:\s*/\s*\d+)?(?![\w.:%])", re.IGNORECASE)  # fmt: skip
_PAIR = re.compile(
    rf"(?<![\w/.])([A-Za-z_][\w/.@+-]{{0,200}})\s*[:=]\s*({_NUMBER})(?=$|[^\w:.]|\.?$|\.\s|[a-z]{{1,3}}\b)"
)
_LONGEST_PAIRS = 1 << 16
_CELL = re.compile(rf"^\s*([A-Za-z_][^:=|]{{0,80}}?)\s*[:=]\s*({_NUMBER})\s*(?:%|[A-Za-z][\w/ ]*)?\s*$")


@dataclass(frozen=True)
class Found:
    """What one line says."""

    values: dict[str, float]
    step: float | None
    time_s: float | None = None


@dataclass(frozen=True)
class Shape:
    """One way to print metrics."""

    words: str
    read: Callable[[str, bool], tuple[list[Found], int]]
    """From a line, and whether it has its end: what it says, and how many of its metrics are damaged."""
    hint: Callable[[str], bool]
    """A quick look: most lines of a console are chatter."""
    at_least: int = 2
    """Lines that make a log."""
    stepless: bool = False


def looks_like(shape: Shape, text: str) -> bool:
    return shape.hint(text) and any(found.values for found in shape.read(text, True)[0])


def _verl(text: str, whole: bool) -> tuple[list[Found], int]:
    """Two writers may have left two reports in one line."""
    starts = list(_VERL.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    found, damaged = [], 0
    for start, end in zip(starts, ends, strict=False):  # no start: chatter
        pairs = _REPEATED.sub("", text[start.end() : end]).split(" - ")
        if not whole and end == len(text):
            pairs, damaged = pairs[:-1], damaged + 1  # the last number may be cut off
        values, lost = _verl_values(pairs)
        damaged += lost
        if values:
            found.append(Found(values, float(start[1]), _stamp(text)))
    return found, damaged


def _verl_values(pairs: list[str]) -> tuple[dict[str, float], int]:
    values, damaged = {}, 0
    for pair in pairs:
        name, _, text = pair.strip().rpartition(":")
        number = _number(text.strip())
        if number is None or not name or ":" in name or REPLACED in name:
            damaged += text not in {"True", "False", "None"}
        else:
            values[name] = number
    return values, damaged


def _dict(text: str, whole: bool) -> tuple[list[Found], int]:  # noqa: ARG001 - a dict is whole when it is closed
    opened = _DICT.search(text)
    if opened is None:
        return [], 0
    before, inside = text[: opened.start()], text[opened.start() :]
    entries = list(_ENTRY.finditer(inside))
    values = {entry[1]: float(entry[2] or entry[3] or entry[4]) for entry in entries if REPLACED not in entry[1]}
    step = _step_of(before, values)
    if "}" not in inside[entries[-1].end() :] if entries else True:
        return [], int(len(entries) >= 2 and not before.strip())
    if step is None and "epoch" not in values:  # some other dict: a config, a sample
        return [], 0
    kept = {name: value for name, value in values.items() if not is_step_name(name)}
    return ([Found(kept, step, _stamp(before))] if kept else []), 0


def _step_of(before: str, values: dict[str, float]) -> float | None:
    inside = next((value for name, value in values.items() if is_step_name(name) and math.isfinite(value)), None)
    if inside is not None:
        return inside
    named = _STEP_BEFORE.search(_RAY.sub("", before))
    return None if named is None else float(named[1])


def _pairs(text: str, whole: bool) -> tuple[list[Found], int]:
    if len(text) > _LONGEST_PAIRS:
        return [], 0
    text = _REPEATED.sub("", _RAY.sub("", text))
    step = _STEP_PAIR.search(text)
    if step is None:
        return [], 0
    values = _cells(text) if "|" in text else {found[1]: float(found[2]) for found in _PAIR.finditer(text)}
    kept = {name: value for name, value in values.items() if not is_step_name(name) and REPLACED not in name}
    damaged = 0
    if kept and not whole:  # the last number may be cut off
        kept.popitem()
        damaged = 1
    return ([Found(kept, float(step[2]), _stamp(text))] if kept else []), damaged


def _cells(text: str) -> dict[str, float]:
    """Names between bars may have blanks; a cell may hold several pairs."""
    values: dict[str, float] = {}
    for cell in text.split("|"):
        one = _CELL.match(cell)
        pairs = [(one[1], one[2])] if one else [(found[1], found[2]) for found in _PAIR.finditer(cell)]
        values |= {name: float(number) for name, number in pairs}
    return values


def _number(text: str) -> float | None:
    found = _VALUE.fullmatch(text)
    return None if found is None else float(found[1] or found[2])


def _stamp(text: str) -> float | None:
    """The time that a logger wrote at the beginning of a line."""
    found = _STAMP.search(text, 0, _STAMP_WITHIN)
    seconds = None if found is None else iso_time(found[0])
    return seconds if seconds is not None and math.isfinite(seconds) else None


SHAPES = (
    Shape("verl's step lines", _verl, lambda text: "step:" in text, at_least=1),
    Shape("printed dicts", _dict, lambda text: "{" in text and ":" in text, stepless=True),
    Shape("step and `key: number` pairs", _pairs, lambda text: "step" in text.lower() or "iter" in text.lower()
          or "update" in text.lower(), at_least=3),
)  # fmt: skip
"""The most telling first."""
