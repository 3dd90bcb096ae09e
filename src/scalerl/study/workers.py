"""Several trainers at a time: start what waits, see what has ended, keep failures, stop all when asked.

Called by `execute`, once for each rung. One thread looks at all children in turn, so nothing here needs a lock. A job
that fails is written down with its reason and the others go on. Which jobs run, and why, is not known here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scalerl.errors import InputError, ScaleRLError
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Job, Outcome
from scalerl.study.process import end_worker, last_words, worker_of
from scalerl.study.reached import Reached, read_reached, write_reached
from scalerl.study.runner import Process, Runner

_PAUSE_S = 0.05


class Watch(Protocol):
    """Who looks on, and who may ask to stop."""

    def said(self, line: str) -> None:
        """Something that a person should know."""

    def tick(self) -> None:
        """Called many times a second."""

    @property
    def stops(self) -> int:
        """How often the user has asked to stop: once to save and end, twice to end at once."""


@dataclass
class _Running:
    job: Job
    process: Process
    started_s: float
    asked_to_stop: bool = False


class Workers:
    """A number of places to train in."""

    def __init__(self, folder: StudyFolder, runner: Runner, num_workers: int, watch: Watch) -> None:
        self._folder, self._runner, self._num_workers, self._watch = folder, runner, num_workers, watch
        self._running: list[_Running] = []

    def free(self, jobs: Sequence[Job]) -> None:
        """End what an earlier start has left behind, if it was killed: it saves, and nobody waits for it any more."""
        for job in jobs:
            place = self._folder.job_path(job)
            if (held := worker_of(place)) is not None:
                self._watch.said(f"{job.name}: waiting for {held} of an earlier start to save and end")
                end_worker(place)

    def run(self, jobs: Sequence[Job], share: float) -> bool:
        """Train each of these up to a share of its budget; False when the user stopped it before all had ended."""
        waiting = deque(jobs)
        try:
            while waiting or self._running:
                if self._watch.stops:
                    waiting.clear()
                    self._stop()
                while waiting and len(self._running) < self._num_workers:
                    self._start(waiting.popleft(), share)
                self._look(share)
                self._watch.tick()
                time.sleep(_PAUSE_S)
        finally:
            for running in self._running:  # only after an error of our own: they save and end
                running.process.stop()
            self._running.clear()
        return not self._watch.stops

    def _start(self, job: Job, share: float) -> None:
        self._folder.write_job(job)
        try:
            process = self._runner.start(job, self._folder.job_path(job), share)
        except InputError as error:
            self._fail(job, f"cannot be started: {error}")
            return
        self._running.append(_Running(job, process, time.monotonic()))

    def _stop(self) -> None:
        for running in self._running:
            if self._watch.stops > 1:
                running.process.kill()
            elif not running.asked_to_stop:
                running.process.stop()
            running.asked_to_stop = True

    def _look(self, share: float) -> None:
        for running in list(self._running):
            code = running.process.poll()
            if code is not None:
                self._running.remove(running)
                self._ended(running, code, share)

    def _ended(self, running: _Running, code: int, share: float) -> None:
        job, place = running.job, self._folder.job_path(running.job)
        if code != 0 and running.asked_to_stop:
            return  # it goes on at the next start
        if code != 0:
            self._fail(job, _exit_words(code, last_words(place)))
            return
        try:
            (series,) = self._runner.curve(job, place)
        except ScaleRLError as error:
            self._fail(job, f"ended well, but its curve cannot be read: {error}")
            return
        wall_s = read_reached(place).wall_s + time.monotonic() - running.started_s
        write_reached(place, Reached(share, wall_s, float(series.value[-1]) if len(series) else None))
        if share >= 1:
            self._folder.write_outcome(job, Outcome("finished", 1.0))

    def _fail(self, job: Job, reason: str) -> None:
        line = " ".join(reason.split())
        self._folder.write_outcome(job, Outcome("failed", read_reached(self._folder.job_path(job)).share, line))
        self._watch.said(f"{job.name} failed: {line}")


def _exit_words(code: int, said: str | None) -> str:
    ended = f"ended by signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"{ended}: {said}" if said else f"{ended}, without a word"
