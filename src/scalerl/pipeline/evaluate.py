"""Evaluation: the pass rate of one policy version on fixed held-out problems, and on downstream sets beside them.

Called by the session at step 0 and then regularly. Answers are written by engines of the evaluation's own, so that
nothing under way is disturbed, or by the generators beside their other work; every token comes from the version that is
measured. Seeds depend on run, set, version and problem alone: an evaluation can be repeated, and a resumed run measures
what the uninterrupted one would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Protocol

from torch import Tensor

from scalerl.compute import Ledger, Usage
from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.generator import Generator
from scalerl.pipeline.source import Encode, request_for, rollout_seeds
from scalerl.pipeline.types import EvalPoint, Exam, Group, GroupRequest, Point, Unjudged
from scalerl.recipe import Recipe
from scalerl.tasks import Problem, Task, part_names, part_of

Watch = Callable[[int, int], None]
"""Called with the number of groups finished and wanted."""
_EXAMS = 1 << 40
"""Exams have numbers below 0, in the order of their problems, so that they meet no admission."""


class Answers(Protocol):
    """Who writes the answers of an evaluation."""

    def __call__(
        self, requests: Sequence[GroupRequest], weights: Mapping[str, Tensor], version: int, watch: Watch
    ) -> tuple[list[Group], Usage]:
        """A group for each request, in any order, all of them by this version; and what writing them cost."""


class Evaluator:
    """Asks the same questions again and again: the held-out ones, or those of the downstream set `name`."""

    def __init__(
        self,
        run: RunConfig,
        answers: Answers,
        task: Task,
        recipe: Recipe,
        encode: Encode,
        name: str | None = None,
        exam: Exam | None = None,
    ) -> None:
        """`exam`: where those who answer have other requests too."""
        self._run = run
        self._answers = answers
        self._exam = exam
        self._recipe = recipe
        self._encode = encode
        self._seeds = ("evaluation",) if name is None else ("downstream", name)
        self._problems = held_out_problems(task, run.scale.evaluation.problems)
        self._parts = part_names(task)

    @property
    def num_problems(self) -> int:
        return len(self._problems)

    def evaluate(
        self, weights: Mapping[str, Tensor], version: int, ledger: Ledger, watch: Watch
    ) -> tuple[Point, Usage]:
        """The point of this version, and what measuring it cost."""
        groups, usage = self._answers([self._request(p, version) for p in self._problems], weights, version, watch)
        num_samples = self._run.scale.evaluation.samples
        point = point_of(groups, version, num_samples, ledger)
        return replace(point, parts=by_part(groups, self._parts, version, num_samples, ledger)), usage

    def _request(self, problem: Problem, version: int) -> GroupRequest:
        num_samples = self._run.scale.evaluation.samples
        seeds = rollout_seeds(num_samples, self._run.seed, *self._seeds, version, problem.id)
        tokens = self._run.scale.tokens
        request = request_for(problem, problem.index, seeds, self._recipe, self._encode, tokens)
        return request if self._exam is None else replace(request, index=problem.index - _EXAMS, exam=self._exam)


class Resting(Protocol):
    """What is asked of an engine between evaluations."""

    def rest(self) -> None: ...


class Evaluations:
    """The held-out evaluation and the downstream sets that are due with it, as one point."""

    def __init__(
        self, run: RunConfig, held_out: Evaluator, downstream: Mapping[str, Evaluator], engines: Sequence[Resting]
    ) -> None:
        """`engines`: all that the evaluators use."""
        self._run = run
        self._held_out = held_out
        self._downstream = downstream
        self._engines = engines

    def evaluate(
        self, weights: Mapping[str, Tensor], version: int, ledger: Ledger, watch: Watch
    ) -> tuple[Point, Usage]:
        """As `Evaluator.evaluate`; a set that is not due is None in the point."""
        due = {name: one for name, one in self._downstream.items() if is_due(self._run, name, version)}
        total = self._held_out.num_problems + sum(one.num_problems for one in due.values())
        point, usage = self._held_out.evaluate(weights, version, ledger, lambda done, _: watch(done, total))
        self._rest()
        found: dict[str, Point | None] = dict.fromkeys(self._downstream)
        before = self._held_out.num_problems
        for name, one in due.items():
            found[name], spent = one.evaluate(weights, version, ledger, _after(before, total, watch))
            usage += spent
            before += one.num_problems
            self._rest()
        return replace(point, downstream=found), usage

    def _rest(self) -> None:
        """The next set, and the training after it, need the memory."""
        for engine in self._engines:
            engine.rest()


def is_due(run: RunConfig, name: str, step: int) -> bool:
    """Whether a set is measured by the evaluation of this step. One out of turn, at the end of a budget, has them all;
    otherwise only the step decides, so that a run with a longer budget has the same points."""
    every = run.scale.evaluation.every
    return step % every != 0 or (step // every) % run.scale.evaluation.downstream[name].every == 0


def _after(before: int, total: int, watch: Watch) -> Watch:
    return lambda done, _: watch(before + done, total)


def held_out_problems(task: Task, wanted: int, key: str = "scale.evaluation") -> Sequence[Problem]:
    """The first held-out problems, all where `wanted` is 0; a task with fewer is an error, not a smaller evaluation."""
    pool = task.problems("held_out")
    if not wanted:
        return pool[: pool.size]
    if pool.size is not None and pool.size < wanted:
        allowed = f"at most {pool.size}, the held-out problems of the task {task.name!r}"
        raise InputError(f"{key}.problems", wanted, allowed)
    return pool[:wanted]


def own_answers(generator: Generator) -> Answers:
    """Of a generator that has nothing else to do."""

    def answers(
        requests: Sequence[GroupRequest], weights: Mapping[str, Tensor], version: int, watch: Watch
    ) -> tuple[list[Group], Usage]:
        generator.load_weights(weights, version)
        return write_all(generator, requests, watch)

    return answers


def write_all(generator: Generator, requests: Sequence[GroupRequest], watch: Watch) -> tuple[list[Group], Usage]:
    """Submit everything and decode until all of it is done."""
    for request in requests:
        generator.submit(request)
    groups: list[Group] = []
    usage = Usage()
    while generator.num_pending:
        step = generator.advance()
        usage += step.usage
        if step.groups:
            groups.extend(step.groups)
            watch(len(groups), len(requests))
    return groups, usage


def point_of(groups: Sequence[Group], version: int, num_samples: int, ledger: Ledger) -> Point:
    """As `summary`; where nothing could be judged, what is known all the same."""
    if any(group.num_judged for group in groups):
        return summary(groups, version, num_samples, ledger)
    groups = sorted(groups, key=lambda group: group.request.index)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return Unjudged(
        step=version,
        num_samples=num_samples,
        truncation_rate=fmean(rollout.truncated for rollout in rollouts),
        mean_length=fmean(len(rollout) for rollout in rollouts),
        ledger=ledger,
        per_problem={group.request.problem_id: (0, 0) for group in groups},
    )


def judged(point: Point) -> EvalPoint:
    """The point, for whom a missing one is of no use."""
    if isinstance(point, Unjudged):
        raise _nothing_judged(point.step)
    return point


def _nothing_judged(version: int) -> InputError:
    return InputError(
        "no answer of the evaluation could be judged", allowed="a verifier that works", where=f"step {version}"
    )


def summary(groups: Sequence[Group], version: int, num_samples: int, ledger: Ledger) -> EvalPoint:
    """A point from its groups. A rollout whose verifier failed is missing, not wrong."""
    groups = sorted(groups, key=lambda group: group.request.index)
    per_problem = {group.request.problem_id: (group.num_correct, group.num_judged) for group in groups}
    rates = [correct / judged for correct, judged in per_problem.values() if judged]
    if not rates:
        raise _nothing_judged(version)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return EvalPoint(
        step=version,
        pass_rate=fmean(rates),
        num_problems=len(rates),
        num_samples=num_samples,
        num_judged=sum(judged for _, judged in per_problem.values()),
        standard_error=stdev(rates) / len(rates) ** 0.5 if len(rates) > 1 else None,
        truncation_rate=fmean(rollout.truncated for rollout in rollouts),
        mean_length=fmean(len(rollout) for rollout in rollouts),
        ledger=ledger,
        per_problem=per_problem,
    )


def by_part(
    groups: Sequence[Group], parts: Sequence[str], version: int, num_samples: int, ledger: Ledger
) -> dict[str, EvalPoint | None]:
    """A point for each part of a mixture, from the groups of its problems."""
    found: dict[str, EvalPoint | None] = dict.fromkeys(parts)
    for name in parts:
        own = [group for group in groups if part_of(group.request.problem_id) == name]
        if any(group.num_judged for group in own):
            found[name] = summary(own, version, num_samples, ledger)
    return found
