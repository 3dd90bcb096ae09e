"""A run in trouble, from the session: skipped steps, alarms that are said, stop a run or roll it back, damage."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig
from scalerl.errors import GuardError
from scalerl.pipeline.guards import Alarm, Watchdog
from scalerl.pipeline.learner import Gradient, Learner
from scalerl.pipeline.observe import Silent
from scalerl.pipeline.session import TrainResult, train
from scalerl.runs import RunDirectory, summarise
from scalerl.runs.events import Event

MakeRun = Callable[..., RunConfig]


class Ears(Silent):
    """What an observer hears of."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.starts: list[int] = []

    def started(self, step: int, *_: Any) -> None:
        self.starts.append(step)

    def noticed(self, event: Event) -> None:
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


def break_losses(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """The loss of these steps of the process, from 1, is not finite."""
    accumulate, made = Learner.accumulate, iter(range(1, 1000))

    def broken(learner: Learner, *args: Any) -> Gradient:
        gradient = accumulate(learner, *args)
        if next(made) in steps:
            for parameter in learner.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.fill_(math.nan)
        return gradient

    monkeypatch.setattr(Learner, "accumulate", broken)


def test_a_step_that_is_not_finite_is_skipped_and_its_batch_kept(
    make_run: MakeRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_losses(monkeypatch, 3)
    ears, run = Ears(), make_run("recipe.zero_variance=keep")
    assert train(run, tmp_path / "run", cache=cache, observer=ears).reason == "budget"
    directory = RunDirectory.open(tmp_path / "run")
    counts = [line.get("skipped_steps") for line in directory.metrics.read()]
    assert counts == [None, None, 1, 1, 1, 1]
    assert [line["grad_norm"] is None for line in directory.metrics.read()][2]
    (event,) = ears.events
    assert (event.name, event.step, event.values) == ("skipped_step", 3, {"file": "inspect/step-000003.jsonl"})
    assert [Event.from_line(line) for line in directory.events.read()] == [event]
    rollouts = [json.loads(line) for line in (tmp_path / "run/inspect/step-000003.jsonl").read_text().splitlines()]
    assert len(rollouts) == run.scale.batch.prompts * run.scale.batch.rollouts
    assert {"group", "prompt", "response", "correct", "tokens", "logprobs", "versions"} <= rollouts[0].keys()


def test_so_many_in_a_row_stop_the_run_with_everything_saved(
    make_run: MakeRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_losses(monkeypatch, 1, 3, 4)
    run = make_run("scale.guards.skipped_in_a_row=2", "recipe.zero_variance=keep")
    with pytest.raises(GuardError, match=r"step 4 was skipped: .* it was the last of 2 in a row; the run was stopped"):
        train(run, tmp_path / "run", cache=cache)
    found = summarise(tmp_path / "run")
    assert (found.state, found.reason, found.step, found.checkpoints[-1]) == ("interrupted", "guard", 4, 4)
    assert train(run, tmp_path / "run", cache=cache, resume=True).step == 6


ALWAYS = ("scale.guards.truncation=1e-9", "scale.guards.window=1", "scale.tokens.prompt=18", "scale.tokens.thinking=1",
          "scale.tokens.answer=1", "recipe.length.kind=none")  # fmt: skip
"""Every rollout is cut off, and that is too much."""


def train_with_alarms(make_run: MakeRun, cache: Path, out: Path, *sets: str, ears: Ears | None = None) -> TrainResult:
    return train(make_run(*ALWAYS, *sets), out, cache=cache, observer=ears)


def test_an_alarm_is_said_once_and_the_run_goes_on(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    ears = Ears()
    assert train_with_alarms(make_run, cache, tmp_path / "run", ears=ears).reason == "budget"
    (event,) = ears.events
    assert (event.name, event.step, event.values["alarm"]) == ("alarm", 1, "truncation")
    assert event.message.startswith("alarm truncation at step 1: ")


def test_an_alarm_stops_the_run(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    stop = "scale.guards.on_alarm=stop"
    with pytest.raises(GuardError, match=r"alarm truncation at step 1: .*; the run was stopped and saved"):
        train_with_alarms(make_run, cache, tmp_path / "run", stop)
    assert summarise(tmp_path / "run").checkpoints == (1,)
    calm = make_run(*ALWAYS, "scale.guards.on_alarm=log")  # guards are no part of a run's identity
    assert train(calm, tmp_path / "run", cache=cache, resume=True).step == 6


def test_an_alarm_rolls_the_run_back_with_a_lower_rate_and_at_last_stops_it(
    make_run: MakeRun, cache: Path, tmp_path: Path
) -> None:
    """It rings at the first step, before there is a checkpoint: back to the beginning."""
    ears = Ears()
    sets = ("scale.guards.on_alarm=roll_back", "scale.guards.rollbacks=2", "scale.checkpoint_every=1")
    with pytest.raises(GuardError, match=r"it was rolled back 2 times before; the run was stopped and saved"):
        train_with_alarms(make_run, cache, tmp_path / "run", *sets, ears=ears)
    assert ears.names == ["alarm", "rolled_back", "resumed", "alarm", "rolled_back", "resumed", "alarm"]
    assert ears.starts == [0, 0, 0]
    rates = [line["learning_rate"] for line in RunDirectory.open(tmp_path / "run").metrics.read()]
    assert rates == [0.25 * 0.001 / 2]  # the first step of two of warm-up, slowed twice


def test_a_roll_back_goes_to_the_checkpoint_before_the_trouble(
    make_run: MakeRun, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints at 1 to 4, the alarm at 5; steps up to 3 are known to be good."""
    asked = iter(range(1, 1000))

    def fifth(_: Watchdog) -> Alarm | None:
        return Alarm("truncation", "too much", 0.5, 0.1) if next(asked) == 5 else None

    monkeypatch.setattr(Watchdog, "_truncated", fifth)
    ears = Ears()
    run = make_run("scale.guards.on_alarm=roll_back", "scale.guards.window=1", "scale.checkpoint_every=1")
    assert train(run, tmp_path / "run", cache=cache, observer=ears).step == 6
    assert ears.starts == [0, 3]
    assert ears.events[1].values == {"good_step": 3, "rate": 0.5}
    lines = RunDirectory.open(tmp_path / "run").metrics.read()
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["learning_rate"] for line in lines] == [0.0005, 0.001, 0.001, 0.0005, 0.0005, 0.0005]


def test_a_damaged_checkpoint_is_said(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    run, more = make_run(), make_run("scale.budget.amount=7")
    train(run, tmp_path / "run", cache=cache)
    file = tmp_path / "run/checkpoints/step-000006/state.json"
    file.write_bytes(file.read_bytes()[:-20])
    ears = Ears()
    assert train(more, tmp_path / "run", cache=cache, resume=True, observer=ears).step == 7
    assert ears.names == ["resumed", "damaged_checkpoint"]
    assert "step-000006/state.json" in ears.events[1].message
    assert ears.events[1].message.endswith("the checkpoint of step 3 is used instead")
    directory = RunDirectory.open(tmp_path / "run")
    assert [line["step"] for line in directory.metrics.read()] == list(range(1, 8))
    assert [line["event"] for line in directory.events.read()] == ["resumed", "damaged_checkpoint"]


def test_every_group_of_a_run_is_in_one_step(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    train(make_run(), tmp_path / "run", cache=cache)
    assert [line["groups"] for line in RunDirectory.open(tmp_path / "run").metrics.read()] == [
        "0-2", "3-5", "6-8", "9-11", "12-14", "15-17",
    ]  # fmt: skip
