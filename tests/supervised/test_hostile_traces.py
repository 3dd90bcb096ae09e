"""Traces that once ended the reading with something else than one line; found by fuzzing (tests/fuzz)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.supervised.traces import read_traces


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "\ud800", "completion": "b"},
        {"messages": [{"role": "user", "content": "\ud800"}, {"role": "assistant", "content": "b"}]},
    ],
)
def test_half_a_character(tmp_path: Path, row: dict[str, Any]) -> None:
    """Nothing can write it into a tokenizer, nor hash it."""
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="half a character"):
        list(read_traces(tmp_path / "a.jsonl"))
