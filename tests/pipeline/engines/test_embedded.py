"""The embedded engine against an ordinary forward pass of several architectures; refill, prompts read once, bits."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from scalerl.errors import InputError
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.engines.fused import is_llama_like
from scalerl.pipeline.types import EngineSettings, GroupRequest, Rollout
from scalerl.recipe.logprobs import token_logprobs

Rollouts = dict[tuple[int, int], Rollout]
MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
Drain = Callable[[EmbeddedEngine], Rollouts]

SIZES: dict[str, Any] = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
LLAMA_3_ROPE = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FUSED = {"llama-gqa-biased", "llama-tied", "llama-3-rope", "mistral", "qwen2"}
OTHERS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama-gqa-biased": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, num_key_value_heads=2, head_dim=12, attention_bias=True, mlp_bias=True)
    ),
    "llama-tied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "llama-3-rope": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA_3_ROPE)),
    "dynamic-rope": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    ),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, num_key_value_heads=2)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=None)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=8)),
    "gpt-neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.2)
    ),
}


EITHER = pytest.mark.parametrize("fused", [False, True], ids=["generic", "fused"])


def choose(monkeypatch: pytest.MonkeyPatch, *, fused: bool) -> None:
    """The model's own forward, or the fused one."""
    monkeypatch.setattr("scalerl.pipeline.engines.forward.is_llama_like", is_llama_like if fused else lambda _: False)


def recomputed(model: PreTrainedModel, prompt: tuple[int, ...], rollout: Rollout, temperature: float) -> NDArray[Any]:
    """Log-probs of the response by one plain forward pass over prompt and response."""
    ids = torch.tensor([[*prompt, *rollout.tokens.tolist()]])
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    return token_logprobs(logits, ids[0, len(prompt) :], temperature).numpy()


def check_logprobs(
    model: PreTrainedModel, requests: list[GroupRequest], rollouts: Rollouts, temperature: float
) -> None:
    for request in requests:
        for position in range(len(request.seeds)):
            rollout = rollouts[request.index, position]
            expected = recomputed(model, request.prompt_ids, rollout, temperature)
            assert rollout.logprobs[rollout.own] == pytest.approx(expected[rollout.own], abs=1e-4)


