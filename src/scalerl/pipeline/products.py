"""bfloat16 products on a CPU that has no units for them.

Used by the trainer's scoring and by the embedded engine around the model's own forward. There a linear layer of torch
takes twenty to thirty times as long in bfloat16 as in float32. Multiplying in float32 and rounding the result gives
the same numbers (bfloat16 factors are exact in float32, and sums are float32 in both), at about the speed of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def fast_products(model: nn.Module) -> AbstractContextManager[object]:
    """Inside, linear layers of a bfloat16 policy on such a CPU multiply in float32; nothing changes elsewhere."""
    weight = next(model.parameters())
    slow = weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and not _has_bfloat16_units()
    return _RoundedProducts() if slow else nullcontext()


def rounded_linear(input_d: Tensor, weight_vd: Tensor, bias_v: Tensor | None = None) -> Tensor:
    """A linear layer in float32, rounded to the dtype of the input."""
    product_v = functional.linear(input_d.float(), weight_vd.float(), None if bias_v is None else bias_v.float())
    return product_v.to(input_d.dtype)


class _RoundedProducts(TorchFunctionMode):
    """Catches `functional.linear`, wherever in the model it is called."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is functional.linear and args and args[0].dtype == torch.bfloat16:
            return rounded_linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _has_bfloat16_units() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
