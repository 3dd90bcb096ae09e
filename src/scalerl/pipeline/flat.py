"""The training pass of Llama-like policies in float32 on a CPU: every prefix once, without padding.

Used by scoring.py in the place of the model's own forward where `is_flat` says so; the tests hold both to the same
log-probs and gradients. The state of a token depends on the tokens up to it and on nothing else, and the rollouts of a
group begin alike: all with the prompt, many with the same first words. So each different prefix of a micro-batch is
computed once, and its gradient is the sum of what its rollouts send back. Only attention needs rows; everything else
works on one list of tokens. Projections that read the same input are one multiplication, and norm, rotation and gate
have their derivatives written out: autograd would keep more tensors and walk over them more often.
benchmarks/vs_trl.py prints what a step takes. The ledger counts whole rollouts all the same: what a budget buys should
depend neither on how alike they are nor on how a batch is split.

Shapes: x = different prefixes (each is a token after others), r = rollouts, s = tokens of the longest input, n = own
tokens, h = heads, k = heads of keys and values, d = width of a head (or half of it, where pairs are turned), a = heads
of all three kinds, c = all of them side by side, e = width of the model, f = inner width, v = vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from scalerl.pipeline.engines.fused import is_llama_like
from scalerl.pipeline.microbatches import MicroBatch


def is_flat(model: PreTrainedModel, longest: int) -> bool:
    """Whether the lines below are this model's forward, for inputs of this length."""
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    return is_llama_like(model) and (window is None or window >= longest)


@dataclass(frozen=True)
class Prefixes:
    """The different prefixes of some rows, and where they stand."""

    place_rs: Tensor
    """The prefix that ends at each position of the input; 0 in the padding."""
    first_x: Tensor
    """Where each prefix ends in one of its rows: a position of the flattened input."""


def prefixes(input_rs: NDArray[np.int64], length_r: NDArray[np.int64]) -> Prefixes:
    """Column by column: a prefix is the one before it and a token. Rows that have parted stay apart."""
    num_rows, longest = input_rs.shape
    place_rs = np.zeros((num_rows, longest), np.int64)
    first: list[NDArray[np.int64]] = []
    before_r = np.zeros(num_rows, np.int64)
    count, parted = 0, False
    for column in range(longest):
        rows = np.flatnonzero(length_r > column)
        if parted:
            chosen, new = rows, np.arange(len(rows))
        else:
            key = before_r[rows] * (1 << 32) + input_rs[rows, column]
            _, index, new = np.unique(key, return_index=True, return_inverse=True)
            chosen = rows[index]
            parted = len(chosen) == len(rows)
        before_r[rows] = place_rs[rows, column] = count + new
        first.append(chosen * longest + column)
        count += len(chosen)
    return Prefixes(torch.from_numpy(place_rs), torch.from_numpy(np.concatenate(first)))


def flat_logits(model: PreTrainedModel, micro: MicroBatch) -> Tensor:
    """Logits [n, v] where own tokens are predicted."""
    body: Any = model.model
    found = prefixes(micro.input_rs.numpy(), micro.length_r)
    position_1x = (found.first_x % micro.input_rs.shape[1]).unsqueeze(0)
    hidden_xe = body.embed_tokens(micro.input_rs.flatten()[found.first_x])
    cos_1xd, sin_1xd = body.rotary_emb(hidden_xe, position_1x)
    half = cos_1xd.shape[-1] // 2
    turn = (cos_1xd[0, :, None, :half], sin_1xd[0, :, None, :half])
    for layer in body.layers:
        hidden_xe = hidden_xe + _attention(layer.self_attn, _norm(hidden_xe, layer.input_layernorm), turn, found)
        hidden_xe = hidden_xe + _feed_forward(layer.mlp, _norm(hidden_xe, layer.post_attention_layernorm))
    source_n = found.place_rs.flatten()[micro.source_n]
    head: Any = model.get_output_embeddings()
    logits_nv: Tensor = head(functional.embedding(source_n, _norm(hidden_xe, body.norm)))
    return logits_nv


def _attention(attention: Any, normed_xe: Tensor, turn: tuple[Tensor, Tensor], found: Prefixes) -> Tensor:
    """Rows are put together for it, and taken apart again: a lookup each, like an embedding's."""
    width = attention.head_dim
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    num_kv = attention.k_proj.out_features // width
    num_query = attention.q_proj.out_features // width
    turned_xc: Tensor = _apply(_Rotate, _linear(normed_xe, parts), *turn, num_query + num_kv)
    rows_rsad = functional.embedding(found.place_rs, turned_xc).unflatten(-1, (-1, width))
    query, key, value = rows_rsad.transpose(1, 2).split((num_query, num_kv, num_kv), dim=1)
    out_rhsd = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=attention.scaling, enable_gqa=num_query != num_kv
    )
    out_xc = functional.embedding(found.first_x, out_rhsd.transpose(1, 2).flatten(0, 1).flatten(1))
    out_xe: Tensor = attention.o_proj(out_xc)
    return out_xe


