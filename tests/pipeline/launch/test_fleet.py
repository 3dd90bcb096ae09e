"""The fleet of a cluster without a cluster: real actors with their processes, a stand-in for everything said to Ray.

What only Ray itself can show is in tests/pipeline/cluster.
"""

from __future__ import annotations

import copy
import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from scalerl.config import RunConfig, load_run, patch
from scalerl.errors import InputError
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.launch import process
from scalerl.pipeline.launch.process import GeneratorDiedError
from scalerl.pipeline.launch.ray import fleet as fleets
from scalerl.pipeline.launch.ray import generator
from scalerl.pipeline.launch.ray.cluster import ActorLostError
from scalerl.pipeline.launch.ray.delivery import delivery_of
from scalerl.pipeline.launch.ray.fleet import Fleet, NoGeneratorError
from scalerl.pipeline.launch.ray.generator import GeneratorActor
from scalerl.pipeline.launch.remote import RemoteFeed
from scalerl.pipeline.launch.worker import Build
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Exam, Group, GroupRequest
from scalerl.pipeline.weights import Parcel
from scalerl.recipe import recipe_of
from scalerl.tasks import build_task

K, PROMPTS = 3, 6


class Threads:
    """Calls are made in threads; a dead actor answers nobody, not even calls that are under way."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(32)
        self._open: dict[int, list[Future[Any]]] = {}
        self.dead: set[int] = set()

    def call(self, actor: GeneratorActor, method: str, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if id(actor) in self.dead:
            future.set_exception(ActorLostError("it was killed"))
            return future
        self._open.setdefault(id(actor), []).append(future)

        def run() -> None:
            result = getattr(actor, method)(*args)
            if not future.done():
                future.set_result(result)

        self._pool.submit(run)
        return future

    def put(self, value: Any) -> Any:
        return copy.deepcopy(value)

    def wait(self, refs: Sequence[Future[Any]], timeout_s: float) -> list[Future[Any]]:
        return list(wait_for(refs, timeout_s, FIRST_COMPLETED).done)

    def get(self, ref: Future[Any]) -> Any:
        return ref.result()

    def kill(self, actor: GeneratorActor) -> None:
        self.dead.add(id(actor))
        for future in self._open.pop(id(actor), []):
            if not future.done():
                future.set_exception(ActorLostError("it was killed"))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(fleets, "_NEWS_S", 0.02)
    monkeypatch.setattr(fleets, "_END_S", 0.2)
    monkeypatch.setattr(process, "_END_S", 0.5)
    made = Threads()
    yield made
    made.close()


BOTH_WAYS = pytest.mark.parametrize("run", ["store", "direct"], indirect=True)
"""That weights can take."""


@pytest.fixture
def run(request: pytest.FixtureRequest) -> RunConfig:
    changes = {"scale.launcher.kind": "ray", "scale.launcher.transfer": getattr(request, "param", "store")}
    changes |= {"recipe.asynchrony.kind": "pipeline", "recipe.asynchrony.k": K, "scale.batch.prompts": PROMPTS}
    return patch(load_run("scalerl", "laptop").config, changes | {"scale.batch.rollouts": 2})


class Opened:
    """A feed with a fleet of stand-ins, and what was said about it."""

    def __init__(self, run: RunConfig, threads: Threads, size: int, most: int, build: Build, version: int) -> None:
        weights = delivery_of(run, threads, "127.0.0.1")
        self.threads = threads
        self._version = version
        self.notices: list[str] = []
        self.started: list[GeneratorActor] = []
        self._build = build
        schedule = schedule_of(run.recipe.asynchrony)
        task = build_task(run.scale.task_settings, seed=run.seed)
        source = Source(run, task, recipe_of(run), lambda _: (1, 2, 3))
        self.fleet = Fleet(threads, self._start, size, most, self.notices.append, weights)
        self.feed = RemoteFeed(self.fleet, source, Buffer(schedule, PROMPTS), schedule)

    def _start(self, place: int) -> GeneratorActor:
        assert place >= 0
        self.started.append(GeneratorActor(self._build, self._version, threads=1))
        return self.started[-1]

    def train(self, first: int, last: int, after_step: Callable[[int], None] = lambda _: None) -> list[Group]:
        """Steps without a trainer: version v is the tensor v."""
        trained: list[Group] = []
        for version in range(first, last):
            batch = self.feed.batch(version)
            assert batch is not None
            trained += batch
            self.feed.publish({"value": torch.tensor(version + 1)}, version + 1, 1.0)
            after_step(version + 1)
        return trained


@pytest.fixture
def open_fleet(run: RunConfig, threads: Threads) -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def open_it(size: int = 2, most: int = 8, build: Build | None = None, version: int = 0) -> Opened:
        stand_in = importlib.import_module("stand_in")
        opened.append(Opened(run, threads, size, most, build or partial(stand_in.StandIn, 0), version))
        return opened[-1]

    yield open_it
    for each in opened:
        each.feed.close()
        for actor in each.started:
            actor.stop()


def check_order_and_ages(trained: list[Group]) -> None:
    assert [group.request.index for group in trained] == list(range(len(trained)))
    for index, group in enumerate(trained):
        version = int(group.rollouts[0].versions[0])
        assert 0 <= index // PROMPTS - version <= K
        assert int(group.rollouts[0].tokens[0]) == version  # written by the weights that it is said to be from


@BOTH_WAYS
def test_several_generators_share_the_work(open_fleet: Callable[..., Opened]) -> None:
    opened = open_fleet(size=3)
    while len(opened.fleet.actors) < 3:
        time.sleep(0.05)
    trained = opened.train(0, 12)
    check_order_and_ages(trained)
    assert trained[-1].rollouts[0].versions[0] > 0
    report = opened.feed.report()
    assert report.usage.tokens >= 3 * len(trained)  # three tokens a step in each stand-in, added up over all
    assert all(member.now.usage.tokens > 0 for member in opened.fleet._members)
    assert "generators_lost" not in report.values
    assert not opened.notices


@BOTH_WAYS
def test_every_request_is_complete_once_however_many_die(open_fleet: Callable[..., Opened]) -> None:
    opened = open_fleet(size=2)

    def kill_one(version: int) -> None:
        if version in {3, 7, 11}:
            opened.threads.kill(opened.fleet.actors[0])

    trained = opened.train(0, 16, kill_one)
    check_order_and_ages(trained)
    assert len(opened.started) == 5  # two, and one for each that died
    report = opened.feed.report()
    assert report.values["generators_lost"] == 3
    repeated = report.requests_repeated
    told = [int(text.split("; ")[1].split()[0]) for text in opened.notices]
    assert sum(told) == repeated > 0
    assert all("a generator died (it was killed)" in text for text in opened.notices)


@BOTH_WAYS
def test_an_evaluation_is_answered_once_by_one_version_whoever_dies(open_fleet: Callable[..., Opened]) -> None:
    opened = open_fleet(size=2)
    trained = opened.train(0, 5)
    exams = [replace(request(index - 100), exam=Exam(None, 1.0)) for index in range(40)]
    deaths = iter([10, 25])
    next_death = next(deaths)

    def watch(num_done: int, num_wanted: int) -> None:
        nonlocal next_death
        assert num_wanted == 40
        if num_done >= next_death and opened.fleet.actors:
            opened.threads.kill(opened.fleet.actors[0])
            next_death = next(deaths, 1 << 30)

    groups, usage = opened.feed.exams(exams, {"value": torch.tensor(5)}, 5, watch)
    assert sorted(group.request.index for group in groups) == list(range(-100, -60))
    assert {int(group.rollouts[0].tokens[0]) for group in groups} == {5}
    assert usage.tokens >= 3 * 40
    trained += opened.train(5, 9)
    check_order_and_ages(trained)
    assert opened.feed.report().values["generators_lost"] == 2


def test_a_generator_has_as_many_rollouts_as_it_may(open_fleet: Callable[..., Opened]) -> None:
    """Counted in rollouts: those of an evaluation come in smaller groups."""
    opened = open_fleet(size=1, most=6)
    asked: list[int] = []
    real = opened.threads.call

    def call(actor: GeneratorActor, method: str, *args: Any) -> Any:
        if method == "submit":
            asked.append(sum(len(one.seeds) for one in args[0]))
        return real(actor, method, *args)

    opened.threads.call = call  # type: ignore[method-assign]
    for num, seeds in ((30, (7,)), (10, (7, 8, 9))):
        asked.clear()
        requests = [replace(request(index - 50), exam=Exam(None, 1.0), seeds=seeds) for index in range(num)]
        requests = [replace(one, interruptions=(None,) * len(seeds)) for one in requests]
        groups, _ = opened.feed.exams(requests, {}, 0, lambda *_: None)
        assert len(groups) == num
        assert asked[0] == 6
    assert opened.fleet._members[0].num_rollouts <= 6 + 1


def test_the_only_one_dies_and_the_run_waits_for_its_successor(open_fleet: Callable[..., Opened]) -> None:
    opened = open_fleet(size=1, most=1 << 30)
    trained = opened.train(0, 4)
    opened.threads.kill(opened.started[0])
    trained += opened.train(4, 8)
    check_order_and_ages(trained)


def test_a_generator_that_cannot_live_is_given_up(
    open_fleet: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_fleet(size=1)
    opened.train(0, 2)
    monkeypatch.setattr(
        opened.fleet, "_start", lambda place: _dead_on_arrival(opened.threads, Opened._start(opened, place))
    )
    opened.threads.kill(opened.started[0])
    with pytest.raises(NoGeneratorError, match=r"no generator is left \(it was killed\); the run can be resumed"):
        opened.train(2, 10)
    assert len(opened.started) == 1 + 3  # as many tries as are allowed


def _dead_on_arrival(threads: Threads, actor: GeneratorActor) -> GeneratorActor:
    threads.kill(actor)
    return actor


def test_no_room_for_a_generator_is_said_after_a_while(
    open_fleet: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "_ALONE_S", 0.3)
    opened = open_fleet(size=2, build=importlib.import_module("stand_in").never_begin)
    with pytest.raises(NoGeneratorError, match="the cluster has had no room"):
        opened.feed.batch(0)


def test_errors_of_a_generator_come_out_as_they_are(open_fleet: Callable[..., Opened]) -> None:
    stand_in = importlib.import_module("stand_in")
    with pytest.raises(InputError, match="a model: got 'broken'; allowed: a whole one"):
        open_fleet(build=stand_in.refuse).feed.batch(0)
    with pytest.raises(GeneratorDiedError, match="ZeroDivisionError: an accident"):
        open_fleet(build=stand_in.stumble).feed.batch(0)


@BOTH_WAYS
def test_a_saved_feed_asks_again_for_what_was_under_way(open_fleet: Callable[..., Opened]) -> None:
    first = open_fleet()
    first.train(0, 5)
    first.feed.report()
    time.sleep(0.5)  # an evaluation, say: groups come in, and are saved before their work is booked
    saved = first.feed.snapshot()
    not_booked = first.feed.report().usage
    assert not_booked.tokens > 0
    first.feed.close()
    second = open_fleet(build=partial(importlib.import_module("stand_in").StandIn, 5), version=5)
    second.feed.restore(saved)
    owed = second.feed.report().usage
    assert (owed.flops, owed.tokens) == (not_booked.flops, not_booked.tokens)
    assert owed.device_s == pytest.approx(not_booked.device_s)
    assert second.feed.report().usage.tokens == 0  # once
    trained = second.train(5, 9)
    assert [group.request.index for group in trained] == list(range(5 * PROMPTS, 9 * PROMPTS))


def test_a_generator_whose_process_is_killed_is_replaced(open_fleet: Callable[..., Opened]) -> None:
    """Its actor lives on, with nobody behind the door."""
    opened = open_fleet(size=1)
    trained = opened.train(0, 3)
    pid = opened.started[0].process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    trained += opened.train(3, 8)
    check_order_and_ages(trained)
    assert len(opened.started) == 2
    (said,) = opened.notices
    assert said.startswith("a generator died (was killed by SIGKILL, perhaps for want of memory)")
    assert opened.feed.report().values["generators_lost"] == 1


def test_requests_wait_for_the_weights_that_they_must_be_written_with(actor: GeneratorActor) -> None:
    """In the order in which Ray may deliver calls."""
    actor.submit((request(0),), 2)
    actor.submit((request(1),), 0)
    assert [group.request.index for group in written(actor, 1)] == [1]
    actor.load(Parcel.of({"value": torch.tensor(3)}, 3))
    actor.load(Parcel.of({"value": torch.tensor(2)}, 2))  # overtaken
    (late,) = written(actor, 1)
    assert (late.request.index, late.rollouts[0].versions.tolist()) == (0, [3])


def test_the_process_gathers_what_is_complete(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are dear on a cluster. A slow machine may send a few of them: signs of life take groups along."""
    assert threads is not None  # for the path to the stand-in
    monkeypatch.setattr(generator, "_GATHER_S", 3600.0)
    actor = GeneratorActor(partial(importlib.import_module("stand_in").StandIn, 0), 0, threads=1)
    try:
        actor.submit(tuple(request(index) for index in range(20)), 0)
        messages: list[int] = []
        while sum(messages) < 20:
            messages.append(len(written(actor, 1)))
        assert len(messages) < 20
    finally:
        actor.stop()


