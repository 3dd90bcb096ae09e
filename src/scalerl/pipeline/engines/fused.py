"""The forward pass of Llama-like policies in float32 on a CPU, written for many short rows of a small model.

Used by forward.py in the place of the model's own forward where `is_llama_like` says so; the tests hold both to the
same log-probs. At a few hundred thousand parameters the model's forward spends more time between kernels than in them:
projections are done one by one, masks and rotary tables are built anew for each token, and attention is the kernel for
long sequences. Here projections that read the same input are one multiplication, tables are looked up, and attention is
two batched multiplications. benchmarks/engine.py prints what it is worth. Everything else uses the model's own modules.

Shapes: x = tokens of any rows, n = rows, g = prompts, p = tokens of the longest prompt, t = tokens of the longest row,
h = heads, k = heads of keys and values, d = width of a head, e = width of the model, f = inner width, v = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from scalerl.pipeline.engines.cache import SlotCache

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query [x, h, d], key [x, k, d], value [x, k, d]) -> [x, h * d]."""

_LLAMA_LIKE = (LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM)
_FIXED_ROTARY = ("default", "linear", "llama3", "yarn")


def is_llama_like(model: PreTrainedModel) -> bool:
    """Whether the lines below are this model's forward. Subclasses may have changed it, so the type must be exact."""
    if type(model) not in _LLAMA_LIKE or {parameter.dtype for parameter in model.parameters()} != {torch.float32}:
        return False
    return model.device.type == "cpu" and model.config.rope_parameters["rope_type"] in _FIXED_ROTARY


def fuse(model: PreTrainedModel) -> list[FusedLayer]:
    """Once for each model: a second time would leave the first with weights that are nobody's."""
    body: Any = model.model
    return [FusedLayer(layer) for layer in body.layers]


