"""The flat pass is the model's own forward: the same log-probs and gradients, with every prefix computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.flat import is_flat, prefixes
from scalerl.pipeline.microbatches import MicroBatch, micro_batches
from scalerl.pipeline.scoring import Scoring, score
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.recipe import Plan
from scalerl.tasks import Verdict

SIZES: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "initializer_range": 0.5,
}  # fmt: skip
MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "biases": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "tied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "gelu": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, hidden_act="gelu")),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=3)),
}
PLAIN = Scoring(temperature=0.7, fp32_head=True, mixed_precision=False)


def policy(name: str) -> PreTrainedModel:
    torch.manual_seed(1)
    model: PreTrainedModel = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms are ones and biases zeros in a new model: that would hide errors
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def rollout(tokens: list[int], injected: tuple[int, ...] = ()) -> Rollout:
    own = np.array([i not in injected for i in range(len(tokens))])
    zeros = np.zeros(len(tokens), np.float32)
    return Rollout(np.array(tokens), zeros, np.zeros(len(tokens), np.int32), own, truncated=False, interrupted=False)


def micro_batch() -> MicroBatch:
    """Two groups of different prompts; rollouts that begin alike, are equal, or part at once; injected tokens."""
    first = [rollout([3, 4, 5, 6]), rollout([3, 4, 7]), rollout([3, 4, 5, 6]), rollout([9, 2, 2], injected=(1,))]
    second = [rollout([3, 4, 5, 1, 1, 1]), rollout([8])]
    groups = [
        Group(
            GroupRequest(index, "train", 0, "a", prompt, tuple(range(len(answers))), (None,) * len(answers)),
            tuple(answers),
            (Verdict("correct"),) * len(answers),
        )
        for index, (prompt, answers) in enumerate([((7, 8, 2), first), ((7, 8), second)])
    ]
    num = len(first) + len(second)
    plan = Plan(torch.zeros(num), torch.zeros(num), torch.ones(num), torch.ones(num, dtype=torch.bool), 2, num)
    (micro,) = micro_batches(make_batch(groups), plan, 1000, torch.device("cpu"))
    return micro


def scored(model: PreTrainedModel, scoring: Scoring) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    model.zero_grad()
    logprob_n, entropy_n = score(model, micro_batch(), scoring)
    (logprob_n * torch.linspace(-1, 2, len(logprob_n))).sum().backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return logprob_n.detach(), entropy_n, {name: grad.clone() for name, grad in found.items() if grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_log_probs_and_gradients_are_those_of_the_model(name: str) -> None:
    model = policy(name)
    assert is_flat(model, 32)
    logprob_n, entropy_n, gradients = scored(model, PLAIN)
    flat_logprob_n, flat_entropy_n, flat_gradients = scored(model, replace(PLAIN, flat=True))
    torch.testing.assert_close(flat_logprob_n, logprob_n, rtol=0, atol=2e-5)
    torch.testing.assert_close(flat_entropy_n, entropy_n, rtol=0, atol=2e-5)
    assert gradients.keys() == flat_gradients.keys()
    for key, gradient in gradients.items():
        assert (flat_gradients[key] - gradient).norm() <= 1e-4 * gradient.norm(), key


def test_prefixes_are_counted_once() -> None:
    rows = np.array([[7, 8, 3, 4], [7, 8, 3, 5], [7, 8, 9, 0], [1, 8, 3, 4]])
    found = prefixes(rows, np.array([4, 4, 3, 4]))
    # 7 and 1; 78 and 18; 783, 789 and 183; the last column has parted: 7834, 7835, 1834
    assert len(found.first_x) == 2 + 2 + 3 + 3
    tokens = [rows.flatten()[position] for position in found.first_x.tolist()]
    for row, length in zip(range(4), (4, 4, 3, 4), strict=True):
        assert [tokens[place] for place in found.place_rs[row, :length].tolist()] == rows[row, :length].tolist()
    assert found.place_rs[0, 2] == found.place_rs[1, 2]
    assert found.place_rs[0, 2] != found.place_rs[3, 2]  # the same token after another prefix


def test_rows_that_have_parted_stay_apart() -> None:
    found = prefixes(np.array([[1, 5, 5], [2, 5, 5]]), np.array([3, 3]))
    assert found.place_rs.flatten().unique().tolist() == list(range(6))


@pytest.mark.parametrize(("window", "flat"), [(8, False), (32, True), (None, True)])
def test_a_sliding_window_must_hold_the_whole_input(window: int | None, flat: bool) -> None:
    model = MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=2, sliding_window=window))
    assert is_flat(model, 32) is flat


def test_other_precisions_use_the_model_itself() -> None:
    model: Any = policy("llama")
    assert not is_flat(model.to(torch.bfloat16), 32)
