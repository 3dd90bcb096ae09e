"""A training run from its config to its last checkpoint: the loop that every launcher shares.

    batch -> step -> new weights out -> (evaluate) -> (save) -> again, until the budget is used up

Called by the command line and by studies through `train`. Whatever is wrong with the input is found before the run
directory is made. Everything that happened is in that directory; the observer is only told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from scalerl.compute import Ledger, Usage
from scalerl.config import RunConfig
from scalerl.errors import GuardError
from scalerl.pipeline import checkpoint
from scalerl.pipeline.assemble import Ground, ground, task_of
from scalerl.pipeline.batch import group_numbers
from scalerl.pipeline.computing import computing
from scalerl.pipeline.devices import check_device
from scalerl.pipeline.downstream import downstream_tasks, with_downstream
from scalerl.pipeline.engines.open import check_engine, check_policy
from scalerl.pipeline.evaluate import Answers, judged
from scalerl.pipeline.incidents import Incidents, RollBackError
from scalerl.pipeline.launch.feed import Feed
from scalerl.pipeline.launch.open import Launcher, OnThisMachine
from scalerl.pipeline.observe import Silent
from scalerl.pipeline.records import point_from_line, point_line, problem_lines, step_line
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.types import EvalPoint, Group, Observer, Point, Snapshot, StepRecord, StopReason
from scalerl.policy.load import LoadedPolicy, Progress, load_policy, read_policy
from scalerl.policy.pretrained import read_tokenizer
from scalerl.policy.processor import spare_broken_units
from scalerl.runs import RunDirectory, budget
from scalerl.tasks import Task

Stop = Callable[[], bool]


@dataclass(frozen=True)
class TrainResult:
    """How a run ended, or where it was stopped."""

    folder: Path
    reason: StopReason
    step: int
    points: tuple[EvalPoint, ...]
    ledger: Ledger


def train(
    run: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    observer: Observer | None = None,
    cache: Path | None = None,
    should_stop: Stop | None = None,
    progress: Callable[[Progress], None] | None = None,
    launcher: Launcher | None = None,
) -> TrainResult:
    """Train, or go on with a run that was stopped; `progress` hears of the warm start.

    `launcher`: where the processes are; unless given on this machine, as the config says.
    """
    with computing(run):
        RunDirectory.check(out, run, resume=resume)
        check_engine(run)
        check_device(run)
        task = task_of(run)
        sets = downstream_tasks(run, task)
        start = None if resume else load_policy(run, cache, progress)
        if start is not None:
            check_policy(run, start.folder, start.model)
        base = None if start is None else _ground(run, start, task, sets)
        with RunDirectory.hold(out, run, resume=resume) as directory:
            while True:
                saved = checkpoint.load_newest(directory.checkpoints) if start is None else None
                if start is None or base is None:
                    start = _resumed_policy(run, saved) or load_policy(run, cache, progress)
                    base = _ground(run, start, task, sets)
                session = _Session(
                    base, directory, start, saved, observer or Silent(), should_stop or _never,
                    launcher or OnThisMachine(), resumed=resume,
                )  # fmt: skip
                try:
                    return session.run()
                except RollBackError as back:
                    checkpoint.discard_after(directory.checkpoints, back.good_step)
                finally:
                    session.close()
                start, resume = None, True


class _Session:
    """The state of the loop: the step, the ledger, and the points so far."""

    def __init__(
        self,
        base: Ground,
        directory: RunDirectory,
        start: LoadedPolicy,
        saved: checkpoint.Checkpoint | None,
        observer: Observer,
        should_stop: Stop,
        launcher: Launcher,
        *,
        resumed: bool,
    ) -> None:
        self._base, self._directory, self._observer, self._should_stop = base, directory, observer, should_stop
        self._run = base.run
        self._tokenizer = start.tokenizer
        self._schedule = schedule_of(self._run.recipe.asynchrony)
        self._step = 0 if saved is None else saved.step
        self._ledger = Ledger()
        self._wall_before_s = 0.0
        self._saved_step: int | None = None if saved is None else saved.step
        folder, model = start.folder, start.model
        if saved is not None and saved.policy != start.folder:  # `start` is the reference, or what adapters are for
            folder, model = saved.policy, read_policy(saved.policy, self._run.scale.model.dtype)
        by_generators = self._run.scale.evaluation.by == "generators"
        own = None if by_generators else base.evaluations(model, self._step)
        self._feed: Feed = launcher.open_feed(base, model, folder, self._step)
        self._evaluations = own or base.exams(_exams_of(self._feed))
        self._open = ExitStack()
        self._open.callback(self._feed.close)
        if self._run.scale.lora.rank:
            folder, model = start.folder, start.model
        try:
            # after everything that copies the model, which several ranks spread over themselves
            trainer = launcher.open_trainer(self._run, base.recipe, model, folder, start.folder)
            self._trainer = self._open.enter_context(trainer)
            self._restore(saved)
            self._incidents = Incidents(directory, observer, self._tokenizer, self._step, self._points)
        except BaseException:
            self.close()
            raise
        self._started = time.monotonic()
        self._incidents.begin(resumed=resumed, damaged=() if saved is None else saved.damaged)

    def run(self) -> TrainResult:
        self._observer.started(self._step, self._ledger, self._known)
        if not self._points:
            self._evaluate()
        while (reason := self._reason()) is None:
            groups = self._feed.batch(self._step)
            if groups is None:
                reason = "exhausted"
                break
            self._train_on(groups)
            if self._step % self._run.scale.evaluation.every == 0:
                self._evaluate()
            self._incidents.attend()
            if self._step % self._run.scale.checkpoint_every == 0:
                self._save()
        return self._finish(reason)

    def close(self) -> None:
        self._open.close()

    def _reason(self) -> StopReason | None:
        if self._incidents.trouble is not None:
            return "guard"
        if budget.spent(self._run.scale.budget, self._step, self._ledger):
            return "budget"
        return "interrupted" if self._should_stop() else None

    def _train_on(self, groups: Sequence[Group]) -> None:
        started = time.perf_counter()
        result = self._trainer.step(groups, self._step, self._schedule.max_age, self._incidents.slowed)
        device_s = time.perf_counter() - started
        self._step += 1
        self._feed.publish(self._trainer.weights(), self._step, result.flops)
        report = self._feed.report()
        held_s = (device_s + report.trainer_waited_s) * self._trainer.num_ranks
        self._ledger = self._ledger.book("training", Usage(held_s, result.flops, result.tokens))
        self._ledger = self._ledger.book("generation", report.usage)
        values = {"groups": group_numbers(groups), **result.values, **report.values}
        values |= self._incidents.stepped(self._step, groups, result.skipped, values)
        record = StepRecord(self._step, values, self._ledger, self._wall_s())
        self._directory.metrics.append(step_line(record))
        self._observer.stepped(record)

    def _evaluate(self) -> None:
        def watch(finished: int, wanted: int) -> None:
            self._feed.attend()  # a generator that could not start ends the run now, not after the evaluation
            self._observer.generating(self._step, finished, wanted)

        started = time.perf_counter()
        point, usage = self._evaluations.evaluate(self._trainer.weights(), self._step, self._ledger, watch)
        if self._run.scale.evaluation.by == "generators":  # whom the trainer waits for
            usage += Usage(device_s=(time.perf_counter() - started) * self._trainer.num_ranks)
        if not self._points:
            judged(point)  # a verifier that does not work is said before anything was spent
        self._ledger = self._ledger.book("evaluation", usage)
        self._points.append(point)
        self._directory.write_evaluation(self._step, problem_lines(point))
        self._directory.evals.append(point_line(point, self._wall_s()))
        if isinstance(point, EvalPoint):
            self._observer.evaluated(point)
        self._incidents.evaluated(point)

    def _save(self) -> None:
        offsets = {"metrics": self._directory.metrics.offset(), "evals": self._directory.evals.offset()}
        values = {"ledger": self._ledger.to_dict(), "wall_s": self._wall_s(), "offsets": offsets}
        parts = {"session": Snapshot(values), "trainer": self._trainer.snapshot(), "feed": self._feed.snapshot()}
        folder = checkpoint.save(
            self._directory.checkpoints,
            self._step,
            parts,
            model=self._trainer.model,
            tokenizer=self._tokenizer,
            spare=self._incidents.good_step,
            write_parts=self._trainer.write_parts,
        )
        self._saved_step = self._step
        self._observer.saved(self._step, folder)

    def _finish(self, reason: StopReason) -> TrainResult:
        """The last point is measured unless the run is to go on; everything is saved."""
        if reason not in {"interrupted", "guard"} and self._points[-1].step != self._step:
            self._evaluate()
            self._incidents.say_alarms()
            self._saved_step = None
        if self._saved_step != self._step:
            self._save()
        self._directory.finish(reason, self._step)
        self._observer.stopped(reason, self._step, self._ledger)
        if self._incidents.trouble is not None:
            raise GuardError(f"{self._incidents.trouble}; the run was stopped and saved")
        return TrainResult(self._directory.path, reason, self._step, tuple(self._known), self._ledger)

    def _restore(self, saved: checkpoint.Checkpoint | None) -> None:
        """Take up the parts, and forget what was logged after the checkpoint: it will happen again."""
        offsets = {"metrics": 0, "evals": 0}
        if saved is not None:
            values = saved.parts["session"].values
            self._ledger, self._wall_before_s = Ledger.from_dict(values["ledger"]), values["wall_s"]
            self._trainer.restore(saved.parts["trainer"], saved.policy)
            self._feed.restore(saved.parts["feed"])
            offsets = values["offsets"]
        self._directory.metrics.truncate(offsets["metrics"])
        self._directory.evals.truncate(offsets["evals"])
        self._points: list[Point] = [point_from_line(line) for line in self._directory.evals.read()]

    @property
    def _known(self) -> list[EvalPoint]:
        """Without those of which no answer could be judged."""
        return [point for point in self._points if isinstance(point, EvalPoint)]

    def _wall_s(self) -> float:
        return self._wall_before_s + time.monotonic() - self._started


def _ground(run: RunConfig, start: LoadedPolicy, task: Task, sets: Mapping[str, Task]) -> Ground:
    return with_downstream(ground(run, start.tokenizer, task), sets, start.model)


def _resumed_policy(run: RunConfig, saved: checkpoint.Checkpoint | None) -> LoadedPolicy | None:
    """The policy of the checkpoint; None where the one at step 0 is needed: nothing saved yet, a KL term, adapters."""
    if saved is None or run.recipe.kl_coefficient > 0 or run.scale.lora.rank:
        return None
    if run.uses_bfloat16:
        spare_broken_units()
    model = read_policy(saved.policy, run.scale.model.dtype)
    return LoadedPolicy(model, read_tokenizer(saved.policy), saved.policy)


def _exams_of(feed: Feed) -> Answers:
    assert feed.exams is not None, "the config refuses generators that cannot"
    return feed.exams


def _never() -> bool:
    return False
