"""Rows as the trainers log them, and which step and clock they get."""

from __future__ import annotations

from typing import Any

import pytest

from scalerl.readers.logs.wandb_values import to_records


def steps(rows: list[dict[str, Any]]) -> list[float | None]:
    return [record.step for record in to_records(rows)]


def test_calls_of_the_logger_are_not_steps() -> None:
    # Hugging Face: each call of wandb.log is a `_step` of its own
    rows = [{"_step": call, "train/global_step": 10 * (call // 2), "loss": 1.0} for call in range(6)]
    assert steps(rows) == [0, 0, 10, 10, 20, 20]


def test_train_and_eval_have_their_own_names_for_the_same_step() -> None:
    # OpenRLHF
    rows = [
        {"_step": 0, "train/global_step": 4, "train/reward": 0.1},
        {"_step": 1, "eval/global_step": 4, "eval/eval_gsm8k_pass1": 0.2},
        {"_step": 2, "train/global_step": 5, "train/reward": 0.3},
    ]
    assert steps(rows) == [4, 4, 5]


def test_a_row_without_the_own_step_belongs_to_the_last() -> None:
    rows = [{"_step": call, "step": call * 100, "reward": 0.5} for call in range(5)]
    rows.insert(3, {"_step": 7, "eval/math/avg@8": 0.25})
    assert steps(rows) == [0, 100, 200, 200, 300, 400]


def test_an_own_step_that_is_rare_does_not_count() -> None:
    rows: list[dict[str, Any]] = [{"_step": call, "reward": 0.5} for call in range(5)]
    rows[0]["global_step"] = 0
    assert steps(rows) == [0, 1, 2, 3, 4]


def test_seconds_of_a_step_are_not_its_number() -> None:
    assert steps([{"_step": 3, "time/step": 12.5, "timing_s/step": 12.5, "progress/ckpt_step": 1}]) == [3]


def test_rows_without_a_metric_are_no_records() -> None:
    assert steps([{"_step": 1, "_timestamp": 5.0, "_runtime": 2.0}, {}, {"_step": 2, "note": "text"}]) == []


@pytest.mark.parametrize(
    ("row", "time_s"),
    [({"_timestamp": 50.0, "_runtime": 2.0}, 50.0), ({"_runtime": 2.0}, 2.0), ({"_timestamp": 50.0}, 50.0), ({}, None)],
)
def test_the_clock(row: dict[str, Any], time_s: float | None) -> None:
    (record,) = to_records([{**row, "loss": 1.0}])
    assert record.time_s == time_s


def test_integers_beyond_a_float() -> None:
    (record,) = to_records([{"a": 10**400, "b": -(10**400)}])
    assert record.values == {"a": float("inf"), "b": float("-inf")}
