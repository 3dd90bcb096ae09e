"""Small policies, requests, and a loop that runs an engine until everything has come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedModel

from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.types import EngineSettings, GroupRequest, Rollout
from scalerl.policy.tiny import TinyLlama, TinyMoe, new_policy

Rollouts = dict[tuple[int, int], Rollout]


@pytest.fixture(scope="session")
def llama() -> PreTrainedModel:
    return new_policy(TinyLlama(width=32, layers=2, heads=2, feed_forward=48), seed=1)[0]


@pytest.fixture(scope="session")
def moe() -> PreTrainedModel:
    return new_policy(TinyMoe(width=32, layers=2, heads=2, feed_forward=32), seed=2)[0]


@pytest.fixture
def settings() -> Callable[..., EngineSettings]:
    """No end-of-text token that the policy can write, unless asked for: then lengths are known beforehand."""
    usual = EngineSettings(
        rows=4, max_response=12, max_prompt=10, eos_id=10_000, end_thinking_ids=(), phrase_ids=(), temperature=1.0,
        fp32_head=False,
    )  # fmt: skip

    def make(**changes: Any) -> EngineSettings:
        return replace(usual, **changes)

    return make


@pytest.fixture
def request_of() -> Callable[..., GroupRequest]:
    """A group with the number `index`, whose prompt and seeds follow from it unless given."""

    def make(index: int, rollouts: int = 1, **changes: Any) -> GroupRequest:
        usual = GroupRequest(
            index=index, split="train", problem=index, problem_id=f"p{index}",
            prompt_ids=tuple((7 * index + 3 * token + 5) % 20 for token in range(4 + index % 5)),
            seeds=tuple(1000 * index + rollout for rollout in range(rollouts)),
            interruptions=(None,) * rollouts,
        )  # fmt: skip
        return replace(usual, **changes)

    return make


@pytest.fixture
def drain() -> Callable[[EmbeddedEngine], Rollouts]:
    """Step until nothing is pending: (request, position in the group) -> rollout."""

    def run(engine: EmbeddedEngine) -> Rollouts:
        rollouts: Rollouts = {}
        while engine.num_pending:
            rollouts |= {(done.request, done.position): done.rollout for done in engine.step().finished}
        return rollouts

    return run
