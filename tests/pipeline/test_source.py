"""Requests: the same problems and seeds for the same run, what the curriculum leaves out, and prompts that must fit."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.source import Source, check_prompts
from scalerl.pipeline.types import Group
from scalerl.recipe import recipe_of
from scalerl.tasks import Verdict, build_task

MakeRun = Callable[..., RunConfig]


def letters(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def source_of(run: RunConfig) -> Source:
    return Source(run, build_task(run.scale.task_settings, seed=run.seed), recipe_of(run), letters)


def test_a_request_depends_on_the_seed_of_the_run_and_its_number_alone(make_run: MakeRun) -> None:
    first, again = source_of(make_run()), source_of(make_run())
    requests = [first.next_request(index) for index in range(5)]
    assert requests == [again.next_request(index) for index in range(5)]
    assert requests != [source_of(make_run("seed=1")).next_request(index) for index in range(5)]
    seeds = [seed for request in requests if request for seed in request.seeds]
    assert len(set(seeds)) == len(seeds) == 5 * 4
    low, high = 10, 12  # .8333 and 1 of 12 thinking tokens
    points = {point for request in requests if request for point in request.interruptions}
    assert points <= set(range(low, high + 1))
    assert len(points) > 1


def test_a_recipe_without_interruption_asks_for_none(make_run: MakeRun) -> None:
    request = source_of(make_run('recipe.length.kind="none"')).next_request(0)
    assert request is not None
    assert request.interruptions == (None,) * 4


def test_the_curriculum_leaves_out_what_is_solved_and_then_everything(make_run: MakeRun) -> None:
    run = make_run("scale.task.train_problems=5")
    source = source_of(run)
    for index in range(5):
        request = source.next_request(index)
        assert request is not None
        verdict = Verdict("wrong") if index == 3 else Verdict("correct")
        source.record(Group(request, (), (verdict,) * 4))
    left = [source.next_request(index) for index in range(5, 9)]
    assert len({request.problem_id for request in left if request}) == 1
    assert left[0] is not None
    source.record(Group(left[0], (), (Verdict("correct"),) * 4))
    assert source.next_request(9) is None


def test_a_failed_verifier_is_no_evidence_for_the_curriculum(make_run: MakeRun) -> None:
    source = source_of(make_run("scale.task.train_problems=1"))
    request = source.next_request(0)
    assert request is not None
    source.record(Group(request, (), (Verdict("timeout"),) * 4))
    assert source.next_request(1) is not None


def test_a_snapshot_goes_on_where_it_was_taken(make_run: MakeRun) -> None:
    source = source_of(make_run("scale.task.train_problems=7"))
    for index in range(10):
        request = source.next_request(index)
        assert request is not None
        source.record(Group(request, (), (Verdict("correct" if index % 3 else "wrong"),) * 4))
    saved = json.loads(json.dumps(source.snapshot()))
    resumed = source_of(make_run("scale.task.train_problems=7"))
    resumed.restore(saved)
    rest = [source.next_request(index) for index in range(10, 20)]
    assert rest == [resumed.next_request(index) for index in range(10, 20)]
    assert resumed.epoch == source.epoch > 0


def test_a_prompt_that_does_not_fit_is_found_before_anything_starts(make_run: MakeRun) -> None:
    task = build_task(make_run().scale.task_settings, seed=0)
    check_prompts(task, letters, max_prompt=4)
    with pytest.raises(
        InputError, match=r"problem chained_sums/\w+: tokens of a prompt: got 4; allowed: at most .*, 3"
    ):
        check_prompts(task, letters, max_prompt=3)
    with pytest.raises(InputError, match="a prompt without tokens"):
        check_prompts(task, lambda _: (), max_prompt=3)
