"""Dealing a batch to ranks: everything once, balanced by tokens, the denominators of the whole batch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from scalerl.config import RunConfig
from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.deal import balance, deal
from scalerl.pipeline.microbatches import micro_batches
from scalerl.recipe import recipe_of


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("rank_batches")


def test_the_longest_group_left_goes_to_the_rank_with_the_least() -> None:
    assert balance([5, 40, 30, 0, 20, 10], 2) == [[0, 1, 5], [2, 4]]
    assert balance([7, 7, 7, 7], 2) == [[0, 2], [1, 3]]
    assert balance([0, 3], 3) == [[1], [], []]
    assert balance([], 2) == [[], []]


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("recipe", ["scalerl", "deepseek_grpo", "dr_grpo"])
def test_shares_are_the_batch(make_run: Callable[..., RunConfig], batches: Any, recipe: str, step: int) -> None:
    batch = make_batch(batches.batch(step))
    plan = recipe_of(make_run(recipe=recipe)).plan(batch.rollouts)
    shares = deal(batch, plan, 3)
    pieces = [micro for share in shares for micro in micro_batches(share.batch, share.plan, 100, torch.device("cpu"))]
    (whole,) = micro_batches(batch, plan, 10**6, torch.device("cpu")) if plan.num_rollouts else (None,)
    if whole is None:
        assert not pieces
        return
    for name in ("weight_r", "advantage_r", "token_n"):
        dealt = torch.cat([getattr(micro, name) for micro in pieces]).double()
        assert dealt.sort().values.equal(getattr(whole, name).double().sort().values)  # none twice, none left out
    assert sum(micro.num_tokens for micro in pieces) == whole.num_tokens
    weights = torch.cat([micro.weight_r * micro.mask_rt.sum(1) for micro in pieces])
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)


def test_one_rank_keeps_the_batch_itself(make_run: Callable[..., RunConfig], batches: Any) -> None:
    batch = make_batch(batches.batch(0))
    plan = recipe_of(make_run()).plan(batch.rollouts)
    (share,) = deal(batch, plan, 1)
    assert share.batch is batch
    assert share.plan is plan


def test_a_rank_can_come_away_with_nothing(make_run: Callable[..., RunConfig], batches: Any) -> None:
    batch = make_batch(batches.batch(4))
    plan = recipe_of(make_run()).plan(batch.rollouts)
    first, second = deal(batch, plan, 2)
    assert [group.request.index for group in first.batch.groups] == [0]
    assert not second.batch.groups
    assert len(micro_batches(second.batch, second.plan, 100, torch.device("cpu"))) == 0
