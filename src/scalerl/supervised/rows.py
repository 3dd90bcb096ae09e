"""One row through the model: the loss of what is learnt in it, and whether documents in a row see each other.

Used by `learner` and `session`. Documents of a row are told apart by their positions alone, which begin again at 0 with
each. With no attention mask and no cache transformers builds from them what the attention needs: a block-diagonal
causal mask for sdpa and eager, lengths for flash attention, and for layers with a sliding window both limits at once. A
mask of our own would be wrong for flash attention and for windows. But not every architecture follows: layers with a
recurrent state know no positions. So `keeps_apart` tries it out on the model itself, and where it fails every document
gets a row of its own.

Shapes: t = tokens of the row, n = tokens with a loss, v = vocabulary.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from scalerl.pipeline.scoring import only_at
from scalerl.supervised.corpus import Corpus
from scalerl.supervised.plan import Row

PROBE_TOKENS = 12
MOST_LEAK = 0.02
"""Largest share of what one document changes in the next without packing that packing may leave: rounding of kernels
that depend on what else is in the batch."""


@dataclass(frozen=True)
class RowTensors:
    """The documents of a row, one after the other, without padding."""

    input_1t: Tensor
    position_1t: Tensor
    source_n: Tensor
    """Where each learnt token is predicted: the position before it."""
    token_n: Tensor


def row_tensors(corpus: Corpus, row: Row, device: torch.device) -> RowTensors:
    pieces = [slice(int(corpus.starts[document]), int(corpus.starts[document + 1])) for document in row]
    tokens = np.concatenate([corpus.tokens[piece] for piece in pieces]).astype(np.int64)
    places = np.concatenate([np.arange(piece.stop - piece.start) for piece in pieces])
    learnt = np.flatnonzero(np.concatenate([corpus.learnt[piece] for piece in pieces]))
    return RowTensors(
        input_1t=torch.from_numpy(tokens).unsqueeze(0).to(device),
        position_1t=torch.from_numpy(places).unsqueeze(0).to(device),
        source_n=torch.from_numpy(learnt - 1).to(device),  # the first token of a document is never learnt
        token_n=torch.from_numpy(tokens[learnt]).to(device),
    )


def row_loss(model: PreTrainedModel, row: RowTensors, *, low_precision: bool) -> tuple[Tensor, Tensor | None]:
    """Cross-entropy summed over the learnt tokens; and of a mixture of experts the weighted load-balancing loss."""
    coefficient = _router_coefficient(model)
    extra: dict[str, Any] = {"output_router_logits": True} if coefficient else {}
    if _takes(model, "position_ids"):
        extra["position_ids"] = row.position_1t
    with (
        only_at(model, row.source_n),
        torch.autocast(row.input_1t.device.type, torch.bfloat16, enabled=low_precision),
    ):
        out = model(input_ids=row.input_1t, use_cache=False, **extra)
    loss = functional.cross_entropy(out.logits.float(), row.token_n, reduction="sum")
    return loss, coefficient * out.aux_loss if coefficient else None


def _router_coefficient(model: PreTrainedModel) -> float:
    """Of the load-balancing loss; 0 for dense models."""
    if not _takes(model, "output_router_logits"):
        return 0.0
    return float(getattr(model.config.get_text_config(), "router_aux_loss_coef", 0.0) or 0.0)


def _takes(model: PreTrainedModel, name: str) -> bool:
    return name in inspect.signature(model.forward).parameters


@torch.no_grad()
def keeps_apart(model: PreTrainedModel) -> bool:
    """Whether the second document of a row is the same whatever the first one says.

    "The same" is measured by what the first one changes where both are one document.
    """
    if not _takes(model, "position_ids"):
        return False
    vocabulary = model.config.get_text_config().vocab_size
    first, other, second = (_sample(vocabulary, seed) for seed in range(3))
    again = torch.arange(PROBE_TOKENS)
    apart = torch.cat([again, again]).unsqueeze(0)
    joined = torch.arange(2 * PROBE_TOKENS).unsqueeze(0)
    leak, effect = (
        (_second_half(model, first, second, position) - _second_half(model, other, second, position)).abs().max()
        for position in (apart, joined)
    )
    return bool(leak <= MOST_LEAK * effect)


def _sample(vocabulary: int, seed: int) -> Tensor:
    return torch.randint(vocabulary, (PROBE_TOKENS,), generator=torch.Generator().manual_seed(seed))


def _second_half(model: PreTrainedModel, first: Tensor, second: Tensor, position_1t: Tensor) -> Tensor:
    input_1t = torch.cat([first, second]).unsqueeze(0).to(model.device)
    out = model(input_ids=input_1t, position_ids=position_1t.to(model.device), use_cache=False)
    logits: Tensor = out.logits[0, PROBE_TOKENS:].float()
    return logits
