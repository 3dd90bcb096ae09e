"""Where a mixture of experts sends its tokens: how evenly the experts of each layer are used.

Used by the learner for policies that have routers. It listens to them while the loss is computed and changes nothing.

Shapes: l = layers with a router, e = experts, x = tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Values = dict[str, float]


class Routers:
    """Counts the experts that are chosen, layer by layer."""

    def __init__(self, model: PreTrainedModel) -> None:
        recorded: dict[str, Any] = getattr(model, "_can_record_outputs", None) or {}
        recorder: Any = recorded.get("router_logits")
        found = [] if recorder is None else _modules(model, recorder)
        self._place: int = getattr(recorder, "index", 0)
        """Of the logits, in what a router returns."""
        config = model.config.get_text_config()
        self._chosen: int = getattr(config, "num_experts_per_tok", 1)
        self._counts: list[Tensor | None] = [None] * len(found)
        self._listening = False
        self._valid_x: Tensor | None = None
        for layer, module in enumerate(found):
            module.register_forward_hook(self._listener(layer))

    @property
    def found(self) -> bool:
        """Whether there are any."""
        return bool(self._counts)

    @contextmanager
    def listening(self, valid_x: Tensor | None) -> Iterator[None]:
        """Inside, passes count. `valid_x`: which tokens are no padding; None: all."""
        self._listening, self._valid_x = True, valid_x
        try:
            yield
        finally:
            self._listening, self._valid_x = False, None

    def take(self) -> Tensor | None:
        """The counts since the last time, [l, e]; None where there is no router, or nothing was routed."""
        known = [count for count in self._counts if count is not None]
        self._counts = [None] * len(self._counts)
        return torch.stack(known) if known else None

    def _listener(self, layer: int) -> Any:
        @torch.no_grad()
        def listen(_: nn.Module, __: Any, output: Any) -> None:
            if not self._listening:
                return
            logits = output[self._place] if isinstance(output, tuple) else output
            logits_xe = logits.detach().reshape(-1, logits.shape[-1])
            if self._valid_x is not None and len(self._valid_x) == len(logits_xe):
                logits_xe = logits_xe[self._valid_x]
            chosen = logits_xe.topk(self._chosen, dim=-1).indices.flatten()
            count_e = torch.bincount(chosen, minlength=logits_xe.shape[-1]).cpu()
            before = self._counts[layer]
            self._counts[layer] = count_e if before is None else before + count_e

        return listen


def describe(count_le: Tensor) -> Values:
    """For metrics.jsonl: means over the layers, and the worst one."""
    share_le = count_le.double() / count_le.sum(-1, keepdim=True).clamp_min(1)
    experts = share_le.shape[-1]
    entropy_l = torch.special.entr(share_le).sum(-1) / torch.tensor(float(experts)).log()
    load_l = share_le.amax(-1) * experts
    return {
        "router_entropy": entropy_l.mean().item(),
        "router_load": load_l.mean().item(),
        "router_load_max": load_l.max().item(),
        "router_unused": (count_le == 0).double().mean().item(),
    }


def _modules(model: nn.Module, recorder: Any) -> list[nn.Module]:
    wanted = recorder.layer_name
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, recorder.target_class) and (wanted is None or wanted in name)
    ]