@EITHER
@pytest.mark.parametrize("name", ["llama", "moe"])
def test_logprobs_are_those_of_a_plain_forward_pass(
    name: str, fused: bool, request: pytest.FixtureRequest, settings: MakeSettings, request_of: MakeRequest,
    drain: Drain, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    choose(monkeypatch, fused=fused)
    model: PreTrainedModel = request.getfixturevalue(name)
    engine = EmbeddedEngine(model, settings(temperature=0.7, eos_id=3, phrase_ids=(8, 9), rows=5))
    requests = [request_of(index, 4, interruptions=(None, 0, 2, 5)) for index in range(6)]
    for group in requests:
        engine.submit(group)
    rollouts = drain(engine)
    assert len(rollouts) == 24
    assert len({len(rollout) for rollout in rollouts.values()}) > 3  # rows really ended at different times
    check_logprobs(model, requests, rollouts, 0.7)


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures(name: str, settings: MakeSettings, request_of: MakeRequest, drain: Drain) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = OTHERS[name]().eval()
    engine = EmbeddedEngine(model, settings(eos_id=3))
    assert (engine._forward._fused is not None) == (name in FUSED)
    requests = [request_of(index, 3) for index in range(4)]
    for group in requests:
        engine.submit(group)
    check_logprobs(model, requests, drain(engine), 1.0)
    # New weights must reach the fused projections too.
    weights = {key: value * 1.3 for key, value in model.state_dict().items()}
    engine.load_weights(weights, version=1)
    model.load_state_dict(weights)
    for group in requests:
        engine.submit(group)
    check_logprobs(model, requests, drain(engine), 1.0)


def test_a_finished_row_is_refilled_at_the_next_step(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest
) -> None:
    engine = EmbeddedEngine(llama, settings(rows=3, eos_id=3, max_response=30))
    for index in range(12):
        engine.submit(request_of(index))
    waiting, in_flight = 12, 0
    while engine.num_pending:
        admitted = min(3 - in_flight, waiting)
        waiting, in_flight = waiting - admitted, in_flight + admitted
        step = engine.step()
        assert step.sampled == in_flight  # every row that could be filled wrote a token
        in_flight -= len(step.finished)
    assert waiting == in_flight == 0


@EITHER
def test_a_prompt_goes_through_the_model_once_for_its_group(
    fused: bool, llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    choose(monkeypatch, fused=fused)
    engine = EmbeddedEngine(llama, settings(rows=3, max_response=4))
    seen: list[int] = []  # tokens that go through the first block
    engine._forward.model.get_submodule("model.layers.0.self_attn.o_proj").register_forward_pre_hook(
        lambda _, args: seen.append(args[0].numel() // args[0].shape[-1])
    )
    engine.submit(request_of(0, 7, prompt_ids=(5, 6, 7, 8, 9)))  # 3 rows: the group starts in three parts
    steps = []
    while engine.num_pending:
        steps.append(engine.step())
    assert seen == [5, *[3] * 3, *[3] * 3, *[1] * 3]
    assert [step.tokens for step in steps] == [5, 3, 3, 3, 0, 3, 3, 3, 0, 1, 1, 1]
    assert sum(step.sampled for step in steps) == 7 * 4
    # the prompt looks at 1 + 2 + .. + 5 = 15 positions; then each row reads tokens 6, 7 and 8: 21 positions
    assert sum(step.attended for step in steps) == 15 + 7 * 21


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_a_rollout_depends_on_its_seed_and_prompt_alone(
    rows: int, llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    requests = [request_of(index, 3) for index in range(4)]

    def tokens(order: list[GroupRequest], num_rows: int) -> dict[tuple[int, int], list[int]]:
        engine = EmbeddedEngine(llama, settings(eos_id=3, rows=num_rows))
        for group in order:
            engine.submit(group)
        return {key: rollout.tokens.tolist() for key, rollout in drain(engine).items()}

    assert tokens(requests, 8) == tokens(requests[::-1], rows)
    other_seeds = [replace(group, seeds=tuple(seed + 500 for seed in group.seeds)) for group in requests]
    assert tokens(requests, 8) != tokens(other_seeds, 8)


def test_the_same_run_gives_the_same_bits(
    moe: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    def run() -> list[bytes]:
        engine = EmbeddedEngine(moe, settings(eos_id=3))
        for index in range(6):
            engine.submit(request_of(index, 3))
        return [rollout.tokens.tobytes() + rollout.logprobs.tobytes() for rollout in drain(engine).values()]

    assert run() == run()


def test_the_model_and_the_process_stay_as_they_were(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    llama.train()
    before = {name: tensor.clone() for name, tensor in llama.state_dict().items()}
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    engine = EmbeddedEngine(llama, settings())
    engine.submit(request_of(0, 2))
    drain(engine)
    engine.load_weights({name: tensor + 1 for name, tensor in before.items()}, version=1)
    assert llama.training
    assert all(parameter.requires_grad for parameter in llama.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in llama.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads


@EITHER
def test_at_rest_the_memory_of_the_caches_is_given_back(
    fused: bool, llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """At once, and not when Python looks for circles the next time."""
    choose(monkeypatch, fused=fused)
    engine = EmbeddedEngine(llama, settings())
    engine.submit(request_of(0, 2))
    drain(engine)
    held = [weakref.ref(layer.keys) for layer in engine._forward.cache.slots]
    gc.disable()
    try:
        engine.rest()
        assert not any(ref() is not None for ref in held)
    finally:
        gc.enable()
    engine.submit(request_of(1, 2))
    assert len(drain(engine)) == 2


def test_a_sliding_window_inside_the_context_is_refused(settings: MakeSettings) -> None:
    model = Qwen2ForCausalLM(Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=8, max_window_layers=0))
    with pytest.raises(InputError, match="sliding window of the policy: got 8"):
        EmbeddedEngine(model, settings())


def test_injected_tokens_go_through_the_model_and_are_not_counted_as_sampled(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest
) -> None:
    engine = EmbeddedEngine(llama, settings(phrase_ids=(11, 12, 13), max_response=6))
    engine.submit(request_of(0, prompt_ids=(4, 5), interruptions=(2,)))
    steps = [engine.step() for _ in range(6)]
    assert [step.sampled for step in steps] == [1, 1, 0, 0, 0, 1]
    assert [step.tokens for step in steps] == [2, 1, 1, 1, 1, 1]
