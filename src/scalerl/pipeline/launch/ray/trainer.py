"""The actors that train: rank 0, which is the session of a run, and the ranks beside it.

Started by `drive` on the side of the command, which hears of the run by asking for events. Rank 0 owns all other
actors: they end with it, and weights go from it to the generators without a detour. Does not import Ray.
"""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from scalerl.compute import Ledger
from scalerl.config import RunConfig
from scalerl.errors import InputError, ScaleRLError
from scalerl.pipeline.assemble import Ground
from scalerl.pipeline.buffer import Buffer
from scalerl.pipeline.launch.feed import Feed
from scalerl.pipeline.launch.local import build_generator
from scalerl.pipeline.launch.meeting import Meeting, RankLostError
from scalerl.pipeline.launch.rank import run_rank
from scalerl.pipeline.launch.ray.cluster import Actor, ActorLostError, Cluster, Ref
from scalerl.pipeline.launch.ray.delivery import delivery_of
from scalerl.pipeline.launch.ray.fleet import Fleet
from scalerl.pipeline.launch.ray.generator import CALLS, GeneratorActor
from scalerl.pipeline.launch.remote import RemoteFeed
from scalerl.pipeline.launch.trainers import open_trainer, watched_fate
from scalerl.pipeline.launch.worker import Failed, Writer
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.session import TrainResult, train
from scalerl.pipeline.trainer import Trainer
from scalerl.pipeline.types import EvalPoint, StepRecord, StopReason
from scalerl.policy.sft import Progress
from scalerl.recipe import Recipe
from scalerl.runs import events

Event = tuple[str, tuple[Any, ...]]
"""A method of the observer, `preparing` or `notice`, and its arguments."""
Archive = Mapping[str, NDArray[np.uint8]]
"""The files of a folder: a generator may be on a machine that does not see it."""

_END_S = 5.0


@dataclass(frozen=True)
class Ended:
    """How a session ended, in the actor: an error is raised again on the other side."""

    result: TrainResult | None = None
    failed: Failed | None = None


class TrainerActor:
    """Rank 0. `cluster` holds the places of all actors: trainers first, then generators."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        _work_in(folder)
        self._cluster = cluster
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopping = False

    def train(self, run: RunConfig, out: Path, resume: bool, cache: Path) -> Ended:
        """The whole session; meant to be called once."""
        observer = _Told(self._events)
        try:
            result = train(
                run,
                out,
                resume=resume,
                observer=observer,
                cache=cache,
                should_stop=lambda: self._stopping,
                progress=observer.preparing,
                launcher=OnCluster(self._cluster, observer.notice),
            )
        except Exception as error:  # noqa: BLE001  # the boundary of the actor: everything is reported
            return Ended(failed=Failed.of(error))
        return Ended(result)

    def events(self, wait_s: float) -> list[Event]:
        """What has happened since the last call, waiting a moment for it."""
        found: list[Event] = []
        try:
            found.append(self._events.get(timeout=wait_s))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            return found

    def stop(self) -> None:
        """After the step under way."""
        self._stopping = True


class RankActor:
    """A rank from 1 on."""

    def __init__(self, folder: str) -> None:
        _work_in(folder)

    def live(
        self, rank: int, size: int, address: str, run: RunConfig, policy: Path, reference: Path | None
    ) -> str | None:
        """Until rank 0 says that it is over; what went wrong instead."""
        try:
            run_rank(rank, size, address, run, policy, reference)
        except Exception as error:  # noqa: BLE001  # the boundary of the actor: rank 0 was told at the meeting
            return f"failed ({type(error).__name__})"
        return None


class OnCluster:
    """The launcher of a session inside the trainer's actor."""

    def __init__(self, cluster: Cluster, notice: Any) -> None:
        self._cluster, self._notice = cluster, notice

    def open_feed(self, base: Ground, model: PreTrainedModel, folder: Path, version: int) -> Feed:
        del model
        run, cluster = base.run, self._cluster
        schedule, source = schedule_of(run.recipe.asynchrony), base.source()
        archive = cluster.put(pack_folder(folder))
        threads, first = run.scale.launcher.threads, run.scale.launcher.trainers

        def start(place: int) -> Actor:
            args = (run, archive, version, threads, str(Path.cwd()))
            return cluster.start(PolicyGenerator, args, first + place, CALLS)

        weights = delivery_of(run, cluster, cluster.own_address())
        fleet = Fleet(cluster, start, run.scale.launcher.generators, rollouts_at_once(run), self._notice, weights)
        return RemoteFeed(fleet, source, Buffer(schedule, run.scale.batch.prompts), schedule)

    def open_trainer(
        self, run: RunConfig, recipe: Recipe, model: PreTrainedModel, folder: Path, start: Path
    ) -> AbstractContextManager[Trainer]:
        others = partial(_RankActors, self._cluster)
        return open_trainer(run, recipe, model, folder, start, host=self._cluster.own_address(), others=others)