def request(index: int) -> GroupRequest:
    return GroupRequest(index, "train", index, str(index), (1, 2, 3), (7,), (None,))


def written(actor: GeneratorActor, wanted: int) -> list[Group]:
    found: list[Group] = []
    while len(found) < wanted:
        news = actor.news(5.0)
        assert (news.failed, news.lost) == (None, None)
        found += news.progress.groups if news.progress else ()
    return found


def test_a_parcel_holds_every_tensor_as_it_was() -> None:
    weights = {
        "a": torch.randn(3, 5), "b": torch.randn(7).to(torch.bfloat16), "c": torch.tensor(2, dtype=torch.int64),
        "t": torch.randn(4, 6).T,
    }  # fmt: skip
    parcel = Parcel.of(weights, 9)
    parcel.block.setflags(write=False)  # as an object store gives it
    for name, tensor in parcel.tensors().items():
        assert tensor.dtype == weights[name].dtype
        assert torch.equal(tensor, weights[name])


def test_a_parcel_uses_the_memory_of_one_before() -> None:
    first = Parcel.of({"a": torch.ones(3), "b": torch.ones(2, 2)}, 1)
    second = Parcel.of({"a": torch.zeros(3), "b": torch.full((2, 2), 5.0)}, 2, first)
    assert second.block.ctypes.data == first.block.ctypes.data
    assert {name: tensor.sum().item() for name, tensor in second.tensors().items()} == {"a": 0.0, "b": 20.0}
    other = Parcel.of({"a": torch.ones(4)}, 3, second)
    assert (other.version, other.tensors()["a"].tolist()) == (3, [1.0] * 4)
    assert second.tensors()["b"].tolist() == [[5.0, 5.0], [5.0, 5.0]]


def test_news_come_at_once_when_there_are_some(actor: GeneratorActor) -> None:
    started = time.monotonic()
    while not actor.news(5.0).progress:
        assert time.monotonic() - started < 60
    assert actor.news(0.0).progress  # what was done so far
    assert actor.news(0.0).failed is None


@pytest.fixture
def actor(threads: Threads) -> Iterator[GeneratorActor]:
    assert threads is not None  # for the path to the stand-in
    made = GeneratorActor(partial(importlib.import_module("stand_in").StandIn, 0), 0, threads=1)
    yield made
    made.stop()
