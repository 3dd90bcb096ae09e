"""`scalerl plan`: how long a run will take on a machine that is not here yet, where its time goes, and what it costs.

Called by the typer application. It simulates (`scalerl.plan`), starts nothing and needs neither torch nor a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from scalerl.cli import checks, options, sources
from scalerl.cli import plan_checks as asked
from scalerl.cli import plan_options as own
from scalerl.cli.output import Document, Outcome, picture_line, text_of, to_json
from scalerl.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from scalerl.curves import Fit
    from scalerl.plan import Outcome as Simulated
    from scalerl.plan import Question
    from scalerl.plan.likeness import Likeness
    from scalerl.plan.money import Bill, Milestone
    from scalerl.plan.splits import Simulate, Splits

_BRIEF_STEPS = 24
_MILESTONES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of the budget at which the curve is read."""


@dataclass(frozen=True)
class Answer:
    """Everything the command says."""

    question: Question
    likeness: Likeness | None
    splits: Splits | None
    best: Simulated
    modes: tuple[tuple[Simulated, Splits | None], ...]
    """With `--compare`: every kind of asynchrony at its best split."""
    price: float | None
    bill: Bill | None
    fit: Fit | None
    milestones: tuple[Milestone, ...]
    reached: tuple[Bill | None, str] | None
    target: float | None


def plan(
    params: own.PlanParams = None,
    active_params: own.ActiveParams = None,
    gpus: own.PlanGpus = None,
    hardware: own.Hardware = None,
    split: own.Split = None,
    gpus_per_generator: own.PerGenerator = None,
    like: own.LikeRun = None,
    sets: own.PlanSets = None,
    batch: own.PlanBatch = None,
    length: own.Length = None,
    max_length: own.MaxLength = None,
    spread: own.Spread = "0.5",
    interrupt: own.Interrupt = None,
    prompt_length: own.PromptLength = "300",
    mode: own.PlanMode = None,
    k: own.K = None,
    rows: own.PlanRows = None,
    compare: own.Compare = False,
    budget: own.PlanBudget = None,
    steps: own.PlanSteps = None,
    price: own.Price = None,
    start: own.Start = None,
    curve: own.CurveFiles = None,
    example: own.CurveExample = None,
    x: own.CurveX = None,
    y: own.CurveY = None,
    curve_gpu_hours_per_step: own.CurveHours = None,
    target: own.PlanTarget = None,
    simulate: own.Simulated = "60",
    seed: own.SimSeed = "0",
    json: options.Json = False,
    plot: options.Plot = None,
) -> Outcome:
    """Simulate the pipeline at any size: time of a step, idle shares, ages, the best split of the GPUs, cost."""
    total, split_given = asked.split_of(split, gpus)
    pipe = asked.Pipe(batch, mode, k, rows)
    likeness = None
    if like is not None:
        refused = {"--params": params, "--active-params": active_params, "--hardware": hardware, "--set": sets}
        refused |= {"--length": length, "--max-length": max_length, "--interrupt": interrupt}
        asked.refuse_with_like({**refused, "--gpus-per-generator": gpus_per_generator})
        likeness, question = asked.like_run(like, pipe)
        total, split_given = asked.devices_like(likeness, total, split, split_given)
    else:
        responses = asked.Responses(length, max_length, spread, interrupt, prompt_length)
        question = asked.question_of(params, active_params, hardware, gpus_per_generator, pipe, responses, sets or ())
    if total is None:
        raise InputError("no GPUs", allowed="--gpus, or --split G:T")
    spending = asked.spending_of((budget, steps), price, start, target, curve_gpu_hours_per_step)
    picture = checks.plot_path(plot)
    fit = _fit(curve, example, x, y)
    _check_asked(fit, spending)
    planner = _Planner(likeness, asked.whole("--simulate", simulate), asked.whole("--seed", seed, lowest=0))
    return _told(planner.answer(question, total, split_given, spending, fit, compare=compare), picture, json=json)


