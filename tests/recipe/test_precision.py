"""The FP32 head on real transformers models: tied and untied, with a soft cap, under autocast, and put back after."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from scalerl.errors import InputError
from scalerl.recipe import fp32_logits, frozen_fp32_head, head_precision, token_logprobs
from scalerl.recipe.precision import fp32_head

HF: Any = transformers  # its models are not annotated
SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
IDS = torch.randint(3, 40, (4, 12), generator=torch.Generator().manual_seed(1))
BOTH = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def llama(*, tied: bool) -> Any:
    torch.manual_seed(0)
    return HF.LlamaForCausalLM(HF.LlamaConfig(**SIZES, tie_word_embeddings=tied, initializer_range=0.5)).bfloat16()


def hidden_states(model: Any) -> Tensor:
    found: Tensor = model.model(input_ids=IDS).last_hidden_state
    return found


@BOTH
def test_logits_are_the_float32_product_of_the_models_own_hidden_states(tied: bool) -> None:
    model = llama(tied=tied)
    default = model(input_ids=IDS).logits
    with fp32_head(model):
        logits = model(input_ids=IDS).logits
    assert (default.dtype, logits.dtype) == (torch.bfloat16, torch.float32)
    weight = model.get_output_embeddings().weight
    torch.testing.assert_close(logits, hidden_states(model).float() @ weight.float().T)
    assert (logits - default.float()).abs().max() > 1e-3


@BOTH
def test_log_probs_come_closer_to_the_exact_ones(tied: bool) -> None:
    model = llama(tied=tied)
    exact = hidden_states(model).double() @ model.get_output_embeddings().weight.double().T
    wanted = exact.log_softmax(-1).gather(-1, IDS[..., None])[..., 0]

    def error(*, fp32: bool) -> float:
        with torch.no_grad(), head_precision(model, fp32=fp32):
            return float((token_logprobs(model(input_ids=IDS).logits, IDS) - wanted).abs().mean())

    assert error(fp32=True) < 1e-5
    assert error(fp32=False) > 100 * error(fp32=True)


@BOTH
def test_the_policys_own_weights_get_the_gradient(tied: bool) -> None:
    model = llama(tied=tied)
    with fp32_head(model):
        torch.autograd.backward(token_logprobs(model(input_ids=IDS).logits, IDS).sum())
    weight = model.get_output_embeddings().weight
    assert (weight is model.get_input_embeddings().weight) is tied
    assert weight.dtype == weight.grad.dtype == torch.bfloat16
    assert weight.grad.abs().max() > 0
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_autocast_does_not_cast_the_head_down_again() -> None:
    model = llama(tied=False).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(input_ids=IDS).logits.dtype == torch.bfloat16
        with fp32_head(model):
            assert model(input_ids=IDS).logits.dtype == torch.float32


def test_everything_is_put_back_even_after_an_error() -> None:
    model = llama(tied=True)
    before = model(input_ids=IDS).logits
    with pytest.raises(RuntimeError, match="stop"), fp32_head(model):
        raise RuntimeError("stop")
    torch.testing.assert_close(model(input_ids=IDS).logits, before, rtol=0, atol=0)
    assert "forward" not in vars(model.get_output_embeddings())


def test_one_at_a_time() -> None:
    model = llama(tied=True)
    with fp32_head(model), pytest.raises(InputError, match="replaced already"), fp32_head(model):
        pass


def test_a_soft_cap_after_the_head_still_applies() -> None:
    torch.manual_seed(0)
    config = HF.Gemma2Config(**SIZES, head_dim=16, final_logit_softcapping=2.0, attn_implementation="eager")
    model = HF.Gemma2ForCausalLM(config).bfloat16()
    with fp32_head(model):
        logits = model(input_ids=IDS).logits
    assert logits.dtype == torch.float32
    assert logits.abs().max() <= 2.0
    torch.testing.assert_close(logits, model(input_ids=IDS).logits.float(), rtol=0.05, atol=0.05)


@BOTH
def test_a_generators_copy_of_the_head_gives_the_same_logits(tied: bool) -> None:
    model = llama(tied=tied)
    weight, bias = frozen_fp32_head(model)
    assert (weight.dtype, weight.requires_grad, bias) == (torch.float32, False, None)
    with torch.no_grad(), fp32_head(model):
        torch.testing.assert_close(fp32_logits(hidden_states(model), weight), model(input_ids=IDS).logits)


def test_a_float32_policy_is_not_copied() -> None:
    model = llama(tied=False).float()
    assert frozen_fp32_head(model)[0].data_ptr() == model.get_output_embeddings().weight.data_ptr()


class Headed:
    """A policy with any head."""

    def __init__(self, head: nn.Module | None) -> None:
        self.head = head

    def get_output_embeddings(self) -> nn.Module | None:
        return self.head


def test_a_bias_is_kept() -> None:
    head = nn.Linear(4, 3, bias=True).bfloat16()
    hidden = torch.ones(2, 4, dtype=torch.bfloat16)
    with fp32_head(Headed(head)):
        logits = head(hidden)
    torch.testing.assert_close(logits, hidden.float() @ head.weight.float().T + head.bias.float())
    weight, bias = frozen_fp32_head(Headed(head))
    torch.testing.assert_close(fp32_logits(hidden, weight, bias), logits)


@pytest.mark.parametrize("head", [None, nn.Sequential()])
def test_a_policy_without_a_linear_head_is_refused(head: nn.Module | None) -> None:
    with pytest.raises(InputError, match=f"got '{type(head).__name__}'; allowed: a linear layer"):
        frozen_fp32_head(Headed(head))
