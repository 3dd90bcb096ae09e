"""The inline launcher: virtual time decides what overlaps, and the ages follow from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from scalerl.config import RunConfig
from scalerl.pipeline.assemble import ground
from scalerl.pipeline.launch.inline import InlineFeed
from scalerl.pipeline.launch.open import OnThisMachine
from scalerl.pipeline.source import Source
from scalerl.pipeline.types import Group
from scalerl.policy.load import load_policy

MakeRun = Callable[..., RunConfig]
STEP_FLOPS = 5e7
"""About what a step of the tiny run costs the trainer."""


@pytest.fixture
def open_run(make_run: MakeRun, cache: Path) -> Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]]:
    def start(*overrides: str) -> tuple[InlineFeed, dict[str, torch.Tensor]]:
        run = make_run(*overrides)
        policy = load_policy(run, cache)
        feed = OnThisMachine().open_feed(ground(run, policy.tokenizer), policy.model, policy.folder, 0)
        assert isinstance(feed, InlineFeed)
        return feed, {name: tensor.detach() for name, tensor in policy.model.named_parameters()}

    return start


def versions(groups: tuple[Group, ...] | None) -> set[int]:
    assert groups is not None
    return {int(version) for group in groups for rollout in group.rollouts for version in rollout.versions}


def steps(feed: InlineFeed, weights: dict[str, torch.Tensor], num: int, flops: float = STEP_FLOPS) -> list[set[int]]:
    """Pretend to train: the same weights under a new version each time."""
    seen = []
    for version in range(num):
        seen.append(versions(feed.batch(version)))
        feed.publish(weights, version + 1, flops)
    return seen


def test_weights_change_while_rollouts_are_under_way(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]],
) -> None:
    """A trainer as fast as the generator: rollouts then have tokens of several versions."""
    feed, weights = open_run("recipe.asynchrony.k=4", "scale.generator.rows=12")
    groups: list[Group] = []
    for version in range(6):
        batch = feed.batch(version)
        assert batch is not None
        groups.extend(batch)
        feed.publish(weights, version + 1, 0.0)
    mixed = [r for group in groups for r in group.rollouts if len(np.unique(r.versions)) > 1]
    assert mixed
    assert all((np.diff(r.versions) >= 0).all() for r in mixed)


def test_a_slow_trainer_gets_rollouts_of_the_largest_age_and_the_generator_waits(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]],
) -> None:
    feed, weights = open_run("recipe.asynchrony.k=3")
    seen = steps(feed, weights, 8, flops=1e12)
    assert [min(v) for v in seen] == [0, 0, 0, 0, 1, 2, 3, 4]
    report = feed.report()
    assert report.generator_idle is not None
    assert report.generator_idle > 0.9
    assert report.trainer_idle is not None
    assert report.trainer_idle < 0.01


def test_a_slow_generator_lets_the_trainer_wait(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]],
) -> None:
    feed, weights = open_run("recipe.asynchrony.k=3", "scale.launcher.decode_slowdown=1000")
    seen = steps(feed, weights, 4)
    assert max(version - min(v) for version, v in enumerate(seen)) >= 1
    report = feed.report()
    assert report.trainer_idle is not None
    assert report.trainer_idle > 0.9
    assert report.generator_idle == 0.0


def test_off_policy_batches_come_from_one_version(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]],
) -> None:
    feed, weights = open_run('recipe.asynchrony.kind="ppo_off_policy"', "recipe.asynchrony.k=3")
    assert steps(feed, weights, 7) == [{0}, {0}, {0}, {3}, {3}, {3}, {6}]


def test_the_usage_is_booked_once(open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]]) -> None:
    feed, weights = open_run()
    steps(feed, weights, 2)
    first = feed.report()
    assert first.usage.flops > 0
    assert first.usage.tokens > 0
    assert first.usage.device_s > 0
    assert feed.report().usage.tokens == 0


def test_nothing_is_decoded_for_a_batch_that_will_never_be_whole(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cost would be in no step's ledger."""
    next_request = Source.next_request
    monkeypatch.setattr(Source, "next_request", lambda self, i: next_request(self, i) if i < 4 else None)
    feed, weights = open_run("scale.generator.rows=3")
    assert feed.batch(0) is not None
    feed.publish(weights, 1, 0.0)
    feed.report()
    assert feed.batch(1) is None
    assert feed.report().usage.tokens == 0


def test_a_curriculum_that_has_run_out_ends_the_run(
    open_run: Callable[..., tuple[InlineFeed, dict[str, torch.Tensor]]],
) -> None:
    """A problem is removed with its first correct answer; sooner or later there is no whole batch left."""
    feed, weights = open_run("scale.task.train_problems=4", "recipe.curriculum.threshold=0.01")
    version = 0
    while feed.batch(version) is not None:
        version += 1
        feed.publish(weights, version, 0.0)
        assert version < 200
    assert version > 0
    assert feed.batch(version) is None
