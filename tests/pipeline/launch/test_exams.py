"""Evaluations that the generators answer: by one version, beside the rollouts under way, and booked apart from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from scalerl.compute import Usage
from scalerl.config import RunConfig, load_run, patch
from scalerl.errors import InputError
from scalerl.pipeline.buffer import Buffer, OrderError
from scalerl.pipeline.launch.remote import RemoteFeed
from scalerl.pipeline.launch.worker import Progress
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.session import TrainResult, train
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Exam, Group, GroupRequest, Rollout
from scalerl.recipe import recipe_of
from scalerl.runs.verify import verify
from scalerl.tasks import Verdict, build_task

MakeRun = Callable[..., RunConfig]
BY = 'scale.evaluation.by="generators"'
LOCAL = 'scale.launcher.kind="local"'
KEY = "scale.evaluation.downstream"
SETS = (
    f"{KEY}.three={{task={{numbers=3, held_out_share=0.9}}, problems=5, samples=3, every=2}}",
    f"{KEY}.longer={{task={{largest=12}}, problems=6, temperature=0.5, tokens={{thinking=20, prompt=8}}}}",
)
PROMPTS = 3
FLOPS = 7.0


class Hands:
    """Generators without processes: one group in each message, requests in the order in which they came."""

    def __init__(self, lag: int = 0) -> None:
        """`lag`: how many versions they are behind."""
        self.shared: list[int] = []
        self._lag = lag
        self._version = 0
        self._waiting: list[GroupRequest] = []
        self._done = Progress((), Usage(), busy_s=0.0, idle_s=0.0, memory_bytes=0)

    def submit(self, requests: tuple[GroupRequest, ...], version: int) -> None:
        del version
        self._waiting += requests

    def share(self, weights: Mapping[str, Tensor], version: int) -> None:
        del weights
        self.shared.append(version)
        self._version = version

    def receive(self, *, wait: bool = True) -> Progress | None:
        if not self._waiting:
            assert not wait, "nobody will ever answer"
            return None
        request = self._waiting.pop(0)
        version = np.array([self._version - self._lag], np.int32)
        rollout = Rollout(np.array([1]), np.zeros(1, np.float32), version, np.ones(1, np.bool_), False, False)
        group = Group(request, (rollout,) * len(request.seeds), (Verdict("correct"),) * len(request.seeds))
        done, one = self._done, Usage(0.5, FLOPS, 2)
        exam = done.exam + one if request.exam else done.exam
        self._done = Progress((), done.usage + one, done.busy_s + 0.5, done.idle_s + 0.25, 0, exam=exam)
        return Progress((group,), self._done.usage, self._done.busy_s, self._done.idle_s, 0, exam=exam)

    def close(self) -> None: ...


def feed_of(hands: Hands, **asynchrony: Any) -> RemoteFeed:
    changes = {f"recipe.asynchrony.{key}": value for key, value in asynchrony.items()}
    run = patch(load_run("scalerl", "laptop").config, changes | {"scale.batch.prompts": PROMPTS})
    schedule = schedule_of(run.recipe.asynchrony)
    source = Source(run, build_task(run.scale.task_settings, seed=0), recipe_of(run), lambda _: (1, 2, 3))
    return RemoteFeed(hands, source, Buffer(schedule, PROMPTS), schedule)


def exams(num: int) -> list[GroupRequest]:
    return [
        GroupRequest(index - 100, "held_out", index, f"p{index}", (1,), (7,), (None,), exam=Exam(None, 1.0))
        for index in range(num)
    ]


def steps(feed: RemoteFeed, first: int, last: int) -> None:
    for version in range(first, last):
        assert feed.batch(version) is not None
        feed.publish({"value": torch.tensor(version + 1)}, version + 1, 1.0)


def test_they_are_answered_beside_what_is_under_way_and_booked_apart() -> None:
    hands = Hands()
    feed = feed_of(hands, k=2)
    steps(feed, 0, 2)
    before = feed.report().usage
    seen: list[tuple[int, int]] = []
    groups, usage = feed.exams(exams(4), {}, 2, lambda *counts: seen.append(counts))
    assert [group.request.index for group in groups] == [-100, -99, -98, -97]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert usage == Usage(2.0, 4 * FLOPS, 8)
    assert hands.shared == [1, 2]  # they have these weights already
    steps(feed, 2, 3)
    after = feed.report().usage
    written = (before.tokens + after.tokens) / 2  # groups, all of them trained on or in the buffer
    assert written == hands._done.usage.tokens / 2 - 4
    assert before.flops + after.flops == FLOPS * written
    # busy and idle for each of them, and idle while an exam was written: a generator is held all the time
    assert before.device_s + after.device_s == pytest.approx(0.75 * written + 0.25 * 4)


def test_in_the_middle_of_a_round_the_generators_get_the_weights_all_the_same() -> None:
    """They have nothing else to write then."""
    hands = Hands()
    feed = feed_of(hands, kind="ppo_off_policy", k=3)
    steps(feed, 0, 2)
    assert hands.shared == []
    groups, _ = feed.exams(exams(2), {}, 2, lambda *_: None)
    again, _ = feed.exams(exams(1), {}, 2, lambda *_: None)  # another set, at the same version
    assert [group.rollouts[0].versions.tolist() for group in [*groups, *again]] == [[2]] * 3
    steps(feed, 2, 5)
    assert hands.shared == [2, 3]


def test_an_answer_of_another_version_is_no_answer() -> None:
    feed = feed_of(Hands(lag=1), k=2)
    steps(feed, 0, 3)
    with pytest.raises(OrderError, match=r"an evaluation of version 3 was answered by \[2\]"):
        feed.exams(exams(1), {}, 3, lambda *_: None)


def test_at_the_beginning_rows_that_are_free_are_used() -> None:
    """An evaluation of step 0 comes before the first batch is asked for."""
    hands = Hands()
    feed = feed_of(hands, k=2)
    feed.exams(exams(1), {}, 0, lambda *_: None)
    assert len(hands._waiting) == 3 * PROMPTS


@pytest.fixture(scope="module")
def run_to(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainResult]:
    folder = tmp_path_factory.mktemp("runs")

    def start(run: RunConfig, name: str, **options: Any) -> TrainResult:
        return train(run, folder / name, cache=cache, **options)

    return start


SYNC = 'recipe.asynchrony.kind="sync"'


def steps_of(result: TrainResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]


def scores(result: TrainResult) -> list[Any]:
    return [
        (point.step, point.per_problem, {name: one and one.per_problem for name, one in point.downstream.items()})
        for point in result.points
    ]


def test_they_measure_what_the_trainer_would_have_measured(
    make_run: MakeRun, run_to: Callable[..., TrainResult]
) -> None:
    """The same seeds and the same weights: answer by answer, at k = 0 where both runs are the same. One of the sets has
    more room than training has, of which the rollouts that are trained on must get nothing."""
    short = ("scale.tokens.thinking=4", "scale.tokens.answer=3", 'recipe.length.kind="none"')
    mine = run_to(make_run(*SETS, SYNC, *short), "trainer")
    other = run_to(make_run(*SETS, SYNC, *short, LOCAL, BY), "generators")
    assert scores(other) == scores(mine)
    assert [point.mean_length for point in other.points] == [point.mean_length for point in mine.points]
    for one, two in zip(steps_of(mine), steps_of(other), strict=True):
        for key in ("loss", "mean_length", "truncation_rate", "loss_tokens", "reward"):
            assert one[key] == two[key], (one["step"], key)
    assert max(line["truncation_rate"] for line in steps_of(other)) > 0
    longer = [point.downstream["longer"] for point in other.points]
    assert max(one.mean_length for one in longer if one) > 7
    for side in ("generation", "training", "evaluation"):
        one, two = getattr(mine.ledger, side), getattr(other.ledger, side)
        assert (two.tokens, two.flops) == (one.tokens, pytest.approx(one.flops)), side
        assert two.device_s > 0
    assert [finding.message for finding in verify(other.folder).findings if finding.level == "error"] == []


@pytest.mark.parametrize("asynchrony", [["recipe.asynchrony.k=3"], ['recipe.asynchrony.kind="ppo_off_policy"']])
def test_a_run_whose_sides_are_busy_at_the_same_time(
    asynchrony: list[str], make_run: MakeRun, run_to: Callable[..., TrainResult]
) -> None:
    run = make_run(*asynchrony, LOCAL, BY, "scale.budget.amount=7", *SETS)
    stops = iter([False, False, False, True])
    name = str(len(asynchrony[0]))
    first = run_to(run, name, should_stop=lambda: next(stops))
    assert first.reason == "interrupted"
    result = run_to(run, name, resume=True)
    assert [point.step for point in result.points] == [0, 2, 4, 6, 7]
    lines = steps_of(result)
    assert [line["step"] for line in lines] == list(range(1, 8))
    spent = [line["ledger"]["generation"]["tokens"] for line in lines]
    assert spent == sorted(spent)
    answers = 8 * 2 * 5 + 6 * 2 * 5 + 5 * 3 * 3  # held out, longer, three at steps 0, 4 and 7
    assert result.ledger.evaluation.tokens > 3 * answers


def test_an_error_of_a_generator_ends_the_evaluation(
    make_run: MakeRun, run_to: Callable[..., TrainResult], tmp_path: Path
) -> None:
    """Whoever waits for answers hears of it."""
    from scalerl.policy.load import load_policy

    run = make_run(LOCAL, BY)
    policy = load_policy(run, tmp_path)
    broken = policy.folder / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-100])
    with pytest.raises(InputError):
        train(run, tmp_path / "run", cache=tmp_path)


def test_inline_cannot(make_run: MakeRun) -> None:
    words = (
        r"scale\.evaluation\.by: got 'generators'; allowed: trainer with inline, whose generator is part of its process"
    )
    with pytest.raises(InputError, match=words):
        make_run(BY)


def test_a_run_without_it_is_the_run_that_it_was(make_run: MakeRun) -> None:
    from scalerl.config import to_json

    assert '"by"' not in to_json(make_run(LOCAL))
    assert '"by": "generators"' in to_json(make_run(LOCAL, BY))