def _feed_forward(mlp: Any, normed_xe: Tensor) -> Tensor:
    """A mixture of experts, or another gate, runs as it is."""
    if not hasattr(mlp, "gate_proj") or not isinstance(mlp.act_fn, (nn.SiLU, SiLUActivation)):
        mixed_xe: Tensor = mlp(normed_xe.unsqueeze(0))[0]
        return mixed_xe
    down_xe: Tensor = mlp.down_proj(_apply(_Gate, _linear(normed_xe, (mlp.gate_proj, mlp.up_proj))))
    return down_xe


def _linear(input_xe: Tensor, parts: tuple[nn.Linear, ...]) -> Tensor:
    """Layers that read the same input, side by side."""
    biases: list[Tensor | None] = [part.bias for part in parts]
    known = [bias for bias in biases if bias is not None]
    weight = torch.cat([part.weight for part in parts])
    return functional.linear(input_xe, weight, torch.cat(known) if known else None)


def _norm(hidden_xe: Tensor, norm: Any) -> Tensor:
    return _apply(_RmsNorm, hidden_xe, norm.weight, norm.variance_epsilon)


def _apply(function: Any, *arguments: Any) -> Tensor:
    """`Function.apply` has no types."""
    result: Tensor = function.apply(*arguments)
    return result


class _RmsNorm(torch.autograd.Function):
    """y = x * s * w with s = 1 / sqrt(mean(x^2) + eps)."""

    @staticmethod
    def forward(ctx: Any, hidden_xe: Tensor, weight_e: Tensor, eps: float) -> Tensor:
        scale_x1 = torch.linalg.vector_norm(hidden_xe, dim=-1, keepdim=True)
        scale_x1.square_().div_(hidden_xe.shape[-1]).add_(eps).rsqrt_()
        unit_xe = hidden_xe * scale_x1
        ctx.save_for_backward(unit_xe, scale_x1, weight_e)
        normed_xe: Tensor = unit_xe * weight_e
        return normed_xe

    @staticmethod
    def backward(ctx: Any, grad_xe: Tensor) -> tuple[Tensor, Tensor, None]:
        """With u = x * s: dw = sum(g * u), dx = s * (g * w - u * mean(g * w * u))."""
        unit_xe, scale_x1, weight_e = ctx.saved_tensors
        product_xe = grad_xe * unit_xe
        mean_x1 = (product_xe @ weight_e).unsqueeze(1).div_(len(weight_e))
        input_xe = (grad_xe * weight_e).addcmul_(unit_xe, mean_x1, value=-1).mul_(scale_x1)
        return input_xe, product_xe.sum(0), None


class _Rotate(torch.autograd.Function):
    """Rotary embedding of the first heads; the others, the values, stay as they are."""

    @staticmethod
    def forward(ctx: Any, heads_xc: Tensor, cos_x1d: Tensor, sin_x1d: Tensor, num_turned: int) -> Tensor:
        ctx.save_for_backward(cos_x1d, sin_x1d)
        ctx.num_turned = num_turned
        return _turn(heads_xc, cos_x1d, sin_x1d, num_turned)

    @staticmethod
    def backward(ctx: Any, grad_xc: Tensor) -> tuple[Tensor, None, None, None]:
        """The rotation back."""
        cos_x1d, sin_x1d = ctx.saved_tensors
        return _turn(grad_xc, cos_x1d, -sin_x1d, ctx.num_turned), None, None, None


def _turn(heads_xc: Tensor, cos_x1d: Tensor, sin_x1d: Tensor, num_turned: int) -> Tensor:
    turned_xc = heads_xc.clone()
    half = cos_x1d.shape[-1]
    old = heads_xc.view(len(heads_xc), -1, 2, half)[:, :num_turned]
    new = turned_xc.view(len(heads_xc), -1, 2, half)[:, :num_turned]
    new.mul_(cos_x1d.unsqueeze(1))
    new[:, :, 0].addcmul_(old[:, :, 1], sin_x1d, value=-1)
    new[:, :, 1].addcmul_(old[:, :, 0], sin_x1d)
    return turned_xc


class _Gate(torch.autograd.Function):
    """silu(gate) * up, of both side by side."""

    @staticmethod
    def forward(ctx: Any, both_xf: Tensor) -> Tensor:
        gate_xf, up_xf = both_xf.chunk(2, dim=-1)
        silu_xf = functional.silu(gate_xf)
        ctx.save_for_backward(both_xf, silu_xf)
        return silu_xf * up_xf

    @staticmethod
    def backward(ctx: Any, grad_xf: Tensor) -> Tensor:
        both_xf, silu_xf = ctx.saved_tensors
        gate_xf, up_xf = both_xf.chunk(2, dim=-1)
        out_xf = torch.empty_like(both_xf)
        out_gate_xf, out_up_xf = out_xf.chunk(2, dim=-1)
        torch.mul(grad_xf, silu_xf, out=out_up_xf)
        torch.ops.aten.silu_backward.grad_input(grad_xf * up_xf, gate_xf, grad_input=out_gate_xf)
        return out_xf
