"""The cost of a forward pass, read off a policy's own parameters.

Asked by the trainer, the generator and the evaluation for the compute ledger. Counts what multiplies a token: matrices.
Norms, biases, rotary embeddings and softmax are left out, as is usual; so are embedding tables, which are only looked
up. Of a mixture of experts only the experts that a token is sent to count, and the router in full.
"""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from scalerl.compute import ForwardCost
from scalerl.errors import InputError

_NUM_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_CHOSEN_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
"""What model configs call them."""


def forward_cost(model: PreTrainedModel) -> ForwardCost:
    """Works for any decoder of transformers with the usual names in its config."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    head_width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return ForwardCost(
        active_parameters=_dense_parameters(model) + _chosen_expert_parameters(model),
        layers=config.num_hidden_layers,
        attention_width=heads * head_width,
    )


def _dense_parameters(model: nn.Module) -> int:
    return sum(size for is_expert, size in _matrices(model) if not is_expert)


def _chosen_expert_parameters(model: PreTrainedModel) -> int:
    in_experts = sum(size for is_expert, size in _matrices(model) if is_expert)
    if not in_experts:
        return 0
    chosen, experts = _setting(model, _CHOSEN_EXPERTS), _setting(model, _NUM_EXPERTS)
    return in_experts * chosen // experts


def _matrices(model: nn.Module) -> list[tuple[bool, int]]:
    """Whether it belongs to experts, and its size. A head that shares the embedding's weights is found as a head."""
    return [
        ("experts" in path.split("."), parameter.numel())
        for path, module in model.named_modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
        if parameter.ndim >= 2
    ]


def _setting(model: PreTrainedModel, names: tuple[str, ...]) -> int:
    config = model.config.get_text_config()
    for name in names:
        if isinstance(value := getattr(config, name, None), int):
            return value
    raise InputError(
        "the policy's config does not say how many experts there are", allowed=f"one of {', '.join(names)}"
    )
