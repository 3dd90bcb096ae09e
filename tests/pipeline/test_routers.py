"""Router statistics of a mixture of experts: who is chosen, hand-counted; padding does not count."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scalerl.config import RunConfig
from scalerl.pipeline.routers import Routers, describe
from scalerl.pipeline.session import train
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.tiny import new_policy
from scalerl.runs import RunDirectory

MOE = TinyMoe(width=16, layers=2, heads=2, feed_forward=8, experts=4, experts_per_token=2, context=24)


def test_the_counts_are_those_of_the_routers_own_logits() -> None:
    model = new_policy(MOE, 0)[0].eval()
    routers = Routers(model)
    ids = torch.tensor([[4, 5, 6, 7], [8, 9, 0, 0]])
    valid = torch.tensor([True] * 6 + [False] * 2)
    with torch.no_grad():
        with routers.listening(valid):
            logits = model(ids, output_router_logits=True).router_logits
        model(ids)  # nobody listens
    count_le = routers.take()
    assert count_le is not None
    assert count_le.shape == (2, 4)
    for layer, logits_xe in enumerate(logits):
        chosen = logits_xe[valid].topk(2, dim=-1).indices.flatten().tolist()
        assert count_le[layer].tolist() == [chosen.count(expert) for expert in range(4)]
    assert routers.take() is None


def test_a_dense_policy_has_none() -> None:
    model = new_policy(TinyLlama(width=16, layers=1, heads=2, feed_forward=24), 0)[0]
    routers = Routers(model)
    with torch.no_grad(), routers.listening(None):
        model(torch.tensor([[4, 5]]))
    assert routers.take() is None


def test_what_is_said_of_the_counts() -> None:
    even = describe(torch.tensor([[5, 5, 5, 5]]))
    assert even == pytest.approx({"router_entropy": 1, "router_load": 1, "router_load_max": 1, "router_unused": 0})
    found = describe(torch.tensor([[10, 10, 0, 0], [5, 5, 5, 5]]))
    entropy = (math.log(2) / math.log(4) + 1) / 2
    assert found == pytest.approx(
        {"router_entropy": entropy, "router_load": 1.5, "router_load_max": 2, "router_unused": 0.25}
    )


def test_a_run_logs_them(make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path) -> None:
    model = (
        "scale.model={source='moe', layers=1, width=32, heads=2, feed_forward=16, experts=4, experts_per_token=2, "
        "tied=false, dtype='float32'}"
    )
    keys = ["scale.warm_start.steps=20", "scale.budget.amount=2", "recipe.zero_variance=keep"]
    train(make_run(model, *keys), tmp_path / "run", cache=cache)
    lines = RunDirectory.open(tmp_path / "run").metrics.read()
    assert len(lines) == 2
    for line in lines:
        assert 0 < line["router_entropy"] <= 1
        assert 1 <= line["router_load"] <= line["router_load_max"] <= 2  # two of four experts: at most twice the mean
        assert 0 <= line["router_unused"] <= 0.5