class _Planner:
    """Simulates what was asked; how long and with whose rates is the same for all of it."""

    def __init__(self, likeness: Likeness | None, steps: int, seed: int) -> None:
        self._likeness, self._steps, self._seed = likeness, steps, seed

    def answer(
        self,
        question: Question,
        gpus: int,
        split: tuple[int, int] | None,
        spending: asked.Spending,
        fit: Fit | None,
        *,
        compare: bool,
    ) -> Answer:
        from scalerl.plan.money import bill, curve_per_step, milestones, reach_bill, steps_within

        best, splits = self._best(question, gpus, split)
        modes = []
        for asynchrony in asked.all_modes(question.asynchrony) if compare else ():
            same = asynchrony == question.asynchrony
            other = replace(question, asynchrony=asynchrony)
            modes.append((best, splits) if same else self._best(other, gpus, split))
        num_steps = None if spending.budget is None else steps_within(*spending.budget, best, spending.price)
        points: tuple[Milestone, ...] = ()
        reached = None
        if fit is not None:
            per_step = curve_per_step(fit.compute_name, best, spending.curve_hours)
            wanted = num_steps or 2 * fit.last_compute / per_step
            shares = [share * wanted for share in _MILESTONES]
            points = milestones(fit, per_step, best, shares, spending.price, spending.start)
            if spending.target is not None:
                reached = reach_bill(fit, spending.target, per_step, best, spending.price)
        whole = None if num_steps is None else bill(best, num_steps, spending.price)
        return Answer(
            question.split(best.generating, best.training), self._likeness, splits, best, tuple(modes), spending.price,
            whole, fit, points, reached, spending.target,
        )  # fmt: skip

    def _best(self, question: Question, gpus: int, split: tuple[int, int] | None) -> tuple[Simulated, Splits | None]:
        from scalerl.plan.splits import best_split

        if split is not None:
            return self._run(question.split(*split), self._steps), None
        # a measured run has rates of its own, and devices without a datasheet
        short = None if self._likeness is None else self._simulating(question, _BRIEF_STEPS)
        found = best_split(question, gpus, self._simulating(question, self._steps), seed=self._seed, short=short)
        return found.best, found

    def _simulating(self, question: Question, steps: int) -> Simulate:
        return lambda generating, training: self._run(question.split(generating, training), steps)

    def _run(self, question: Question, steps: int) -> Simulated:
        from scalerl.plan import simulate

        like = self._likeness
        if like is None:
            return simulate(question, steps=steps, seed=self._seed)
        return simulate(
            question, steps=steps, seed=self._seed, rates=like.rates_for(question), fleet=like.fleet(question)
        )


def _fit(files: Sequence[str] | None, example: str | None, x: str | None, y: str | None) -> Fit | None:
    """The curve: one file, or several seeds of one recipe."""
    if not files and example is None:
        if x is not None or y is not None:
            raise InputError("--x and --y without a curve", allowed="--curve FILE, or --example NAME")
        return None
    bounds = (0.0, 1.0)
    log = checks.log_options(None, None, None, "replace")
    reading = checks.reading(files, example, (x, y, None, None), None, bounds, log)
    fitting = checks.fitting((None, None), None, None, "sigmoid", "varpro", "0.8", bounds)
    curves = sources.read(reading, as_seeds=len(files or ()) > 1)
    fitting, _ = sources.with_advice(fitting, curves)
    fits = sources.fit_all(curves, fitting)
    if len(fits) > 1:
        raise InputError("--curve: curves in the file", len(fits), "one")
    return fits[0]


def _check_asked(fit: Fit | None, spending: asked.Spending) -> None:
    if fit is None and (spending.target is not None or spending.curve_hours is not None):
        name = "--target" if spending.target is not None else "--curve-gpu-hours-per-step"
        raise InputError(f"{name} without a curve", allowed="--curve FILE, or --example NAME")
    if spending.budget is not None and spending.budget[0] == "money" and spending.price is None:
        raise InputError("--budget in money without --price", allowed="--price, the price of a GPU-hour")


def _told(answer: Answer, picture: Path | None, *, json: bool) -> Outcome:
    from scalerl.cli.plan_view import NOT_MEASURED, parts_of

    if picture is not None:
        from scalerl.cli.plan_figure import plot_plan

        plot_plan(answer, picture)
    if json:
        return Outcome(to_json(document_of(answer)), () if answer.likeness else (NOT_MEASURED,))
    return Outcome(text_of([*parts_of(answer), *picture_line(picture)]))


def document_of(answer: Answer) -> Document:
    """`scalerl plan --json`."""
    question = answer.question
    like = answer.likeness
    return {
        "model": asdict(question.model),
        "device": None if like else asdict(question.device),
        "batch": {"prompts": question.prompts, "rollouts": question.rollouts},
        "lengths": {**asdict(question.lengths), "mean": question.lengths.mean(), "prompt": question.prompt_length},
        "assumptions": None if like else {item.name: getattr(question.assumptions, item.name)
                                          for item in fields(question.assumptions)},
        "rates": asdict(like.rates) if like else None,
        "measured": _measured_document(like) if like else None,
        "best": answer.best.to_dict(),
        "splits": None if answer.splits is None else [one.to_dict() for one in answer.splits.tried],
        "modes": [one.to_dict() for one, _ in answer.modes] or None,
        "price": answer.price,
        "budget": None if answer.bill is None else asdict(answer.bill),
        "milestones": [asdict(point) | {"date": point.date.date().isoformat()} for point in answer.milestones] or None,
        "target": None if answer.reached is None else {
            "value": answer.target, "message": answer.reached[1],
            "bill": None if answer.reached[0] is None else asdict(answer.reached[0]),
        },
    }  # fmt: skip


def _measured_document(like: Likeness) -> Document:
    return asdict(like.measured) | {"generating": like.question.generating, "training": like.question.training}