class FusedForward:
    """Prefill and decode. The fused weights are the model's own storage: new weights reach them by themselves."""

    def __init__(self, model: PreTrainedModel, layers: Sequence[FusedLayer], context: int) -> None:
        """`layers`: those that `fuse` has made of this model."""
        body: Any = model.model
        self._embed, self._norm, self._head = body.embed_tokens, body.norm, model.get_output_embeddings()
        self._layers = layers
        self._scaling: float = body.layers[0].self_attn.scaling
        position_1c = torch.arange(context).unsqueeze(0)
        cos_1cd, sin_1cd = body.rotary_emb(self._embed.weight, position_1c)
        self._cos_cd, self._sin_cd = cos_1cd[0].clone(), sin_1cd[0, :, : sin_1cd.shape[-1] // 2].clone()

    def prefill(self, token_gp: Tensor, last_g: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Keys and values of each layer, [g, k, p, d], and the logits after each prompt's last token."""
        num_prompts, longest = token_gp.shape
        keys: list[Tensor] = []
        values: list[Tensor] = []

        def attend(_: int, query_xhd: Tensor, key_xkd: Tensor, value_xkd: Tensor) -> Tensor:
            shape = (num_prompts, longest)
            query_ghpd, key_gkpd, value_gkpd = (
                tensor.unflatten(0, shape).transpose(1, 2) for tensor in (query_xhd, key_xkd, value_xkd)
            )
            keys.append(key_gkpd)
            values.append(value_gkpd)
            out_ghpd = functional.scaled_dot_product_attention(
                query_ghpd, key_gkpd, value_gkpd, is_causal=True, scale=self._scaling, enable_gqa=True
            )
            return out_ghpd.transpose(1, 2).reshape(num_prompts * longest, -1)

        position_x = torch.arange(longest).repeat(num_prompts)
        hidden_xe = self._run(token_gp.flatten(), position_x, attend)
        last_x = torch.arange(num_prompts) * longest + last_g
        return keys, values, self._logits(hidden_xe[last_x])

    def decode(self, token_n: Tensor, position_n: Tensor, mask_nt: Tensor, cache: SlotCache) -> Tensor:
        """Logits after one more token for each row; the cache knows where its keys and values go."""
        mask_expanded: list[Tensor] = []  # [n * k, 1, t], the same for all layers

        def attend(layer: int, query_xhd: Tensor, key_xkd: Tensor, value_xkd: Tensor) -> Tensor:
            key_nktd, value_nktd = cache.slots[layer].update(key_xkd, value_xkd)
            num_rows, kv_heads, longest, width = key_nktd.shape
            if not mask_expanded:
                mask_expanded.append(mask_nt[:, None].expand(-1, kv_heads, -1).reshape(-1, 1, longest))
            score = torch.bmm(query_xhd.reshape(num_rows * kv_heads, -1, width), key_nktd.flatten(0, 1).mT)
            weight = torch.add(mask_expanded[0], score, alpha=self._scaling).softmax(-1)
            return torch.bmm(weight, value_nktd.flatten(0, 1)).view(num_rows, -1)

        return self._logits(self._run(token_n, position_n, attend))

    def _run(self, token_x: Tensor, position_x: Tensor, attend: Attend) -> Tensor:
        hidden_xe = functional.embedding(token_x, self._embed.weight)
        cos_x1d, sin_x1d = self._cos_cd[position_x].unsqueeze(1), self._sin_cd[position_x].unsqueeze(1)
        for index, layer in enumerate(self._layers):
            query, key, value = layer.project(hidden_xe, cos_x1d, sin_x1d)
            hidden_xe += layer.out(attend(index, query, key, value))
            hidden_xe += layer.feed_forward(hidden_xe)
        return hidden_xe

    def _logits(self, hidden_xe: Tensor) -> Tensor:
        logits_xv: Tensor = self._head(_rms(hidden_xe, self._norm))
        return logits_xv


class FusedLayer:
    """One block. Heads of queries and keys lie side by side, so that one rotation turns them all."""

    def __init__(self, layer: Any) -> None:
        attention, self._mlp = layer.self_attn, layer.mlp
        self._norm, self._mlp_norm = layer.input_layernorm, layer.post_attention_layernorm
        self._weight, self._bias = _fuse(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = attention.o_proj
        self._width = attention.head_dim
        self._heads = attention.q_proj.out_features // self._width
        self._kv_heads = attention.k_proj.out_features // self._width
        self._gate_up = _fuse(self._mlp.gate_proj, self._mlp.up_proj) if hasattr(self._mlp, "gate_proj") else None

    def project(self, hidden_xe: Tensor, cos_x1d: Tensor, sin_x1d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values: [x, h, d], [x, k, d], [x, k, d]."""
        all_xa = functional.linear(_rms(hidden_xe, self._norm), self._weight, self._bias)
        all_xad = all_xa.view(len(all_xa), -1, self._width)
        plain = all_xad[:, : self._heads + self._kv_heads]
        half = self._width // 2
        turned = plain * cos_x1d
        turned[..., :half].addcmul_(plain[..., half:], sin_x1d, value=-1)
        turned[..., half:].addcmul_(plain[..., :half], sin_x1d)
        return turned[:, : self._heads], turned[:, self._heads :], all_xad[:, -self._kv_heads :]

    def feed_forward(self, hidden_xe: Tensor) -> Tensor:
        """Gate and up as one multiplication; a mixture of experts runs as it is."""
        normed_xe = _rms(hidden_xe, self._mlp_norm)
        if self._gate_up is None:
            mixed_xe: Tensor = self._mlp(normed_xe.unsqueeze(0))[0]
            return mixed_xe
        gate_xf, up_xf = functional.linear(normed_xe, *self._gate_up).chunk(2, dim=-1)
        down_xe: Tensor = self._mlp.down_proj(self._mlp.act_fn(gate_xf).mul_(up_xf))
        return down_xe


def _rms(hidden_xe: Tensor, norm: Any) -> Tensor:
    scale_x1 = hidden_xe.square().mean(-1, keepdim=True).add_(norm.variance_epsilon).rsqrt_()
    return (hidden_xe * scale_x1).mul_(norm.weight)


def _fuse(*parts: nn.Linear) -> tuple[Any, Any]:
    """One weight and bias for linear layers that read the same input; theirs become views of it."""
    biases: list[Tensor | None] = [part.bias for part in parts]
    return _join([part.weight for part in parts]), _join([bias for bias in biases if bias is not None])


def _join(parts: list[Tensor]) -> Tensor | None:
    if not parts:
        return None
    whole = torch.cat([part.detach() for part in parts])
    start = 0
    for part in parts:
        part.data = whole[start : start + len(part)]
        start += len(part)
    return whole
