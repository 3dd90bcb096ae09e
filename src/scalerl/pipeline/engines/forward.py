"""The two forward passes of the engine, prefill and decode, through the public interface of any transformers causal LM.

Called by the embedded engine. Owns the cache, and with `Weights` a copy of the policy, which engines that work in turn
may share; knows nothing of rollouts or sampling.

Why not `generate`: it pads every row to the longest one, gives the row of a finished rollout to nobody, cannot change
weights between two tokens, and returns when the slowest row is done. Transformers' own continuous batching refills
rows, but at 1,000 tokens per second where `generate` makes 11,000 (a Llama of 0.8M parameters, 256 rows, a CPU). So the
loop is ours; the pass itself is the model's own forward with a cache of ours, or fused.py for policies like Llama.

Shapes: n = rows in flight, g = prompts, p = tokens of the longest prompt, t = tokens of the longest row,
v = vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.engines.cache import Prompts, SlotCache
from scalerl.pipeline.engines.checks import Shapes
from scalerl.pipeline.engines.fused import FusedForward, fuse, is_llama_like
from scalerl.pipeline.products import fast_products
from scalerl.pipeline.types import EngineSettings
from scalerl.recipe.precision import fp32_logits, frozen_fp32_head, linear_head


class Weights:
    """A copy of the policy, on the device of the model unless told. `fp32_head`: its logits are computed in float32."""

    def __init__(self, model: PreTrainedModel, *, fp32_head: bool, device: torch.device | None = None) -> None:
        self.model = nn.Module.to(_own_copy(model), device or model.device)
        self.fp32_head = fp32_head
        self._parameters = dict(self.model.named_parameters())  # a walk over all modules: not at each update
        self._shapes = Shapes.of(self.model)
        self.fused_layers = fuse(self.model) if is_llama_like(self.model) else None
        self._refresh_head()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copy new weights in, in the dtype of the model; all of them or, with an error, none."""
        self._shapes.check(weights)
        for name, parameter in self._parameters.items():
            parameter.copy_(weights[name])
        self._refresh_head()

    def _refresh_head(self) -> None:
        """The FP32 head, converted once for each version. The model is ours, so its head may be replaced for good."""
        if not self.fp32_head:
            return
        head = linear_head(self.model)
        if head.weight.dtype == torch.float32:
            return
        weight_vd, bias_v = frozen_fp32_head(self.model)
        vars(head)["forward"] = lambda hidden_d: fp32_logits(hidden_d, weight_vd, bias_v)


class Forward:
    """Weights, cache, and the passes through them."""

    def __init__(self, weights: Weights, settings: EngineSettings) -> None:
        self.weights, self.model = weights, weights.model
        self.device = self.model.device
        self.context = context_of(self.model, settings)
        self._place_c = torch.arange(self.context, device=self.device)
        self._seen = torch.tensor(0.0, dtype=self.model.dtype, device=self.device)
        self._masked = torch.tensor(float("-inf"), dtype=self.model.dtype, device=self.device)
        self._num_slots = settings.rows
        self.clear_cache()
        layers = weights.fused_layers
        self._fused = None if layers is None else FusedForward(self.model, layers, self.context)

    def clear_cache(self) -> None:
        """Slots without contents."""
        layers = self.model.config.get_text_config().num_hidden_layers
        self.cache = SlotCache(layers, self._num_slots, self.context)

    def prefill(self, prompts: Sequence[tuple[int, ...]]) -> Prompts:
        """Each prompt once. They are padded on the right: a causal model never looks there."""
        lengths = [len(prompt) for prompt in prompts]
        padded = [[*prompt, *[0] * (max(lengths) - len(prompt))] for prompt in prompts]
        token_gp = torch.tensor(padded, device=self.device)
        last_g = torch.tensor(lengths, device=self.device) - 1
        if self._fused is not None:
            return Prompts(*self._fused.prefill(token_gp, last_g))
        cache = DynamicCache()
        ends, end_g = last_g.unique(return_inverse=True)
        with fast_products(self.model):
            output = self.model(input_ids=token_gp, past_key_values=cache, use_cache=True, logits_to_keep=ends)
        keys, values = zip(*((key_ghpd, value_ghpd) for key_ghpd, value_ghpd, _ in cache), strict=True)
        return Prompts(keys, values, output.logits[torch.arange(len(prompts)), end_g])

    def decode(self, token_n: NDArray[np.int64], position_n: NDArray[np.int64]) -> Tensor:
        """Logits after one more token for each of the rows 0 .. n - 1. The token stands at `position_n`."""
        longest = int(position_n.max()) + 1
        token, position = torch.from_numpy(token_n).to(self.device), torch.from_numpy(position_n).to(self.device)
        mask_nt = self._mask(position, longest)
        self.cache.aim(position, longest)
        if self._fused is not None:
            return self._fused.decode(token, position, mask_nt, self.cache)
        with fast_products(self.model):
            output = self.model(
                input_ids=token.unsqueeze(1),
                position_ids=position.unsqueeze(1),
                attention_mask=mask_nt[:, None, None, :],
                past_key_values=self.cache,
                use_cache=True,
            )
        logits_nv: Tensor = output.logits[:, -1]
        return logits_nv

    def _mask(self, position_n: Tensor, longest: int) -> Tensor:
        """To be added to the scores: each row sees itself and what came before."""
        return torch.where(self._place_c[:longest] > position_n.unsqueeze(1), self._masked, self._seen)


def context_of(model: PreTrainedModel, settings: EngineSettings) -> int:
    """Tokens of the longest sequence, prompt and response, that model and settings allow."""
    wanted = settings.max_prompt + settings.max_response
    config = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    longest = min(wanted, limit or wanted)
    if window is not None and window < longest:
        raise InputError("the sliding window of the policy", window, f"none, or at least the context of {longest}")
    if longest <= settings.max_response:
        raise InputError("the longest response", settings.max_response, f"less than the policy's context of {limit}")
    return longest


def _own_copy(model: PreTrainedModel) -> PreTrainedModel:
    """The trainer goes on changing its weights; the engine's change between two steps only."""
    with torch.no_grad():
        own: PreTrainedModel = copy.deepcopy(model)
    own.eval().requires_grad_(requires_grad=False)
    for parameter in own.parameters():
        parameter.grad = None
    _refuse_training_state(own)
    return own


def _refuse_training_state(model: nn.Module) -> None:
    if any("forward" in vars(module) for module in model.modules()):
        raise InputError("a module of the policy has its forward replaced", allowed="the policy as it was loaded")
