"""Rows and steps: everything once, nothing too large, little empty, and the same again for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalerl.supervised.plan import WINDOW, epoch_rows, plan_steps, rate_share, sorted_rows

LENGTHS = np.random.default_rng(0).integers(20, 900, 3 * WINDOW)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=60), st.integers(64, 200), st.integers(0, 5))
def test_every_document_once_and_no_row_too_large(lengths: list[int], row_tokens: int, seed: int) -> None:
    sizes = np.array(lengths)
    for rows in (epoch_rows(sizes, row_tokens, (seed, 0)), sorted_rows(sizes, row_tokens)):
        assert sorted(document for row in rows for document in row) == list(range(len(lengths)))
        assert all(sizes[list(row)].sum() <= row_tokens for row in rows)


def test_rows_are_nearly_full() -> None:
    rows = epoch_rows(LENGTHS, 1024, (0, 0))
    assert LENGTHS.sum() / (1024 * len(rows)) > 0.97


def test_rows_of_one_document_each() -> None:
    assert sorted(epoch_rows(LENGTHS[:50], 1, (0, 0))) == [(number,) for number in range(50)]


def test_steps_hold_the_budget_and_all_epochs() -> None:
    steps = plan_steps(LENGTHS, row_tokens=1024, batch_tokens=8000, epochs=2, seed=3)
    sizes = [sum(LENGTHS[list(row)].sum() for row in step) for step in steps]
    assert max(sizes) <= 8000
    assert min(sizes[:-1]) > 8000 - 1024
    seen = np.bincount([document for step in steps for row in step for document in row])
    assert (seen == 2).all()


def test_a_row_beyond_the_budget_is_a_step_of_its_own() -> None:
    assert plan_steps(np.array([9, 9]), row_tokens=9, batch_tokens=4, epochs=1, seed=0) == [((0,),), ((1,),)]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    one = epoch_rows(LENGTHS, 1024, (0, 0))
    assert one == epoch_rows(LENGTHS, 1024, (0, 0))
    assert one != epoch_rows(LENGTHS, 1024, (0, 1))
    assert one != epoch_rows(LENGTHS, 1024, (1, 0))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.5, 1.0, 0.75, 0.5, 0.25]),
        ("cosine", [0.5, 1.0, 0.8536, 0.5, 0.1464]),
        ("constant", [0.5] + [1] * 4),
    ],
)
def test_the_learning_rate(schedule: str, expected: list[float]) -> None:
    """Two steps up, then down: the last one is small and not zero."""
    found = [rate_share(step, 5, 0.4, schedule) for step in range(1, 6)]
    if schedule == "constant":
        assert found == expected
    else:
        assert found[:2] == [0.5, 1.0]
        assert found[2:] == pytest.approx(expected[2:], abs=1e-4)


def test_no_warm_up() -> None:
    assert rate_share(1, 10, 0.0, "constant") == 1.0
