"""Chat traces: messages as TRL and the hub have them, ShareGPT's conversations, or prompt and completion.

Read by `corpus`. Knows no tokenizer; formats of files are the business of `tasks.data`. The first row that cannot be
used ends the reading with its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.readers.cells import shorten
from scalerl.tasks.data.cells import refuse_half_characters
from scalerl.tasks.data.open import open_rows
from scalerl.tasks.data.rows import Row

Message = dict[str, Any]

_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
"""What others call them."""
_LISTS = ("messages", "conversations")
_PAIR = ("prompt", "completion")


@dataclass(frozen=True)
class Conversation:
    """A conversation that ends with the assistant."""

    messages: tuple[Message, ...]
    tools: tuple[Any, ...]
    """As the chat template takes them; usually none."""
    where: str
    """File and line (or row), for messages."""

    @property
    def question(self) -> str:
        """Everything before the first answer: traces of one question are held out together."""
        return "\n".join(str(message.get("content")) for message in self.messages[: self.turns[0]])

    @property
    def turns(self) -> list[int]:
        """Where the assistant speaks."""
        return [index for index, message in enumerate(self.messages) if message["role"] == "assistant"]


@dataclass(frozen=True)
class Texts:
    """A prompt and its answer, as plain texts."""

    prompt: str
    completion: str
    where: str

    @property
    def question(self) -> str:
        return self.prompt

    def as_conversation(self) -> Conversation:
        roles = (("user", self.prompt), ("assistant", self.completion))
        return Conversation(tuple({"role": role, "content": text} for role, text in roles), (), self.where)


Trace = Conversation | Texts


def read_traces(path: str | Path, prompt_key: str = "", completion_key: str = "") -> Iterator[Trace]:
    """Every row of a file. The keys name the columns where they are not the usual ones."""
    with open_rows(path) as rows:
        keys = _keys(rows.columns, prompt_key, completion_key, rows.label)
        tools = ("tools",) if "tools" in rows.columns else ()
        for number, row in rows.read((*keys, *tools)):
            if isinstance(row, InputError):
                raise row
            yield _trace(row, keys, f"{rows.label}, {rows.unit} {number}")


def _keys(columns: Sequence[str], prompt_key: str, completion_key: str, where: str) -> tuple[str, ...]:
    """The column of the messages, or those of prompt and completion."""
    if prompt_key or completion_key:
        wanted = (prompt_key or _PAIR[0], completion_key or _PAIR[1])
        for key, option in zip(wanted, ("prompt_key", "completion_key"), strict=True):
            if key not in columns:
                raise InputError(f"no column for {option}", key, f"one of {', '.join(columns)}", where)
        return wanted
    for name in _LISTS:
        if name in columns:
            return (name,)
    if all(name in columns for name in _PAIR):
        return _PAIR
    allowed = "messages, conversations, or prompt and completion; prompt_key and completion_key name others"
    raise InputError("no column of traces", shorten(", ".join(columns), 200), allowed, where)


def _trace(row: Row, keys: tuple[str, ...], where: str) -> Trace:
    tools = row.get("tools") or ()
    if not isinstance(tools, list | tuple):
        raise InputError("the tools are not a list", shorten(tools), "a list of JSON schemas", where)
    if len(keys) == 1:
        return _conversation(_list(row.get(keys[0]), keys[0], where), tuple(tools), where)
    prompt, completion = row.get(keys[0]), row.get(keys[1])
    if isinstance(prompt, list) and isinstance(completion, list):
        messages = [*_list(prompt, keys[0], where), *_list(completion, keys[1], where)]
        return _conversation(messages, tuple(tools), where)
    return Texts(_text(prompt, keys[0], where), _text(completion, keys[1], where), where)


def _text(cell: Any, key: str, where: str) -> str:
    if not isinstance(cell, str):
        allowed = "a text in both columns, or a list of messages in both"
        raise InputError(f"{key!r} is no text", shorten(cell), allowed, where)
    if not cell.strip():
        raise InputError(f"empty {key!r}", allowed="a text in every row", where=where)
    refuse_half_characters(cell, key, where)
    return cell


def _list(cell: Any, key: str, where: str) -> list[Any]:
    if not isinstance(cell, list) or not cell:
        raise InputError(f"no messages in {key!r}", shorten(cell), "a list of messages in every row", where)
    return cell


def _conversation(raw: Sequence[Any], tools: tuple[Any, ...], where: str) -> Conversation:
    messages = [_message(item, where) for item in raw]
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()  # nothing is learnt from what nobody answers
    if not messages:
        raise InputError("a conversation without an answer", allowed="a message of the assistant", where=where)
    first = next(message["role"] for message in messages if message["role"] != "system")
    if first == "assistant":
        allowed = "a message to answer before the assistant's first"
        raise InputError("a conversation that begins with the assistant", allowed=allowed, where=where)
    return Conversation(tuple(messages), tools, where)


def _message(raw: Any, where: str) -> Message:
    if not isinstance(raw, dict):
        raise InputError("a message is no object", shorten(raw), 'such as {"role": "user", "content": "..."}', where)
    message = {key: value for key, value in raw.items() if value is not None}  # Parquet fills absent keys with nulls
    if "from" in message and "value" in message:
        message = {"role": message["from"], "content": message["value"]}
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InputError("a message without role", shorten(raw), "role and content in every message", where)
    message["role"] = _ROLES.get(role, role)
    content = message.get("content", "")
    message["content"] = _joined(content, where) if isinstance(content, list) else content
    if not isinstance(message["content"], str):
        raise InputError("the content of a message is no text", shorten(content), "a text", where)
    refuse_half_characters(message["content"], "content", where)
    if message["role"] == "assistant" and not message["content"].strip() and not message.get("tool_calls"):
        raise InputError("an empty answer", allowed="content in every message of the assistant", where=where)
    return message


def _joined(parts: Sequence[Any], where: str) -> str:
    """Content in parts: only text is known here."""
    for part in parts:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise InputError("a part of a message is no text", shorten(part), "parts of type text", where)
    return "".join(part["text"] for part in parts)
