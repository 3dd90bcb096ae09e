"""Trainer ranks as processes of this machine: a whole run with them, and what becomes of it when one is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig, patch
from scalerl.errors import InputError
from scalerl.pipeline.launch.meeting import Arrival, Meeting, RankLostError
from scalerl.pipeline.launch.trainers import open_trainer
from scalerl.pipeline.session import train
from scalerl.pipeline.types import EvalPoint, StepRecord
from scalerl.policy import TinyLlama
from scalerl.policy.load import read_policy
from scalerl.policy.tiny import build_policy
from scalerl.recipe import recipe_of

MakeRun = Callable[..., RunConfig]
TWO = ('scale.launcher.kind="local"', "scale.launcher.trainers=2")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def stop_after(steps: int) -> Callable[[], bool]:
    calls = iter(range(steps))
    return lambda: next(calls, None) is None


class Killer:
    """An observer that kills the second trainer once a step has been made."""

    def __init__(self, after: int) -> None:
        self.after = after

    def stepped(self, record: StepRecord) -> None:
        if record.step == self.after:
            (rank,) = [child for child in multiprocessing.active_children() if child.name == "scalerl-trainer-1"]
            assert rank.pid is not None
            os.kill(rank.pid, signal.SIGKILL)

    def started(self, step: int, *_: Any) -> None: ...

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None: ...

    def evaluated(self, point: EvalPoint) -> None: ...

    def saved(self, step: int, folder: Path) -> None: ...

    def noticed(self, event: Any) -> None: ...

    def stopped(self, *_: Any) -> None: ...


def test_a_run_loses_a_rank_and_goes_on_with_any_number_of_them(make_run: MakeRun, cache: Path, tmp_path: Path) -> None:
    """Synchronous, so that nothing depends on timing: the same losses as in one process, whoever computes them."""
    sync = 'recipe.asynchrony.kind="sync"'
    whole = train(make_run(sync), tmp_path / "whole", cache=cache)
    run = make_run(sync, *TWO, "scale.checkpoint_every=2")
    with pytest.raises(RankLostError, match=r"trainer rank 1 was killed by SIGKILL.*; the run can be resumed"):
        train(run, tmp_path / "parts", cache=cache, observer=Killer(after=3))
    assert not multiprocessing.active_children()
    assert [file.name for file in (tmp_path / "parts" / "checkpoints").iterdir()] == ["step-000002"]

    alone = patch(run, {"scale.launcher.trainers": 1})
    second = train(alone, tmp_path / "parts", cache=cache, resume=True, should_stop=stop_after(2))
    assert (second.reason, second.step) == ("interrupted", 4)
    third = train(run, tmp_path / "parts", cache=cache, resume=True)
    assert (third.reason, third.step) == ("budget", 6)
    assert not multiprocessing.active_children()

    for one, two in zip(lines(whole.folder), lines(third.folder), strict=True):
        for key in ("loss", "grad_norm", "entropy", "reward", "loss_tokens", "pass_rate"):
            same = one[key] if one[key] is None else pytest.approx(one[key], rel=1e-4, abs=1e-5)
            assert two[key] == same, (one["step"], key)
    assert sum(line["loss"] is not None for line in lines(third.folder)) >= 4
    assert [point.pass_rate for point in third.points] == [point.pass_rate for point in whole.points]
    assert (third.folder / "checkpoints" / "step-000006" / "shards").is_dir()


def test_a_rank_that_cannot_begin_says_why_and_none_is_left(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(*TWO)
    folder = build_policy(tmp_path / "policy", TinyLlama(width=16, layers=1, heads=2, feed_forward=16))
    model = read_policy(folder, "float32")
    shutil.rmtree(folder)
    with (
        pytest.raises(InputError, match="the policy cannot be read") as caught,
        open_trainer(run, recipe_of(run), model, folder, folder),
    ):
        raise AssertionError("opened")
    assert "on trainer rank 1" in caught.value.__notes__[0]
    assert not multiprocessing.active_children()


def test_a_port_in_use_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"in use: got {port}; allowed: a free port, or 0 for any"):
            Meeting(2, port=port)


def test_a_host_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(InputError, match=r"address for the trainer ranks .*: got '203\.0\.113\.1:0'"):
        Meeting(2, host="203.0.113.1")


def test_an_address_that_is_none() -> None:
    with pytest.raises(InputError, match="address of a meeting: got 'env://'; allowed: tcp://HOST:PORT"):
        Arrival(1, 2, "env://")


def test_a_rank_that_does_not_come() -> None:
    with pytest.raises(RankLostError, match=r"trainer rank 1 did not come to tcp://127\.0\.0\.1:\d+ within 0\.1 s"):
        Meeting(2).wait(lambda: None, patience_s=0.1)
