"""The embedded engine: new weights between two steps, stale caches, bfloat16 with the FP32 head."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.types import EngineSettings, GroupRequest, Rollout
from scalerl.policy.tiny import TinyLlama, new_policy
from scalerl.recipe.logprobs import token_logprobs

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
Drain = Callable[[EmbeddedEngine], dict[tuple[int, int], Rollout]]
SHAPE = TinyLlama(width=32, layers=2, heads=2, feed_forward=48)


@pytest.fixture
def other() -> PreTrainedModel:
    return new_policy(SHAPE, seed=77)[0]


def by_hand(models: list[PreTrainedModel], prompt: tuple[int, ...], tokens: list[int]) -> list[float]:
    """Log-probs of the tokens where token i is read, and predicted, by models[i]; one cache, never recomputed."""
    cache, logprobs = DynamicCache(), []
    read = torch.tensor([prompt])
    for model, token in zip(models, tokens, strict=True):
        with torch.no_grad():
            logits = model(input_ids=read, past_key_values=cache, use_cache=True).logits[:, -1]
        logprobs.append(float(token_logprobs(logits, torch.tensor([token]))[0]))
        read = torch.tensor([[token]])
    return logprobs


@pytest.mark.parametrize("name", ["llama", "moe"])
def test_rollouts_go_on_with_new_weights_and_old_caches(
    name: str, request: pytest.FixtureRequest, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    model: PreTrainedModel = request.getfixturevalue(name)
    generator = torch.Generator().manual_seed(5)
    new = {
        key: value + 0.1 * torch.randn(value.shape, generator=generator) for key, value in model.state_dict().items()
    }
    engine = EmbeddedEngine(model, settings(rows=3), version=4)
    engine.submit(request_of(0, 3))
    engine.submit(request_of(1, 2))
    for _ in range(5):
        engine.step()
    engine.load_weights(new, version=9)
    assert engine.version == 9
    rollouts = drain(engine)
    changed = EmbeddedEngine(model, settings())._forward.model
    changed.load_state_dict(new)
    for position in range(3):
        rollout = rollouts[0, position]
        assert rollout.versions.tolist() == [4] * 5 + [9] * 7
        expected = by_hand([model] * 5 + [changed] * 7, request_of(0).prompt_ids, rollout.tokens.tolist())
        assert rollout.logprobs == pytest.approx(expected, abs=1e-4)
        pure = by_hand([changed] * 12, request_of(0).prompt_ids, rollout.tokens.tolist())
        assert np.abs(rollout.logprobs[5:] - pure[5:]).max() > 1e-3  # the old caches do matter
    for position in range(2):  # they began after the update
        rollout = rollouts[1, position]
        assert rollout.versions.tolist() == [9] * 12
        expected = by_hand([changed] * 12, request_of(1).prompt_ids, rollout.tokens.tolist())
        assert rollout.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_prompt_read_before_the_update_writes_its_first_token_with_the_old_version(
    llama: PreTrainedModel, other: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = EmbeddedEngine(llama, settings(rows=1, max_response=4))
    engine.submit(request_of(0, 2))
    engine.step()
    engine.load_weights(dict(other.named_parameters()), version=1)
    rollout = drain(engine)[0, 1]
    assert rollout.versions.tolist() == [0, 1, 1, 1]
    expected = by_hand([llama] + [other] * 3, request_of(0).prompt_ids, rollout.tokens.tolist())
    assert rollout.logprobs == pytest.approx(expected, abs=1e-4)


def test_bfloat16_with_the_fp32_head(
    llama: PreTrainedModel, other: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    """The error of a log-prob that comes from the head alone: recompute the head in float64 from the same states."""
    errors: dict[bool, float] = {}
    for fp32_head in (False, True):
        model = copy.deepcopy(llama).bfloat16()
        engine = EmbeddedEngine(model, settings(fp32_head=fp32_head, max_response=30, rows=16))
        # Trained in float32, generated in bfloat16: the update converts, and the FP32 head must follow it.
        engine.load_weights(dict(other.named_parameters()), version=1)
        exact: list[Tensor] = []

        def remember(head: torch.nn.Module, args: tuple[Tensor], kept: list[Tensor] = exact) -> None:
            kept.append(args[0][:, -1].double() @ head.get_parameter("weight").double().T)

        head = engine._forward.model.get_output_embeddings()
        assert head is not None
        head.register_forward_pre_hook(remember)
        for index in range(16):  # different prompts: nothing is shared, and row i is slot i
            engine.submit(request_of(index))
        rollouts = drain(engine)
        logprobs = np.stack([rollouts[index, 0].logprobs[1:] for index in range(16)])
        tokens = torch.stack([torch.from_numpy(rollouts[index, 0].tokens[1:]) for index in range(16)])
        logits = torch.stack(exact[1:], dim=1)
        expected = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1).numpy()
        errors[fp32_head] = float(np.abs(logprobs - expected).max())
    assert errors[True] < 1e-5
    assert errors[False] > 1e-3
