"""The task table: the same names as the tasks themselves have, and settings that they take."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest

from scalerl.config import load_run, patch
from scalerl.config.task import Task
from scalerl.tasks.build import KINDS, build_task

ELSEWHERE = {"seed", "held_out_problems", "whole"}
"""Options of a task that a run takes from another place: `seed`, `scale.evaluation.problems`, and of a downstream set
`whole`."""
CONFIGS = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Task)}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_option_of_a_task_can_be_set(kind: str) -> None:
    assert {field.name for field in fields(KINDS[kind])} - ELSEWHERE == set(CONFIGS[kind].model_fields) - {"kind"}


def test_no_other_kinds() -> None:
    assert set(CONFIGS) == set(KINDS)


def test_the_laptop_task_is_built_from_its_settings() -> None:
    settings = load_run().config.scale.task_settings
    assert settings == {
        "kind": "chained_sums",
        "numbers": 5,
        "largest": 9,
        "train_problems": 20000,
        "held_out_share": 0.1,
        "held_out_problems": 256,
    }
    task = build_task(settings, seed=3)
    assert (task.problems("train").size, task.problems("held_out").size) == (20000, 256)


def test_no_limit_is_left_to_the_task() -> None:
    endless = patch(load_run().config, {"scale.task.train_problems": 0, "scale.task.fewest_numbers": 2})
    settings = endless.scale.task_settings
    assert "train_problems" not in settings
    assert settings["fewest_numbers"] == 2
    assert build_task(settings).problems("train").size is None
