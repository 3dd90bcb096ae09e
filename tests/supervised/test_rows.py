"""Packed documents are as if each were alone: same losses, same gradients; and a model that mixes them is found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
)

from scalerl.supervised.corpus import Corpus
from scalerl.supervised.rows import RowTensors, keeps_apart, row_loss, row_tensors

from .small import new_model

VOCABULARY = 50
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.3,
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
}  # fmt: skip
CPU = torch.device("cpu")


def models() -> dict[str, PreTrainedModel]:
    torch.manual_seed(0)
    return {
        "sdpa": new_model(VOCABULARY, attn_implementation="sdpa"),
        "eager": new_model(VOCABULARY, attn_implementation="eager"),
        "window": MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4)).eval(),
        "experts": MixtralForCausalLM(MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2)).eval(),
        "gpt2": GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3)
        ).eval(),
    }


KINDS = ("sdpa", "eager", "window", "experts", "gpt2")


def corpus(lengths: tuple[int, ...] = (9, 5, 12)) -> Corpus:
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    learnt = rng.random(starts[-1]) < 0.6
    learnt[starts[:-1]] = False
    learnt[starts[1:] - 1] = True
    return Corpus(rng.integers(VOCABULARY, size=starts[-1]).astype(np.int32), learnt, starts)


def gradients(model: PreTrainedModel, rows: list[RowTensors]) -> tuple[float, torch.Tensor]:
    model.zero_grad()
    total = 0.0
    for row in rows:
        loss, _ = row_loss(model, row, low_precision=False)
        loss.backward()
        total += loss.item()
    return total, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_row_is_the_sum_of_its_documents(kind: str) -> None:
    model, traces = models()[kind], corpus()
    packed, packed_grad = gradients(model, [row_tensors(traces, (0, 1, 2), CPU)])
    alone, alone_grad = gradients(model, [row_tensors(traces, (number,), CPU) for number in range(3)])
    assert packed == pytest.approx(alone, rel=1e-5)
    assert torch.allclose(packed_grad, alone_grad, rtol=1e-3, atol=1e-4)
    row = row_tensors(traces, (0, 1, 2), CPU)
    mixed = RowTensors(row.input_1t, torch.arange(26).unsqueeze(0), row.source_n, row.token_n)
    leaked, _ = gradients(model, [mixed])
    assert abs(leaked - alone) > 1e-3 * alone  # the comparison above can fail


def test_the_loss_is_that_of_transformers() -> None:
    """On one document, against the library's own mean over labels."""
    model, traces = models()["sdpa"], corpus((20,))
    row = row_tensors(traces, (0,), CPU)
    labels = torch.where(torch.from_numpy(traces.learnt.copy()), row.input_1t, -100)
    expected = model(input_ids=row.input_1t, labels=labels).loss * traces.num_learnt
    assert row_loss(model, row, low_precision=False)[0].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_keep_documents_apart(kind: str) -> None:
    assert keeps_apart(models()[kind])


class Mixing(LlamaForCausalLM):
    """Forgets where documents begin."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **others: Any) -> Any:  # noqa: ARG002
        positions = torch.arange(input_ids.shape[1]).unsqueeze(0)
        return super().forward(input_ids=input_ids, position_ids=positions, **others)


def test_models_that_do_not() -> None:
    kind: Any = Mixing
    mixing = kind(new_model(VOCABULARY).config)
    mixing.load_state_dict(new_model(VOCABULARY).state_dict())
    assert not keeps_apart(mixing.eval())
    mamba = MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    assert not keeps_apart(MambaForCausalLM(mamba).eval())


def test_experts_have_a_load_balancing_loss_and_dense_models_none() -> None:
    row = row_tensors(corpus(), (0, 1, 2), CPU)
    found = models()
    balance = row_loss(found["experts"], row, low_precision=False)[1]
    assert balance is not None
    assert balance.item() > 0
    assert row_loss(found["sdpa"], row, low_precision=False)[1] is None


def test_low_precision_is_close() -> None:
    model, row = models()["sdpa"], row_tensors(corpus(), (0, 1, 2), CPU)
    exact, rounded = (row_loss(model, row, low_precision=low)[0].item() for low in (False, True))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.05)
