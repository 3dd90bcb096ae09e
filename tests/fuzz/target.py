"""What a fuzz target is, and what it may raise: used by every table of targets here and by both drivers.

A target turns bytes into nothing: it hands them to a door of the package as a file, a text or a structure. Whatever
the bytes, the door must return or refuse in one line. Anything else (another exception, a warning, a message of several
lines, a hang, memory without end) is a finding. What drives it (hypothesis in `test_fuzz`, atheris in `guided`) is not
known here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError, StorageError

Run = Callable[[bytes], None]

REFUSALS = (InputError, StorageError, MissingDependencyError)
"""All that bad input may raise."""

JSON_WORDS = (
    "null", "true", "NaN", "Infinity", "-1e999", "1" * 400, "1" * 5000, '"\\ud800"', "[[[[", '{"":', "1e308",
    "5e-324", "-0.0", "[" * 3000, '{"a":' * 3000, "[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900,
)  # fmt: skip
TOML_WORDS = (
    "nan", "inf", "-inf", "[[", "]]", '"""', "'''", "1979-05-27", "0x1f", "1" * 5000, "[" * 3000, "{a=", "{}", "[]",
    "true", "0x" + "f" * 5000, "a." * 2000, "1e400", "9223372036854775808", '"\\u0000"',
)  # fmt: skip
NUMBER_WORDS = ("nan", "inf", "1e308", "5e-324", "-0", "1_000", "1e400", "0x10", "٣", "1" * 400)


@dataclass(frozen=True)
class Target:
    """One door of the package."""

    name: str
    make: Callable[[Path], Run]
    """Given a folder to write into, the function that is driven. Called once a process."""
    samples: Callable[[], Sequence[bytes]]
    """Valid inputs, to start from."""
    words: tuple[str, ...] = ()
    """Pieces of the format, for whoever mutates."""
    cost: int = 1
    """About how many milliseconds an execution takes: dear targets get fewer."""


class UnfitRefusalError(AssertionError):
    """A refusal that breaks the rule of one line."""


def attempt(run: Run, data: bytes) -> bool:
    """Whether the input was taken; False: it was refused as it should be."""
    try:
        run(data)
    except REFUSALS as refusal:
        _check_line(refusal)
        return False
    return True


def _check_line(refusal: Exception) -> None:
    text = str(refusal)
    if "\n" in text or "\r" in text:
        raise UnfitRefusalError(f"a refusal of several lines: {text[:300]!r}") from refusal


def each(*looks: Callable[[], object]) -> None:
    """Every look at one input, whether or not another one was refused; refused as a whole only if all were."""
    refused: list[InputError] = []
    for look in looks:
        try:
            look()
        except InputError as refusal:
            _check_line(refusal)
            refused.append(refusal)
    if len(refused) == len(looks):
        raise refused[0]


def as_text(data: bytes) -> str:
    """Bytes that are not UTF-8 become half characters, which some texts hold after all."""
    return data.decode("utf-8", errors="surrogateescape")


def pack(parts: Mapping[str, bytes | str]) -> bytes:
    """Several files as one input: `=== NAME` before each."""
    blocks = [(name, part.encode() if isinstance(part, str) else part) for name, part in parts.items()]
    return b"".join(b"=== " + name.encode() + b"\n" + part + b"\n" for name, part in blocks)


def unpack(data: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """The files of an input, those alone that have one of these names."""
    found: dict[str, bytes] = {}
    for block in (b"\n" + data.removesuffix(b"\n")).split(b"\n=== ")[1:]:
        name, _, part = block.partition(b"\n")
        known = name.decode(errors="replace")
        if known in names:
            found[known] = part
    return found


def fields(data: bytes) -> list[str]:
    """The texts of an input, divided by NUL."""
    return [as_text(part) for part in data.split(b"\0")]


def write_files(folder: Path, files: Mapping[str, bytes], names: Iterable[str]) -> None:
    """These files and no other of the names."""
    for name in names:
        path = folder / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
        else:
            path.unlink(missing_ok=True)


def check_json(value: Any) -> None:
    """What is handed on must be JSON without NaN."""
    json.dumps(value, allow_nan=False)
