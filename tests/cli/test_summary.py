"""The summary of a run: what it tells one to type must work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from scalerl.cli.budget import parse_budget
from scalerl.cli.summary import next_commands
from scalerl.compute import Ledger
from scalerl.config import load_run
from scalerl.pipeline.session import TrainResult
from scalerl.pipeline.types import StopReason


@pytest.mark.parametrize(
    ("unit", "amount"), [("steps", 1500), ("flops", 2e13), ("tokens", 5e6), ("tokens", 300), ("device_hours", 1.5)]
)
def test_the_command_that_goes_on_has_a_budget_that_is_read_as_twice_the_old_one(unit: str, amount: float) -> None:
    run = load_run(overrides=[f"scale.budget.unit={unit}", f"scale.budget.amount={amount}"]).config
    result = TrainResult(Path("a run"), "budget", 3, (), Ledger())
    words = shlex.split(next_commands(result, run)[-1])
    assert words[:-1] == ["scalerl", "train", "--out", "a run", "--resume", "--budget"]
    budget = parse_budget(words[-1])
    assert (budget.unit, budget.amount) == (unit, 2 * amount)


@pytest.mark.parametrize("reason", ["budget", "interrupted"])
def test_the_command_that_goes_on_names_the_cluster(reason: StopReason) -> None:
    """It is no part of the config: without the option the run would go on in a cluster of its own."""
    run = load_run(overrides=['scale.launcher.kind="ray"']).config
    result = TrainResult(Path("run"), reason, 3, (), Ledger())
    words = shlex.split(next_commands(result, run, "10.0.0.1:6379")[-1])
    assert words[words.index("--address") + 1] == "10.0.0.1:6379"
    assert "--address" not in next_commands(result, run)[-1]
