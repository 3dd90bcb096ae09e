"""The LM head in float32, whatever the dtype of the policy.

bfloat16 logits are rounded so coarsely that generator and trainer disagree about the probability of a token; the ratio
then measures rounding. The paper computes the head in float32 on both sides. Only the head's multiplication changes:
its weights stay the policy's own parameter (in their own dtype, tied or not) and receive their gradient as before.

Used by trainer and generator, each behind its own switch. Works with every Hugging Face causal LM whose output
embedding is a linear layer. No transformers import: only `get_output_embeddings` is asked for.

Shapes: any leading dimensions `...`, d = width, v = vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from scalerl.errors import InputError


class CausalLM(Protocol):
    """All that is needed of a policy here."""

    def get_output_embeddings(self) -> nn.Module | None:
        """The LM head."""


def fp32_logits(hidden_d: Tensor, weight_vd: Tensor, bias_v: Tensor | None = None) -> Tensor:
    """hidden x weight in float32, also under autocast, which would otherwise cast the product down again."""
    with torch.autocast(device_type=hidden_d.device.type, enabled=False):
        return nn.functional.linear(hidden_d.float(), weight_vd.float(), None if bias_v is None else bias_v.float())


def linear_head(model: CausalLM) -> nn.Linear:
    """The LM head of a policy, or an error that says why there is none to compute in float32."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise InputError("the LM head of the policy", type(head).__name__, "a linear layer, for an FP32 head")
    return head


@contextmanager
def fp32_head(model: CausalLM) -> Iterator[None]:
    """Inside, the policy's own forward computes its logits in float32, and what follows the head (a soft cap) too."""
    head = linear_head(model)
    if "forward" in vars(head):
        raise InputError("the LM head is replaced already", allowed="one fp32_head at a time")

    def forward(hidden_d: Tensor) -> Tensor:
        return fp32_logits(hidden_d, head.weight, _bias(head))

    # An attribute of the instance shadows the class's method, hooks still run, and removing it restores everything.
    vars(head)["forward"] = forward
    try:
        yield
    finally:
        del vars(head)["forward"]


def head_precision(model: CausalLM, *, fp32: bool) -> AbstractContextManager[None]:
    """`fp32_head`, or nothing, as a recipe asks."""
    return fp32_head(model) if fp32 else nullcontext()


def frozen_fp32_head(model: CausalLM) -> tuple[Tensor, Tensor | None]:
    """Weight and bias in float32 for a generator: converted once for each version of the weights, not at each token.

    Where the policy is in float32 already these are views of its own weights, not copies.
    """
    head = linear_head(model)
    bias_v = _bias(head)
    return head.weight.detach().float(), None if bias_v is None else bias_v.detach().float()


def _bias(head: nn.Linear) -> Tensor | None:
    return cast("Tensor | None", head.bias)  # torch's annotation leaves the None out
