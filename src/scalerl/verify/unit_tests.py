"""Unit tests as the files of code problems have them, and the comparison of what a program gave with what it should.

Called by `programs`, outside the sandbox. Three notations, as JSON:
    {"inputs": ["1 2\\n", ...], "outputs": ["3\\n", ...]}                     TACO, APPS; calls if there is "fn_name"
    [{"type": "stdin_stdout", "input": "1 2\\n", "output": "3\\n"}, ...]      PRIME; "function_call" with "fn_name"
    [{"testtype": "functional", "input": "[1, 2]\\n3", "output": "[3]", "metadata": {"func_name": "f"}}, ...]
The last is LiveCodeBench's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scalerl.errors import InputError

NEAR = 1e-6
"""Share by which decimals may differ."""
_ALLOWED = 'JSON with "inputs" and "outputs", or a list of objects with "input" and "output"'


@dataclass(frozen=True)
class UnitTest:
    """One run of a program, or one call of its function."""

    given: Mapping[str, Any]
    """As the sandbox takes it."""
    expected: Any
    """The output, as text, or the result of the call."""
    wrapped: bool = False
    """The result may stand alone in a list, as it does in TACO."""

    def passed(self, output: str) -> bool:
        if "stdin" in self.given:
            return _same_lines(output, self.expected)
        try:
            result = json.loads(output)
        except (ValueError, RecursionError):
            return False
        unwrapped = self.wrapped and isinstance(self.expected, list) and len(self.expected) == 1
        try:
            return _same(result, self.expected) or (unwrapped and _same(result, self.expected[0]))
        except (OverflowError, RecursionError):  # a number beyond floats, or lists nested absurdly deep
            return False


@lru_cache(maxsize=64)
def read_tests(text: str) -> tuple[UnitTest, ...]:
    """The tests in a reference; an `InputError` if there are none."""
    try:
        data = json.loads(text)
        tests = tuple(_columns(data) if isinstance(data, dict) else [_row(row) for row in data])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"no unit tests ({type(error).__name__}: {error})", text[:60], _ALLOWED) from None
    if not tests:
        raise InputError("no unit tests", text[:60], _ALLOWED)
    return tests


def _columns(data: Mapping[str, Any]) -> list[UnitTest]:
    name = data.get("fn_name")
    pairs = zip(data["inputs"], data["outputs"], strict=True)
    if name:
        return [UnitTest({"call": str(name), "arguments": _arguments(i)}, o, wrapped=True) for i, o in pairs]
    return [UnitTest({"stdin": _text(i)}, _text(o)) for i, o in pairs]


def _row(row: Any) -> UnitTest:
    if not isinstance(row, Mapping):
        raise TypeError(f"a test that is no object, {row!r}")
    kind = row.get("type") or row.get("testtype") or "stdin"
    metadata = row.get("metadata") or {}
    name = row.get("fn_name") or (metadata.get("func_name") if isinstance(metadata, Mapping) else None)
    if kind in {"stdin", "stdin_stdout"}:
        return UnitTest({"stdin": _text(row["input"])}, _text(row["output"]))
    if kind not in {"function_call", "functional"} or not name:
        raise ValueError(f"a test of type {kind!r}" if name else "a call without the name of its function")
    if kind == "function_call":
        return UnitTest({"call": str(name), "arguments": _arguments(row["input"])}, row["output"], wrapped=True)
    return UnitTest({"call": str(name), "arguments": _arguments(row["input"])}, json.loads(row["output"]))


def _arguments(given: Any) -> list[Any]:
    """A list, or a text with one JSON value in each line."""
    if isinstance(given, str):
        return [json.loads(line) for line in given.splitlines() if line.strip()]
    if not isinstance(given, list):
        raise TypeError(f"arguments that are no list, {given!r}")
    return given


def _text(given: Any) -> str:
    """Some files have lists of lines."""
    return "\n".join(str(line) for line in given) if isinstance(given, list) else str(given)


def _same_lines(output: str, expected: str) -> bool:
    """The same words in the same lines; spaces at an end and empty lines at the end do not count."""
    found, wanted = ([line.split() for line in text.rstrip().splitlines()] for text in (output, expected))
    return len(found) == len(wanted) and all(
        len(a) == len(b) and all(_same_word(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(found, wanted, strict=True)
    )


def _same_word(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    if not any(mark in wanted for mark in ".eE") or wanted.strip("+-.eE0123456789"):
        return False
    try:
        return _near(float(found), float(wanted))
    except ValueError:
        return False


def _same(found: Any, wanted: Any) -> bool:
    """As JSON values; 1 is not true, and decimals may differ a little."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int) and isinstance(wanted, int):
        return found == wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return _near(float(found), float(wanted))
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(_same(a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_same(found[key], wanted[key]) for key in wanted)
    return bool(found == wanted)


def _near(found: float, wanted: float) -> bool:
    return found == wanted or abs(found - wanted) <= NEAR * max(1.0, abs(wanted))
