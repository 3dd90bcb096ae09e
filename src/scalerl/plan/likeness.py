"""Rates from a measured run: seconds of a decoded and a trained token, lengths, transfers, evaluations.

Called for `--like RUN` and by benchmarks/plan_check.py. It reads the config and the metrics of a run directory whose
launcher ran in real time. The ledger knows how long generator and trainer were busy, but not what a decode step costs
apart from its rows, or a trainer's step apart from its tokens: those ratios are measured by benchmarks/step_costs.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.schedule import schedule_of
from scalerl.plan.hardware import Device
from scalerl.plan.lengths import Lengths, lengths_with_mean
from scalerl.plan.question import Assumptions, Model, Question
from scalerl.plan.rates import Fleet, Rates
from scalerl.plan.simulate import simulate
from scalerl.runs import RunDirectory

STEP_ROWS = 140.0
"""A decode step costs as much as its rows and so many more."""
PROMPTS_ROWS = 350.0
"""One in which the embedded engine reads prompts, so many more again. Most of that is no reading: rows that begin one
after the other share less text, and all of them look back as far as the longest."""
UPDATE_TOKENS = 560.0
"""A step of the trainer costs as much as its tokens and so many more."""
FEWEST_STEPS = 8


@dataclass(frozen=True)
class Measured:
    """What the run itself did, after its run-in."""

    steps: int
    step_s: float
    generator_idle: float
    trainer_idle: float
    mean_age: float


@dataclass(frozen=True)
class Likeness:
    """A run as a question with its own rates and numbers of generators and trainers."""

    question: Question
    rates: Rates
    measured: Measured

    def fleet(self, question: Question) -> Fleet:
        return Fleet(question.generating, 1, question.rows)

    def rates_for(self, question: Question) -> Rates:
        """Several trainers share the passes evenly; a generator is a generator."""
        return replace(
            self.rates,
            trained_token_s=self.rates.trained_token_s * self.question.training / question.training,
            trained_share=question.assumptions.trained_share,
        )


def like(path: str | Path) -> Likeness:
    """The rates of a run."""
    directory = RunDirectory.open(Path(path))
    run = directory.config
    if run.scale.launcher.kind == "inline":
        raise InputError(
            "--like: the launcher of the run", "inline", "one that runs in real time, such as local", str(path)
        )
    skipped = 2 * schedule_of(run.recipe.asynchrony).ahead
    lines = directory.metrics.read()
    if len(lines) <= skipped + FEWEST_STEPS:
        allowed = f"more than {skipped + FEWEST_STEPS}: the first {skipped} are its run-in"
        raise InputError("--like: steps of the run", len(lines), allowed, str(path))
    steps = [_Step.between(*pair, run.scale.launcher.trainers) for pair in pairwise(lines[skipped:])]
    question = _question(run, steps)
    return Likeness(question, _rates(question, run, steps), _measured(steps))


@dataclass(frozen=True)
class _Step:
    """What happened between two lines of metrics.jsonl."""

    wall_s: float
    generator_s: float
    generator_idle_s: float
    generated_tokens: int
    generated_flops: float
    trained_s: float
    trained_tokens: int
    trainer_waited_s: float
    evaluation_s: float
    effective_rollouts: int
    mean_length: float
    max_length: float
    age_mean: float

    @property
    def other_s(self) -> float:
        """Of the trainer: handing out weights, writing files."""
        return max(0.0, self.wall_s - self.trained_s - self.trainer_waited_s - self.evaluation_s)

    @classmethod
    def between(cls, before: dict[str, Any], after: dict[str, Any], trainers: int) -> _Step:
        """The ledger has the seconds of all trainers, which work at the same time."""

        def more(role: str, key: str) -> Any:
            return after["ledger"][role][key] - before["ledger"][role][key]

        wall_s, lived_s = after["wall_s"] - before["wall_s"], more("generation", "device_s")
        waited_s = (after["trainer_idle"] or 0.0) * wall_s
        return cls(
            wall_s=wall_s,
            generator_s=lived_s,
            generator_idle_s=(after["generator_idle"] or 0.0) * lived_s,
            generated_tokens=more("generation", "tokens"),
            generated_flops=more("generation", "flops"),
            trained_s=max(0.0, more("training", "device_s") / trainers - waited_s),
            trained_tokens=more("training", "tokens"),
            trainer_waited_s=waited_s,
            evaluation_s=more("evaluation", "device_s"),
            effective_rollouts=after["effective_rollouts"],
            mean_length=after["mean_length"],
            max_length=after["max_length"],
            age_mean=after["age_mean"] or 0.0,
        )


def _question(run: RunConfig, steps: list[_Step]) -> Question:
    batch, tokens = run.scale.batch, run.scale.tokens
    rollouts = batch.prompts * batch.rollouts
    mean = fmean(step.mean_length for step in steps)
    effective = sum(step.effective_rollouts for step in steps)
    trained = sum(step.trained_tokens for step in steps)
    prompt = min(max(1, round(trained / max(1, effective) - mean)), tokens.prompt)
    share = trained / (len(steps) * rollouts * (mean + prompt))
    flops = sum(step.generated_flops for step in steps) / max(1, sum(step.generated_tokens for step in steps))
    return Question(
        model=Model(flops / 2, flops / 2, kv_bytes=0.0, attention_width=0.0),
        device=Device("measured", math.inf, math.inf, math.inf, math.inf, 4.0, "the rates of a run"),
        generating=run.scale.launcher.generators,
        training=run.scale.launcher.trainers,
        prompts=batch.prompts,
        rollouts=batch.rollouts,
        lengths=_lengths(steps, rollouts, tokens.response),
        prompt_length=prompt,
        asynchrony=run.recipe.asynchrony,
        rows=run.scale.generator.rows,
        gpus_per_generator=1,
        assumptions=Assumptions(trained_share=min(1.0, max(share, 1e-6))),
    )


def _lengths(steps: list[_Step], rollouts: int, longest: int) -> Lengths:
    """The metrics have mean and maximum of each batch: the spread is the one whose maximum of so many is as large."""
    mean, highest = fmean(step.mean_length for step in steps), fmean(step.max_length for step in steps)
    extreme = NormalDist().inv_cdf(1 - 0.56 / max(2, rollouts))
    shape = Lengths(mean, math.log(max(1.0, highest / mean)) / extreme, longest)
    return lengths_with_mean(mean, shape)


def _rates(question: Question, run: RunConfig, steps: list[_Step]) -> Rates:
    """Decoding is fitted so that a step, as simulated, keeps the generators busy for as long as it did."""
    busy_s = max(1e-9, fmean(step.generator_s - step.generator_idle_s for step in steps))
    evaluations = [step.evaluation_s for step in steps if step.evaluation_s > 0]
    tokens = sum(step.trained_tokens + UPDATE_TOKENS for step in steps)
    trained = sum(step.trained_s for step in steps) / tokens
    rates = Rates(
        step_s=0.0, weights_s=0.0, row_s=0.0, context_s=0.0, active_share=1.0, prompt_token_s=0.0, load_s=0.0,
        trained_token_s=trained, trained_context_s=0.0, update_s=UPDATE_TOKENS * trained,
        send_s=fmean(step.other_s for step in steps),
        evaluation_s=fmean(evaluations) if evaluations else 0.0,
        evaluation_every=run.scale.evaluation.every if evaluations else 0,
        trained_share=question.assumptions.trained_share,
    )  # fmt: skip
    prompts_rows = PROMPTS_ROWS if run.scale.generator.engine == "embedded" else 0.0

    def decoding(row_s: float) -> Rates:
        step_s, prompts_s = STEP_ROWS * row_s, prompts_rows * row_s
        return replace(rates, row_s=row_s, step_s=step_s, prompts_s=prompts_s, prompt_token_s=row_s)

    row_s = busy_s * len(steps) / max(1, sum(step.generated_tokens for step in steps))
    for _ in range(2):
        fleet = Fleet(question.generating, 1, question.rows)
        outcome = simulate(question, steps=24, rates=decoding(row_s), fleet=fleet)
        row_s *= busy_s / (outcome.step_s * (1 - outcome.generator_idle) * question.generating)
    return decoding(row_s)


def _measured(steps: list[_Step]) -> Measured:
    wall_s, lived_s = sum(step.wall_s for step in steps), sum(step.generator_s for step in steps)
    return Measured(
        steps=len(steps),
        step_s=wall_s / len(steps),
        generator_idle=sum(step.generator_idle_s for step in steps) / max(lived_s, 1e-9),
        trainer_idle=sum(step.trainer_waited_s for step in steps) / wall_s,
        mean_age=fmean(step.age_mean for step in steps),
    )
