"""Files of traces: every schema that is known, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalerl.errors import InputError
from scalerl.supervised.traces import Conversation, Texts, read_traces

from .small import write

USER, ANSWER = {"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hello."}
ROWS: dict[str, dict[str, Any]] = {
    "messages": {"messages": [USER, ANSWER]},
    "sharegpt": {"conversations": [{"from": "human", "value": "Hi?"}, {"from": "gpt", "value": "Hello."}]},
    "trl": {"prompt": [USER], "completion": [ANSWER]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi?"}]}, ANSWER]},
    "open end": {"messages": [USER, ANSWER, {"role": "user", "content": "And?"}]},
}


@pytest.mark.parametrize(
    ("kind", "form"),
    [(kind, form) for kind in ROWS for form in ("jsonl", "parquet") if (kind, form) != ("parts", "parquet")],
)
def test_conversations(tmp_path: Path, kind: str, form: str) -> None:
    file = tmp_path / f"a.{form}"
    if form == "jsonl":
        write(file, [ROWS[kind]])
    else:
        pq.write_table(pa.Table.from_pylist([ROWS[kind]]), file)
    (trace,) = read_traces(file)
    assert isinstance(trace, Conversation)
    assert trace.messages == (USER, ANSWER)
    assert trace.question == "Hi?"
    assert trace.where == f"{file}, {'line' if form == 'jsonl' else 'row'} 1"


def test_texts_by_their_usual_and_by_other_names(tmp_path: Path) -> None:
    usual = write(tmp_path / "a.jsonl", [{"prompt": "Hi?", "completion": "Hello."}])
    other = write(tmp_path / "b.jsonl", [{"q": "Hi?", "a": "Hello.", "messages": []}])
    for traces in (read_traces(usual), read_traces(other, "q", "a")):
        (trace,) = traces
        assert isinstance(trace, Texts)
        assert (trace.prompt, trace.completion) == ("Hi?", "Hello.")
        assert trace.as_conversation().messages == (USER, ANSWER)


def test_nulls_of_a_table_are_no_keys(tmp_path: Path) -> None:
    rows = [{"messages": [USER, ANSWER | {"tool_calls": None}]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (trace,) = read_traces(tmp_path / "a.parquet")
    assert isinstance(trace, Conversation)
    assert trace.messages[1].keys() == {"role", "content"}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "columns": ({"text": "a"}, "no column of traces: got 'text'; allowed: messages, conversations"),
    "no list": ({"messages": "a"}, "line 1: no messages in 'messages': got 'a'"),
    "no answer": ({"messages": [USER]}, "line 1: a conversation without an answer"),
    "empty": ({"messages": [USER, {"role": "assistant", "content": " "}]}, "line 1: an empty answer"),
    "assistant first": ({"messages": [ANSWER, USER, ANSWER]}, "line 1: a conversation that begins with the assistant"),
    "no role": ({"messages": [{"content": "a"}]}, "line 1: a message without role"),
    "no object": ({"messages": ["a"]}, "line 1: a message is no object"),
    "picture": ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "a part of a message is no text"),
    "number": ({"messages": [{"role": "user", "content": 3}, ANSWER]}, "the content of a message is no text"),
    "mixed": ({"prompt": [USER], "completion": "a"}, "line 1: 'prompt' is no text"),
    "empty text": ({"prompt": "a", "completion": ""}, "line 1: empty 'completion'"),
    "tools": ({"messages": [USER, ANSWER], "tools": "a"}, "line 1: the tools are not a list"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows(tmp_path: Path, kind: str) -> None:
    row, message = BAD[kind]
    with pytest.raises(InputError) as caught:
        list(read_traces(write(tmp_path / "a.jsonl", [row])))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"q": "Hi?"}])
    with pytest.raises(InputError, match="no column for completion_key: got 'a'; allowed: one of q"):
        list(read_traces(file, "q", "a"))
