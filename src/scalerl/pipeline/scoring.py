"""Log-probs and entropies of the tokens in a micro-batch under a policy: the trainer's half of the importance ratio.

Used by the trainer for the policy and for a frozen reference. Works with every causal LM of transformers. Logits exist
only where a token of the loss is predicted: with a large vocabulary they would fill the memory otherwise.

Shapes: as in `microbatches`; d = width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.flat import flat_logits
from scalerl.pipeline.microbatches import MicroBatch
from scalerl.pipeline.products import fast_products
from scalerl.recipe import head_precision, logprobs_and_entropy


@dataclass(frozen=True)
class Scoring:
    """How log-probs are computed; the same for policy and reference."""

    temperature: float
    fp32_head: bool
    mixed_precision: bool
    """bfloat16 autocast."""
    flat: bool = False
    """By the forward pass of `flat`; only for policies for which `is_flat` is true."""


def score(model: PreTrainedModel, micro: MicroBatch, scoring: Scoring) -> tuple[Tensor, Tensor]:
    """Log-prob and entropy of each own token, [n] each; the log-prob carries the gradient."""
    device = micro.input_rs.device.type
    if scoring.flat:
        return logprobs_and_entropy(flat_logits(model, micro), micro.token_n, scoring.temperature)
    with (
        head_precision(model, fp32=scoring.fp32_head),
        only_at(model, micro.source_n),
        torch.autocast(device, torch.bfloat16, enabled=scoring.mixed_precision),
        fast_products(model),
    ):
        logits_nv = model(input_ids=micro.input_rs, use_cache=False).logits
    return logprobs_and_entropy(logits_nv, micro.token_n, scoring.temperature)


def spread(values_n: Tensor, mask_rt: Tensor) -> Tensor:
    """Values of the own tokens as rows; 0 in the padding."""
    return values_n.new_zeros(mask_rt.shape).masked_scatter(mask_rt, values_n)


@contextmanager
def only_at(model: PreTrainedModel, source_n: Tensor) -> Iterator[None]:
    """Inside, the LM head sees only these positions of the flattened input, and gives logits [n, v].

    A hook and not `logits_to_keep`, which not every model and version takes position by position.
    """
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Module):
        raise InputError("the policy has no LM head", type(model).__name__, "a causal LM")

    def choose(_: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor]:
        # a lookup like an embedding's: its backward is much faster than that of indexing
        return (nn.functional.embedding(source_n, arguments[0].flatten(0, 1)),)

    handle = head.register_forward_pre_hook(choose)
    try:
        yield
    finally:
        handle.remove()
