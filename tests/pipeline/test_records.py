"""Lines of evals.jsonl, read again when a run goes on: a damaged one is refused, and not taken for a point."""

from __future__ import annotations

from typing import Any

import pytest

from scalerl.compute import Ledger
from scalerl.errors import InputError
from scalerl.pipeline.records import point_from_line, point_line
from scalerl.pipeline.types import EvalPoint

POINT = EvalPoint(
    step=20, pass_rate=0.5, num_problems=4, num_samples=2, num_judged=8, standard_error=0.1, truncation_rate=0.0,
    mean_length=7.5, ledger=Ledger(), per_problem={},
)  # fmt: skip


def test_a_line_is_its_point() -> None:
    assert point_from_line(point_line(POINT, 1.0)) == POINT


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pass_rate": "x"}, "evals.jsonl: pass_rate: got 'x'; allowed: a number, or null"),
        ({"pass_rate": None}, "evals.jsonl, step 20: no 'pass_rate' in this line"),
        ({"step": None}, "evals.jsonl: step: got 'nothing'"),
        ({"ledger": {}}, "evals.jsonl: no ledger in this line"),
        ({"standard_error": [1]}, "standard_error: got"),
    ],
)
def test_a_damaged_line_is_one_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        point_from_line(point_line(POINT, 1.0) | change)
    assert words in str(refused.value)


@pytest.mark.parametrize("key", ["pass_rate", "num_judged", "standard_error", "ledger"])
def test_a_flipped_bit_in_a_key_is_one_error(key: str) -> None:
    line = point_line(POINT, 1.0)
    damaged = {(name[:-1] + chr(ord(name[-1]) ^ 1) if name == key else name): value for name, value in line.items()}
    with pytest.raises(InputError, match=f"step 20: no '{key}' in this line"):
        point_from_line(damaged)
