"""Every fuzz target for a moment, the same inputs on every machine: `scripts/fuzz.py` does it for longer.

Bad input may be refused in one line, and nothing else may come of it (`target`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .mutations import inputs
from .target import UnfitRefusalError, attempt
from .targets import TARGETS

BUDGET_MS = 600
"""Of each target, about."""
FEWEST, MOST = 12, 150
"""Inputs of each target."""
NOT_HERE = {"verify-math-worker"}
"""Starting sympy takes longer than everything else; tests/verify asks it enough."""


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in NOT_HERE])
def test_bad_input_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    run = target.make(tmp_path)
    taken = [attempt(run, sample) for sample in target.samples()]
    assert any(taken), "no sample is valid: nothing behind the first check would be tried"
    examples = max(FEWEST, min(MOST, BUDGET_MS // target.cost))

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(data=inputs(target))
    def drive(data: bytes) -> None:
        attempt(run, data)

    drive()


def test_a_crash_is_not_taken_for_a_refusal() -> None:
    from scalerl.errors import StorageError

    def crash(_: bytes) -> None:
        raise KeyError("x")

    def babble(_: bytes) -> None:
        raise StorageError(None, "one\ntwo", "a")

    with pytest.raises(KeyError):
        attempt(crash, b"")
    with pytest.raises(UnfitRefusalError):
        attempt(babble, b"")


@given(data=st.binary(max_size=300))
def test_edits_keep_any_input_usable(data: bytes) -> None:
    """The mutations are total: they hold on the empty input too."""
    from . import mutations

    edits = [mutations._turned(1.0, 3), mutations._cut(0.5, 9), mutations._replaced(0.0, b"7"), mutations._ended(0.3)]
    assert len(mutations._edited(data, edits)) <= len(data) + 1
