"""Small policies, requests, a loop that runs an engine until everything has come back, and every engine there is.

A test that takes `open_engine` is part of the contract: it runs for each engine. vLLM, which is started once, is one
of them where it is installed: in an environment of its own (`make test-vllm`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.engines.vllm import VllmEngine, VllmOptions, VllmServer
from scalerl.pipeline.types import Engine, EngineSettings, GroupRequest, Rollout
from scalerl.policy.mark import NO_MARK
from scalerl.policy.tiny import TinyLlama, TinyMoe, new_policy, save_policy

Rollouts = dict[tuple[int, int], Rollout]
OpenEngine = Callable[..., Engine]
ENGINES = ["embedded", pytest.param("vllm", marks=pytest.mark.vllm)]
SHAPE = TinyLlama(width=64, layers=2, heads=2, feed_forward=48, context=256)  # 32 numbers a head: vLLM's smallest


@pytest.fixture(scope="session")
def policy() -> PreTrainedModel:
    """What the engines of `open_engine` run."""
    model = new_policy(SHAPE, seed=1)[0]
    model.eval()
    return model


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    save_policy(folder, *new_policy(SHAPE, seed=1))
    return folder


@pytest.fixture(scope="session")
def vllm_server(policy_folder: Path) -> Iterator[VllmServer]:
    options = VllmOptions(rows=16, context=256, dtype="float32", fp32_head=False, threads=1, cpu_cache_gb=0.1)
    server = VllmServer.open(policy_folder, options)
    yield server
    server.close()


@pytest.fixture(params=ENGINES)
def open_engine(request: pytest.FixtureRequest, policy: PreTrainedModel) -> OpenEngine:
    """`open_engine(settings, version=3)`: a new engine of each kind, with the weights of `policy`."""

    def make(settings: EngineSettings, version: int = 0) -> Engine:
        if request.param == "embedded":
            return EmbeddedEngine(policy, settings, version)
        server: VllmServer = request.getfixturevalue("vllm_server")
        engine = VllmEngine(server, policy, settings, version)
        engine.load_weights(dict(policy.named_parameters()), version)  # an earlier test may have left others
        return engine

    return make


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
        rows=4, max_response=12, max_prompt=10, eos_id=10_000, end_thinking=NO_MARK, phrase_ids=(), temperature=1.0,
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
def drain() -> Callable[[Engine], Rollouts]:
    """Step until nothing is pending: (request, position in the group) -> rollout."""

    def run(engine: Engine) -> Rollouts:
        rollouts: Rollouts = {}
        while engine.num_pending:
            for done in engine.step().finished:
                assert (done.request, done.position) not in rollouts
                rollouts[done.request, done.position] = done.rollout
        return rollouts

    return run
