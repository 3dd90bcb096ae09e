"""A run on a Ray cluster, from the side of the command: place the actors, hear of the run, start it again if it dies.

`train_on_ray` is to the command line what `session.train` is for a run on this machine. The session itself is in the
trainer's actor, so a lost connection or a killed command costs no more than the steps since the last checkpoint: Ray
ends the actors of a command that is gone, and the run directory can be resumed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Protocol

from scalerl.config import RunConfig
from scalerl.errors import InputError, ScaleRLError, StorageError
from scalerl.pipeline import checkpoint
from scalerl.pipeline.assemble import task_of
from scalerl.pipeline.downstream import downstream_tasks
from scalerl.pipeline.engines.open import check_engine
from scalerl.pipeline.launch.meeting import RankLostError
from scalerl.pipeline.launch.process import failure
from scalerl.pipeline.launch.ray.cluster import Actor, ActorLostError, ActorRefusedError, Cluster
from scalerl.pipeline.launch.ray.trainer import Ended, TrainerActor
from scalerl.pipeline.launch.ray.words import Resources, total
from scalerl.pipeline.session import TrainResult
from scalerl.pipeline.types import Observer
from scalerl.policy.load import Progress, default_cache
from scalerl.runs import RunDirectory
from scalerl.runs.layout import CHECKPOINTS, CONFIG

RESTARTS = 3
"""A trainer that dies so often in a row without a new checkpoint is not started again."""
_CALLS = 4
_EVENTS_S = 0.5


class TrainerLostError(ScaleRLError, RuntimeError):
    """The actor that trains died again and again."""

    def __init__(self, how: str, times: int) -> None:
        super().__init__(how, times)
        self.how, self.times = how, times

    def __str__(self) -> str:
        return (
            f"the trainer died {self.times} times without a new checkpoint ({self.how}); "
            "the run can be resumed from its last checkpoint"
        )


class Watcher(Observer, Protocol):
    """Who watches the run from here."""

    def preparing(self, progress: Progress) -> None: ...

    def notice(self, text: str) -> None:
        """Something about the cluster: somebody died, somebody is waited for."""


def train_on_ray(
    run: RunConfig,
    out: Path,
    *,
    watcher: Watcher,
    resume: bool = False,
    cache: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    address: str | None = None,
    patience_s: float | None = None,
) -> TrainResult:
    """Train, or go on. What is wrong with the input is found before anything is started. `patience_s`: how long one
    waits for places, unless it is some seconds."""
    RunDirectory.check(out, run, resume=resume)
    check_engine(run)
    downstream_tasks(run, task_of(run))
    with connected(address, run, watcher.notice, patience_s) as cluster:
        return train_on_cluster(cluster, run, out, watcher, resume=resume, cache=cache, should_stop=should_stop)


def train_on_cluster(
    cluster: Cluster,
    run: RunConfig,
    out: Path,
    watcher: Watcher,
    *,
    resume: bool = False,
    cache: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """The same where the actors have their places already."""
    drive = _Drive(cluster, run, out.absolute(), (cache or default_cache()).absolute(), watcher, should_stop)
    return drive.run(resume)


@contextmanager
def connected(
    address: str | None, run: RunConfig, notice: Callable[[str], None], patience_s: float | None = None
) -> Iterator[Cluster]:
    """The cluster, with places for all actors of a run. Ray prints what it thinks of them; ours is said by `notice`."""
    bundles = bundles_of(run)
    if address is None:
        _warn_of_a_crowd(bundles, notice)
    with redirect_stdout(io.StringIO()):
        cluster = Cluster.connect(address, bundles)
        try:
            cluster.place(bundles, notice, patience_s)
            yield cluster
        finally:
            cluster.close()


def bundles_of(run: RunConfig) -> list[Resources]:
    """What each actor needs: trainers first, then generators."""
    launcher = run.scale.launcher
    trainer = {"CPU": float(launcher.threads), "GPU": launcher.trainer_gpus}
    generator = {"CPU": float(launcher.threads), "GPU": launcher.generator_gpus}
    bundles = [trainer] * launcher.trainers + [generator] * launcher.generators
    return [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles]


def _warn_of_a_crowd(bundles: Sequence[Resources], notice: Callable[[str], None]) -> None:
    """A cluster of our own has as many CPUs as are needed, whatever the machine has."""
    needed, there = total(bundles).get("CPU", 0), os.cpu_count() or 1
    if needed > there:
        notice(f"{len(bundles)} actors need {needed:g} CPU, this machine has {there}: they take turns on them")


class _Drive:
    """One run, over all lives of its trainer."""

    def __init__(
        self,
        cluster: Cluster,
        run: RunConfig,
        out: Path,
        cache: Path,
        watcher: Watcher,
        should_stop: Callable[[], bool],
    ) -> None:
        self._cluster, self._run, self._out, self._cache = cluster, run, out, cache
        self._watcher, self._should_stop = watcher, should_stop

    def run(self, resume: bool) -> TrainResult:
        deaths, newest = 0, self._newest()
        while True:
            try:
                return self._live(resume)
            except ActorRefusedError as error:  # another try would end in the same way
                what, allowed = f"the trainer's actor ({error.how})", "the same packages on every node"
                raise InputError(what, allowed=f"{allowed}: scalerl cluster-check compares them") from None
            except (ActorLostError, RankLostError) as error:
                how = error.how
            deaths = deaths + 1 if self._newest() == newest else 1
            newest = self._newest()
            if deaths > RESTARTS:
                raise TrainerLostError(how, deaths)
            resume = resume or (self._out / CONFIG).is_file()
            after = "the beginning" if newest is None else newest
            self._watcher.notice(f"the trainer died ({how}); it is started again from {after}")

    def _live(self, resume: bool) -> TrainResult:
        """One life of the trainer."""
        actor = self._cluster.start(TrainerActor, (self._cluster, str(Path.cwd())), 0, _CALLS)
        try:
            ended = self._follow(actor, resume)
        finally:
            self._cluster.kill(actor)
        if ended.failed is not None:
            raise failure(ended.failed)
        assert ended.result is not None
        return ended.result

    def _follow(self, actor: Actor, resume: bool) -> Ended:
        """Pass on what is heard, until it has ended."""
        call = self._cluster.call
        end = call(actor, "train", self._run, self._out, resume, self._cache)
        events = call(actor, "events", _EVENTS_S)
        asked = False
        while True:
            ready = self._cluster.wait([end, events], _EVENTS_S)
            if self._should_stop() and not asked:
                asked = True
                call(actor, "stop")
            if events in ready:
                self._tell(self._cluster.get(events))
                events = call(actor, "events", _EVENTS_S)
            if end in ready:
                for last in (events, call(actor, "events", 0.0)):
                    self._tell(self._cluster.get(last))
                ended: Ended = self._cluster.get(end)
                return ended

    def _tell(self, events: list[tuple[str, tuple[object, ...]]]) -> None:
        for name, args in events:
            getattr(self._watcher, name)(*args)

    def _newest(self) -> str | None:
        try:
            newest = checkpoint.newest(self._out / CHECKPOINTS)
        except OSError as error:
            raise StorageError.of(error, self._out) from None
        return None if newest is None else newest.name
