"""Evaluations: fixed problems, one version, repeatable, and failures of the verifier are missing and not wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scalerl.compute import Ledger
from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.assemble import ground
from scalerl.pipeline.evaluate import held_out_problems, summary
from scalerl.pipeline.session import train
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.policy.load import load_policy
from scalerl.tasks import Status, Verdict, build_task

MakeRun = Callable[..., RunConfig]


def group(index: int, *statuses: Status, truncated: bool = False) -> Group:
    request = GroupRequest(index, "held_out", index, f"p{index}", (1,), tuple(range(len(statuses))), (None,))
    rollout = Rollout(
        np.array([1, 2, 3]), np.zeros(3, np.float32), np.zeros(3, np.int32), np.ones(3, np.bool_), truncated, False
    )
    return Group(request, (rollout,) * len(statuses), tuple(map(Verdict, statuses)))


def test_the_pass_rate_is_the_mean_over_problems_of_the_judged_answers() -> None:
    """Problem 0: 1 of 1 judged, problem 1: 1 of 2, problem 2: not judged at all."""
    groups = [
        group(1, "correct", "unparsable", truncated=True),
        group(0, "timeout", "correct"),
        group(2, "error", "timeout"),
    ]
    point = summary(groups, 7, 2, Ledger())
    assert point.pass_rate == pytest.approx((1.0 + 0.5) / 2)
    assert (point.num_problems, point.num_judged, point.step) == (2, 3, 7)
    assert point.per_problem == {"p0": (1, 1), "p1": (1, 2), "p2": (0, 0)}
    assert point.standard_error == pytest.approx(0.25)  # sd of (1, .5) is .3536; over sqrt 2
    assert point.truncation_rate == pytest.approx(1 / 3)
    assert point.mean_length == 3


def test_nothing_judged_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(InputError, match="step 4: no answer of the evaluation could be judged"):
        summary([group(0, "timeout")], 4, 1, Ledger())


def test_one_problem_has_no_standard_error() -> None:
    assert summary([group(0, "correct")], 0, 1, Ledger()).standard_error is None


def test_a_task_with_too_few_held_out_problems_says_how_many_it_has(make_run: MakeRun) -> None:
    task = build_task(make_run().scale.task_settings, seed=0)
    with pytest.raises(InputError, match=r"scale.evaluation.problems: got 9; allowed: at most 8, the held-out"):
        held_out_problems(task, 9)


def test_an_evaluation_can_be_repeated_and_belongs_to_its_version(make_run: MakeRun, cache: Path) -> None:
    run = make_run()
    policy = load_policy(run, cache)
    base = ground(run, policy.tokenizer)
    weights = {name: tensor.detach() for name, tensor in policy.model.named_parameters()}
    seen: list[tuple[int, int]] = []

    def watch(finished: int, wanted: int) -> None:
        seen.append((finished, wanted))

    first, usage = base.evaluator(policy.model, 0).evaluate(weights, 0, Ledger(), watch)
    evaluator = base.evaluator(policy.model, 0)
    later, _ = evaluator.evaluate(weights, 3, Ledger(), watch)
    again, _ = evaluator.evaluate(weights, 0, Ledger(), watch)
    assert (again.per_problem, again.mean_length) == (first.per_problem, first.mean_length)
    assert (later.per_problem, later.mean_length) != (first.per_problem, first.mean_length)  # other seeds
    assert usage.flops > 0
    assert seen[-1] == (8, 8)
    train = {problem.id for problem in base.task.problems("train")[:40]}
    assert len(first.per_problem) == 8
    assert not train & first.per_problem.keys()


def test_too_large_an_evaluation_is_refused_before_the_warm_start_and_writes_nothing(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run("scale.evaluation.problems=100000")
    with pytest.raises(InputError, match="100000"):
        train(run, tmp_path / "run", cache=tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []
