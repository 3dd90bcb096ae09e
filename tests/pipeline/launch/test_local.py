"""The local launcher with a real second process whose generator is a stand-in; test_local_run.py has a whole run."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from scalerl.config import RunConfig, load_run, patch
from scalerl.errors import InputError
from scalerl.pipeline.buffer import Buffer, ClosedError
from scalerl.pipeline.launch.process import GeneratorDiedError, GeneratorProcess, RemoteTraceback, _collect
from scalerl.pipeline.launch.remote import RemoteFeed
from scalerl.pipeline.launch.worker import Build
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Group, Snapshot
from scalerl.recipe import recipe_of
from scalerl.tasks import build_task

FOLDER = Path(__file__).parent
K, PROMPTS, ROLLOUTS = 2, 4, 2


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("stand_in")


@pytest.fixture(scope="module")
def run() -> RunConfig:
    changes = {
        "recipe.asynchrony.kind": "pipeline",
        "recipe.asynchrony.k": K,
        "scale.batch.prompts": PROMPTS,
        "scale.batch.rollouts": ROLLOUTS,
    }
    return patch(load_run(recipe="scalerl", scale="laptop").config, changes)


class Feeds:
    """Opens feeds, and closes them whatever happens."""

    def __init__(self, run: RunConfig) -> None:
        self._run = run
        self._source_task = build_task(run.scale.task_settings, seed=run.seed)
        self.opened: list[RemoteFeed] = []

    def open(self, build: Build) -> tuple[RemoteFeed, GeneratorProcess, Buffer]:
        schedule = schedule_of(self._run.recipe.asynchrony)
        buffer = Buffer(schedule, PROMPTS)
        source = Source(self._run, self._source_task, recipe_of(self._run), lambda _: (1, 2, 3))
        process = GeneratorProcess(build, threads=1)
        self.opened.append(RemoteFeed(process, source, buffer, schedule))
        return self.opened[-1], process, buffer


@pytest.fixture
def feeds(run: RunConfig) -> Iterator[Feeds]:
    made = Feeds(run)
    yield made
    for feed in made.opened:
        feed.close()


def train(feed: RemoteFeed, first: int, last: int) -> list[Group]:
    """Steps without a trainer: version v is the tensor v."""
    trained: list[Group] = []
    for version in range(first, last):
        batch = feed.batch(version)
        assert batch is not None
        trained += batch
        feed.publish({"value": torch.tensor(version + 1)}, version + 1, 1.0)
    return trained


def gone(pid: int) -> bool:
    """No such process, or one that only waits for somebody to note its end."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 120  # a busy machine
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return gone(pid)


def test_a_run_its_resumption_and_the_death_of_its_generator(feeds: Feeds, stand_in: Any) -> None:
    """One process for many questions, because each takes seconds to start."""
    feed, process, buffer = feeds.open(partial(stand_in.StandIn, 0))
    assert process.pid is not None
    trained = train(feed, 0, 5)
    os.kill(process.pid, signal.SIGINT)  # Ctrl-C in a terminal reaches both processes: the generator goes on
    trained += train(feed, 5, 20)

    assert [group.request.index for group in trained] == list(range(20 * PROMPTS))
    ages = [index // PROMPTS - int(group.rollouts[0].versions[0]) for index, group in enumerate(trained)]
    assert 0 <= min(ages) <= max(ages) <= K
    assert trained[-1].rollouts[0].versions[0] > 0  # new weights did arrive
    for group in trained:
        assert int(group.rollouts[0].tokens[0]) == group.rollouts[0].versions[0]  # with the version they belong to

    report = feed.report()
    assert report.usage.flops == pytest.approx(10.0 * report.usage.tokens / 3)
    assert report.usage.tokens >= 3 * len(trained)
    assert report.usage.device_s > 0
    for share in (report.generator_idle, report.trainer_idle):
        assert share is not None
        assert 0 <= share <= 1
    for peak in (report.generator_memory_bytes, report.trainer_memory_bytes):
        assert peak is not None
        assert 50e6 < peak < 50e9
    assert feed.report().usage.flops < report.usage.flops  # a report begins where the last one ended

    saved = feed.snapshot()
    admitted = buffer.next_index
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(GeneratorDiedError, match="was killed by SIGKILL, perhaps for want of memory"):
        train(feed, 20, 40)
    feed.close()
    assert gone(process.pid)

    resumed, process, buffer = feeds.open(partial(stand_in.StandIn, 20, exit_at=admitted + PROMPTS))
    resumed.restore(Snapshot(json.loads(json.dumps(saved.values)), saved.tensors))
    assert buffer.next_index == admitted
    after = train(resumed, 20, 20 + K + 1)  # all that was admitted before
    assert [group.request.index for group in after] == list(range(20 * PROMPTS, admitted))
    with pytest.raises(GeneratorDiedError, match="ended with exit code 3"):
        train(resumed, 20 + K + 1, 40)


def test_an_error_of_the_generator_is_raised_here(feeds: Feeds, stand_in: Any) -> None:
    feed, _, _ = feeds.open(stand_in.refuse)
    with pytest.raises(InputError, match="models/x: a model: got 'broken'; allowed: a whole one") as caught:
        feed.batch(0)
    with pytest.raises(InputError, match="a model"):  # it stays that way
        feed.batch(0)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "stand_in.py" in str(caught.value.__cause__)
    feed.close()
    with pytest.raises(ClosedError):
        feed.batch(0)


def test_a_generator_that_cannot_start_is_noticed_before_a_batch_is_wanted(feeds: Feeds, stand_in: Any) -> None:
    """While step 0 is evaluated, say."""
    feed, process, _ = feeds.open(stand_in.refuse)
    assert process.pid is not None
    assert wait_until_gone(process.pid)
    with pytest.raises(InputError, match="models/x: a model: got 'broken'"):
        feed.attend()


def test_an_accident_in_the_generator_is_one_clear_error(feeds: Feeds, stand_in: Any) -> None:
    feed, process, _ = feeds.open(stand_in.stumble)
    with pytest.raises(GeneratorDiedError, match=r"failed \(ZeroDivisionError: an accident\)") as caught:
        feed.batch(0)
    assert "in stumble" in str(caught.value.__cause__)
    assert process.pid is not None
    assert wait_until_gone(process.pid)


def test_a_message_that_cannot_be_read_leaves_nobody_waiting() -> None:
    here, there = Pipe()
    there.send_bytes(b"no pickle")
    inbox: Any = queue.SimpleQueue()
    ready = threading.Event()
    with pytest.raises(pickle.UnpicklingError):
        _collect(here, inbox, ready)
    assert inbox.get_nowait() is None
    assert ready.is_set()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes the way Linux shows them")
def test_a_killed_trainer_leaves_no_generator_behind() -> None:
    program = (
        "import sys, time\n"
        "from functools import partial\n"
        "from scalerl.pipeline.launch.process import GeneratorProcess\n"
        "import stand_in\n"
        "if __name__ == '__main__':\n"
        "    process = GeneratorProcess(partial(stand_in.StandIn, 0), 1)\n"
        "    print(process.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    search = os.pathsep.join([str(FOLDER), *sys.path])
    trainer = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": search},
    )  # fmt: skip
    assert trainer.stdout is not None
    pid = int(trainer.stdout.readline())
    assert not gone(pid)
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    assert wait_until_gone(pid)
