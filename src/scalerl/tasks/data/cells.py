"""Cells of a row as texts: dotted keys, prompts that are a list of messages, answers that are numbers or tables.

Called by `layouts` and `records`. What cannot be used is an `InputError` without a place; `records` adds file and line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.cells import shorten
from scalerl.readers.columns import find

ABSENT = object()
"""In the place of a cell that is not there."""
_MESSAGES = "a text, or messages with role and content: perhaps one of the system, then one of the user"
_BEFORE_PROMPT = {"system", "developer"}


@dataclass(frozen=True)
class Key:
    """Where a cell stands: `answer`, or `reward_model.ground_truth`, or `messages.0.content`."""

    column: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.column, *self.path))

    def cell(self, row: Mapping[str, Any]) -> Any:
        """The cell, or ABSENT."""
        found = row.get(self.column, ABSENT)
        for part in self.path:
            found = _inside(found, part)
        return found


def key_of(columns: Sequence[str], text: str, option: str, where: str) -> Key:
    """The key that a user wrote; a column whose own name has dots comes first. `option`: who asks, for the message."""
    column, dot, rest = text.partition(".")
    if dot and text not in columns and column in columns:
        return Key(column, tuple(rest.split(".")))
    return Key(find(columns, text, option, where))


def has_key(columns: Sequence[str], text: str) -> bool:
    return text in columns or text.partition(".")[0] in columns


def prompt_text(cell: Any, key: Key) -> str:
    """The prompt: a text, or the user's message, with what the system says in front of it."""
    if cell is ABSENT:
        raise InputError(f"no {str(key)!r} in this object", allowed="a prompt in every line")
    text = _conversation(cell, key) if isinstance(cell, list) else cell
    if text is None or (isinstance(text, str) and not text.strip()):
        raise InputError(f"empty prompt in {str(key)!r}", allowed="a text in every row")
    if not isinstance(text, str):
        raise _no_text(cell, key)
    refuse_half_characters(text, str(key))
    return text


def answer_text(cell: Any, key: Key, *, tables: bool) -> str:
    """The answer; `tables`: it may also be a list or a table, which becomes JSON."""
    if cell is ABSENT:
        raise InputError(f"no {str(key)!r} in this object", allowed="an answer in every line")
    if tables and isinstance(cell, list | dict) and cell:
        return json.dumps(cell, default=str)
    missing = cell is None or (isinstance(cell, float) and math.isnan(cell))  # pandas writes what is missing as NaN
    if missing or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"empty answer in {str(key)!r}", allowed="a text or a number in every row")
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise InputError(f"the answer in {str(key)!r} is no text or number", shorten(cell), "a text or a number")
    text = str(cell).strip()
    refuse_half_characters(text, str(key))
    return text


def table_of(cell: Any) -> Any:
    """A table or a list, also when it stands in the cell as JSON; anything else as it is."""
    if not isinstance(cell, str) or cell.lstrip()[:1] not in {"{", "["}:
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _inside(cell: Any, part: str) -> Any:
    if isinstance(cell, Mapping):
        return cell.get(part, ABSENT)
    if isinstance(cell, list) and re.fullmatch(r"[0-9]{1,9}", part) and int(part) < len(cell):
        return cell[int(part)]
    return ABSENT


def _conversation(messages: list[Any], key: Key) -> str | None:
    """Earlier turns cannot be part of a prompt that is one message, and leaving them out would change the question."""
    parts: list[str] = []
    for number, message in enumerate(messages, 1):
        role, text = _message(message)
        last = number == len(messages)
        if text is None or (role != "user" if last else role not in _BEFORE_PROMPT):
            raise _no_text(messages, key)
        parts.append(text)
    if not parts or not parts[-1].strip():
        return None
    return "\n\n".join(part for part in parts if part.strip())


def _message(message: Any) -> tuple[str, str | None]:
    if not isinstance(message, Mapping):
        return "", None
    content = message.get("content")
    if isinstance(content, list):  # parts of a message: only those of text can be read
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        content = "\n".join(str(text) for text in texts) if all(isinstance(text, str) for text in texts) else None
    return str(message.get("role")), content if isinstance(content, str) else None


def refuse_half_characters(text: str, key: str, where: str | None = None) -> None:
    """JSON can hold half of a surrogate pair, which nothing can encode."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"half a character in {key!r}", ascii(shorten(text)), "text that is valid Unicode", where)


def _no_text(cell: Any, key: Key) -> InputError:
    return InputError(f"the prompt in {str(key)!r} is not a text", shorten(cell), _MESSAGES)
