"""The simulation: generators and a trainer around the slots of the real pipeline, one event after the other.

Called by the split search, the command line and benchmarks. Admission, order of batches, releases of weights and the
check of ages are `scalerl.pipeline.slots` and `schedule`, as in training. What is simulated is time alone.

Events: a row of a generator ends; the trainer's step is done and its weights are sent; an evaluation is over. Slots are
freed by the trainer only, so everything else stays as it is between two of its events.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from scalerl.pipeline.schedule import Schedule, schedule_of
from scalerl.pipeline.slots import Slots
from scalerl.plan.generator import SimulatedGenerator, SimulatedGroup, SimulatedRollout
from scalerl.plan.outcome import GeneratorTime, Interval, Kind, Outcome, TrainerTime, shares
from scalerl.plan.question import Question
from scalerl.plan.rates import Fleet, Rates, fleet_of, rates_of
from scalerl.plan.sample import MOST_ROLLOUTS, Sample, sample_of

_TRAINED, _FREE = -1, -2
"""Events that are no generator's."""
_SHOWN = 10
"""Generators whose intervals are kept for a picture."""


def simulate(
    question: Question,
    *,
    steps: int = 100,
    seed: int = 0,
    rates: Rates | None = None,
    fleet: Fleet | None = None,
    most_rollouts: int = MOST_ROLLOUTS,
) -> Outcome:
    """The steady state over so many steps, rounded up to whole rounds. `rates` and `fleet`: from a measured run."""
    fleet = fleet or fleet_of(question)
    rates = rates or rates_of(question, fleet)
    schedule = schedule_of(question.asynchrony)
    run_in = _whole_rounds(2 * schedule.ahead, schedule)
    sample = sample_of(question.prompts, question.rollouts, fleet.generators, most_rollouts)
    simulation = _Simulation(question, rates, fleet, schedule, sample, seed)
    before = simulation.run(run_in)
    after = simulation.run(run_in + _whole_rounds(max(steps, 1), schedule))
    return _outcome(question, fleet, simulation, before, after)