class PolicyGenerator(GeneratorActor):
    """A generator that builds everything from the config and the files of the policy."""

    def __init__(self, run: RunConfig, archive: Archive, version: int, threads: int, folder: str) -> None:
        _work_in(folder)
        with tempfile.TemporaryDirectory(prefix="scalerl-policy-") as place:
            for name, data in archive.items():
                data.tofile(Path(place) / name)
            build = partial(_build, run, Path(place), version)
            super().__init__(build, version, threads, has_children=run.scale.generator.engine == "vllm")
            self.process.wait_until_started()  # the files are gone once they are read


class _RankActors:
    """Ranks 1 and up, as actors."""

    def __init__(
        self, cluster: Cluster, size: int, meeting: Meeting, run: RunConfig, policy: Path, reference: Path | None
    ) -> None:
        self._cluster, self._meeting = cluster, meeting
        self._actors = {rank: cluster.start(RankActor, (str(Path.cwd()),), rank, 1) for rank in range(1, size)}
        self._lives: dict[int, Ref] = {
            rank: cluster.call(actor, "live", rank, size, meeting.address, run, policy, reference)
            for rank, actor in self._actors.items()
        }

    def lost(self) -> ScaleRLError | None:
        return self._ended(killed_only=False)

    def fate(self) -> ScaleRLError | None:
        return watched_fate(self._meeting, lambda: self._ended(killed_only=True), self.lost)

    def close(self) -> None:
        end_s = time.monotonic() + _END_S
        left = list(self._lives.values())
        while left and (rest_s := end_s - time.monotonic()) > 0:
            ended = self._cluster.wait(left, rest_s)
            left = [ref for ref in left if ref not in ended]
        for actor in self._actors.values():
            self._cluster.kill(actor)

    def _ended(self, *, killed_only: bool) -> ScaleRLError | None:
        for rank, ref in self._lives.items():
            if not self._cluster.wait([ref], 0):
                continue
            try:
                how = self._cluster.get(ref)
            except ActorLostError as error:
                return RankLostError(rank, f"died ({error.how})")
            if not killed_only:
                return RankLostError(rank, how or "ended too early")
        return None


class _Told:
    """An `Observer` whose events are fetched by the other side."""

    def __init__(self, events: queue.SimpleQueue[Event]) -> None:
        self._events = events

    def notice(self, text: str) -> None:
        self._events.put(("notice", (text,)))

    def preparing(self, progress: Progress) -> None:
        self._events.put(("preparing", (progress,)))

    def started(self, step: int, ledger: Ledger, points: Sequence[EvalPoint]) -> None:
        self._events.put(("started", (step, ledger, tuple(points))))

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None:
        self._events.put(("generating", (version, num_finished, num_wanted)))

    def stepped(self, record: StepRecord) -> None:
        self._events.put(("stepped", (record,)))

    def evaluated(self, point: EvalPoint) -> None:
        self._events.put(("evaluated", (point,)))

    def saved(self, step: int, folder: Path) -> None:
        self._events.put(("saved", (step, folder)))

    def noticed(self, event: events.Event) -> None:
        self._events.put(("noticed", (event,)))

    def stopped(self, reason: StopReason, step: int, ledger: Ledger) -> None:
        self._events.put(("stopped", (reason, step, ledger)))


def rollouts_at_once(run: RunConfig) -> int:
    """That one generator is asked for at most: twice its rows, so that the rest can go to whoever is faster. With one
    generator there is no choice, and it gets them as `local` would."""
    return 1 << 40 if run.scale.launcher.generators == 1 else 2 * run.scale.generator.rows


def pack_folder(folder: Path) -> Archive:
    """The files at the top of a folder: a policy has no others."""
    return {file.name: np.fromfile(file, np.uint8) for file in sorted(folder.iterdir()) if file.is_file()}


def _build(run: RunConfig, folder: Path, version: int) -> Writer:
    try:
        return build_generator(run, folder, version)
    except InputError as error:
        if error.where != str(folder):
            raise
        raise InputError(error.what, error.value, error.allowed, "the policy, as a generator has it") from error


def _work_in(folder: str) -> None:
    """Where the command was given, if this machine has such a folder: paths of data files may be relative."""
    if Path(folder).is_dir():
        os.chdir(folder)