def _whole_rounds(steps: int, schedule: Schedule) -> int:
    return -(-steps // schedule.stride) * schedule.stride


@dataclass(frozen=True)
class _Sums:
    """Everything so far, at the moment a step was done."""

    time_s: float
    version: int
    generator: GeneratorTime
    trainer: TrainerTime
    row_seconds: float
    tokens: float
    prompt_tokens: float
    attended: float
    rollouts: int
    ages: Counter[int]


class _Simulation:
    def __init__(
        self, question: Question, rates: Rates, fleet: Fleet, schedule: Schedule, sample: Sample, seed: int
    ) -> None:
        self._question, self._rates, self._schedule, self._sample = question, rates, schedule, sample
        self._slots: Slots[SimulatedGroup, SimulatedGroup] = Slots(schedule, sample.prompts)
        # Who has the least comes first, the lowest number among equals: one more than rollouts under way never has any,
        # and stands for all that come after it.
        at_work = min(sample.generators, schedule.ahead * sample.prompts * question.rollouts + 1)
        self._generators = [SimulatedGenerator(i, rates, fleet.rows) for i in range(at_work)]
        self._last_stands_for = 1 + sample.generators - at_work
        self._version = 0
        self._rng = np.random.default_rng(seed)
        self._events: list[tuple[float, int, int, int]] = []  # time, tie breaker, who, stamp
        self._order = 0
        self._stamps = [0] * len(self._generators)  # an event whose generator has changed since is void
        self._ages: Counter[int] = Counter()
        self._tokens = self._prompt_tokens = self._attended = 0.0
        self._rollouts = 0
        self._trainer = TrainerTime()
        self._free_since: float | None = 0.0
        self._period = 0.0
        self.intervals: list[Interval] = []
        self._admit(0.0)

    @property
    def weight(self) -> float:
        """Real groups for each simulated one."""
        return self._question.prompts / self._sample.prompts

    def run(self, until: int) -> _Sums:
        """On to the step of this number."""
        now = self._period
        while self._version < until:
            now, _, who, stamp = heapq.heappop(self._events)
            if who == _TRAINED:
                self._publish(now)
            elif who == _FREE:
                self._try_step(now)
            elif stamp == self._stamps[who]:
                self._row_ends(self._generators[who])
        return self._sums(now)

    def _row_ends(self, generator: SimulatedGenerator) -> None:
        complete = False
        for rollout in generator.finish():
            generator.book(rollout)
            if not rollout.group.missing:
                self._slots.put(rollout.group)
                complete = True
        self._schedule_next(generator)
        if complete and self._free_since is not None:
            self._try_step(generator.clock)

    def _try_step(self, now: float) -> None:
        """Begin a step if its batch is complete; otherwise the trainer waits."""
        if self._free_since is None:
            self._free_since = now
        batch = self._slots.take(timeout=0)
        if batch is None:
            return
        self._book_trainer("waiting", self._free_since, now)
        self._free_since = None
        version = self._version
        for group in batch:
            self._book_group(group, version)
        tokens = sum(group.tokens + group.prompt * self._question.rollouts for group in batch)
        done = now + self._rates.train_s(self.weight * tokens, self.weight * sum(group.attended for group in batch))
        sent = done + (self._rates.send_s if self._released(version + 1) else 0.0)
        self._book_trainer("training", now, done)
        self._book_trainer("sending", done, sent)
        self._push(sent, _TRAINED)

    def _publish(self, now: float) -> None:
        """Weights first, then slots, as the launchers do."""
        version = self._version + 1
        self._close_period(now)
        if self._released(version):
            for generator in self._generators:
                generator.load(version, now)
                self._show(generator.number, now, generator.clock, "loading")
        self._slots.trained(version)
        self._version = version
        self._admit(now)
        evaluated = now + self._rates.evaluation_after(version)
        self._book_trainer("evaluating", now, evaluated)
        self._push(evaluated, _FREE)

    def _close_period(self, now: float) -> None:
        """Bring everybody to this moment; idle time counts as tail until the last generator has run out of work."""
        emptied = []
        for generator in self._generators:
            generator.advance(now)
            if generator.empty_since is not None:
                emptied.append((generator, max(generator.empty_since, self._period, generator.clock)))
        all_empty = len(emptied) == len(self._generators)
        end = min(now, max((since for _, since in emptied), default=now)) if all_empty else now
        for generator, since in emptied:
            generator.spent.tail += max(0.0, end - since)
            generator.spent.waiting += max(0.0, now - max(end, since))
            self._show(generator.number, since, end, "tail")
            self._show(generator.number, max(end, since), now, "waiting")
        self._period = now

    def _admit(self, now: float) -> None:
        """Charge every free slot and share the rollouts out to the generators that have the least to do."""
        first, free = self._slots.next_index, self._slots.free_slots
        groups = [SimulatedGroup(first + i, self._question.prompt_length, self._question.rollouts) for i in range(free)]
        loads = [(generator.num_pending, generator.number) for generator in self._generators]
        heapq.heapify(loads)
        together = self._question.rollouts if self._sample.whole_groups(self._schedule.ahead) else 1
        for group in groups:
            self._slots.admit(group)
            lengths = self._question.lengths.draw(self._rng, self._question.rollouts).tolist()
            for start in range(0, len(lengths), together):
                part = lengths[start : start + together]
                pending, number = loads[0]
                heapq.heapreplace(loads, (pending + len(part), number))
                for length in part:
                    self._generators[number].submit(SimulatedRollout(group, length))
        for generator in self._generators:
            generator.begin(now)
            self._schedule_next(generator)

    def _released(self, version: int) -> bool:
        return self._schedule.released(version) == version

    def _schedule_next(self, generator: SimulatedGenerator) -> None:
        self._stamps[generator.number] += 1
        if generator.num_pending:
            self._push(generator.next_event(), generator.number, self._stamps[generator.number])

    def _push(self, at: float, who: int, stamp: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._events, (at, self._order, who, stamp))

    def _book_group(self, group: SimulatedGroup, version: int) -> None:
        for written, tokens in group.by_version.items():
            self._ages[version - written] += tokens
        self._tokens += group.tokens
        self._prompt_tokens += group.prompt
        self._attended += group.attended
        self._rollouts += self._question.rollouts

    def _book_trainer(self, kind: Kind, start: float, end: float) -> None:
        setattr(self._trainer, kind, getattr(self._trainer, kind) + end - start)
        if end > start:
            self.intervals.append(Interval(None, start, end, kind))

    def _show(self, number: int, start: float, end: float, kind: Kind) -> None:
        if number < _SHOWN and end > start:
            self.intervals.append(Interval(number, start, end, kind))

    def _sums(self, now: float) -> _Sums:
        spent = GeneratorTime()
        for generator in self._generators:
            times = self._last_stands_for if generator is self._generators[-1] else 1
            for name, seconds in vars(generator.spent).items():
                setattr(spent, name, getattr(spent, name) + times * seconds)
        return _Sums(
            now, self._version, spent, replace(self._trainer), sum(one.row_seconds for one in self._generators),
            self._tokens, self._prompt_tokens, self._attended, self._rollouts, Counter(self._ages),
        )  # fmt: skip


def _outcome(question: Question, fleet: Fleet, simulation: _Simulation, before: _Sums, after: _Sums) -> Outcome:
    steps, weight = after.version - before.version, simulation.weight
    ages = after.ages - before.ages
    schedule = schedule_of(question.asynchrony)
    step_s = (after.time_s - before.time_s) / steps
    per_step = weight / steps
    tokens, prompts = after.tokens - before.tokens, after.prompt_tokens - before.prompt_tokens
    writing = after.generator.writing - before.generator.writing
    shown_from = after.time_s - max(3 * step_s, 2.2 * schedule.stride * step_s)
    return Outcome(
        generating=question.generating,
        training=question.training,
        generators=fleet.generators,
        gpus_per_generator=fleet.gpus_per_generator,
        rows=fleet.rows,
        kind=question.asynchrony.kind,
        k=getattr(question.asynchrony, "k", None),
        steps=steps,
        stands_for=weight,
        step_s=step_s,
        tokens_per_step=tokens * per_step,
        trained_tokens_per_step=(tokens + prompts * question.rollouts) * per_step * question.assumptions.trained_share,
        flops_per_step=per_step * _flops(question, tokens, prompts, after.attended - before.attended),
        mean_rows=(after.row_seconds - before.row_seconds) / writing if writing else 0.0,
        mean_length=tokens / max(1, after.rollouts - before.rollouts),
        generator=shares(after.generator, before.generator),
        trainer=shares(after.trainer, before.trainer),
        ages=tuple(ages[age] / ages.total() for age in range(schedule.max_age + 1)),
        max_age=schedule.max_age,
        intervals=tuple(one for one in simulation.intervals if one.end_s > shown_from),
    )


def _flops(question: Question, tokens: float, prompts: float, attended: float) -> float:
    """As the ledger of training counts: 2 for each parameter and token, 4 for each position, backward twice forward."""
    model, share = question.model, question.assumptions.trained_share
    sequences = tokens + prompts * question.rollouts
    written = 2 * model.active_parameters * (tokens + prompts) + 4 * model.attention_width * attended
    return written + share * 3 * (2 * model.active_parameters * sequences + 4 * model.attention_width * attended)
