"""A batch split into pieces that fit into memory, as tensors that a model can take.

Used by the trainer. Rollouts of like length go together, each piece is padded on the right to its longest row, and rows
times longest row stay within a budget of tokens. Only rollouts in the loss are packed, and of each only what the loss
needs: the input ends with the token before the last one that the policy chose. A causal model never looks to the right,
so padding needs no attention mask.

Shapes: r = rollouts of the micro-batch, s = tokens of its longest input, t = most own tokens of a rollout, n = own
tokens of all its rollouts, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalerl.compute import causal_attended
from scalerl.pipeline.batch import Batch
from scalerl.recipe import Plan


@dataclass(frozen=True)
class MicroBatch:
    """Some rollouts of a batch. Own tokens are closed up: injected ones have no column in anything with t."""

    input_rs: Tensor
    """Prompt and response, padded with token 0."""
    length_r: NDArray[np.int64]
    """Tokens of each input, without padding."""
    source_n: Tensor
    """Where each own token is predicted: a position in the flattened input, the one before the token itself."""
    token_n: Tensor
    """The own tokens."""
    mask_rt: Tensor
    """True for a token, False for padding; its True entries in order are the n of the other tensors."""
    generator_logprob_rt: Tensor
    advantage_r: Tensor
    weight_r: Tensor
    num_tokens: int
    """Of the inputs, without padding."""
    num_attended: int
    """Positions those tokens look at, summed (see `ForwardCost.flops`)."""


@dataclass(frozen=True)
class MicroBatches:
    """The pieces of a batch: how many is known at once, each is built when it is its turn."""

    batch: Batch
    plan: Plan
    pieces: Sequence[Sequence[int]]
    """The rows of each."""
    device: torch.device

    def __len__(self) -> int:
        return len(self.pieces)

    def __iter__(self) -> Iterator[MicroBatch]:
        return (_build(self.batch, self.plan, rows, self.device) for rows in self.pieces)


def micro_batches(batch: Batch, plan: Plan, budget: int, device: torch.device) -> MicroBatches:
    """The rollouts in the loss, longest first: if memory does not suffice, the first piece shows it."""
    rows = plan.in_loss_r.nonzero().squeeze(1).tolist()
    lengths = [input_length(batch, row) for row in rows]
    pieces = [[rows[i] for i in chosen] for chosen in pack(lengths, budget)]
    return MicroBatches(batch, plan, pieces, device)


def no_tokens(device: torch.device) -> MicroBatch:
    """A piece without meaning, the smallest that a model can read: for a rank that has nothing to do but take part."""
    one = torch.zeros(1, 1, device=device)
    return MicroBatch(
        input_rs=one.long(),
        length_r=np.ones(1, np.int64),
        source_n=one[0].long(),
        token_n=one[0].long(),
        mask_rt=one.bool().logical_not(),
        generator_logprob_rt=one,
        advantage_r=one[0],
        weight_r=one[0],
        num_tokens=0,
        num_attended=0,
    )


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices in pieces of at most `budget` tokens, padding included; a sequence beyond it is a piece of its own."""
    pieces: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not pieces or (len(pieces[-1]) + 1) * longest > budget:
            pieces.append([])
            longest = lengths[i]
        pieces[-1].append(i)
    return pieces


def input_length(batch: Batch, row: int) -> int:
    """Tokens of a rollout that the model reads."""
    return len(batch.prompt_ids_r[row]) + int(batch.rollout_r[row].own.nonzero()[0][-1])


def _build(batch: Batch, plan: Plan, rows: Sequence[int], device: torch.device) -> MicroBatch:
    rollouts = [batch.rollout_r[row] for row in rows]
    prompt_r = np.array([len(batch.prompt_ids_r[row]) for row in rows])
    length_r = np.array([input_length(batch, row) for row in rows])
    inputs = [
        np.concatenate((batch.prompt_ids_r[row], batch.rollout_r[row].tokens))[:n]
        for row, n in zip(rows, length_r, strict=True)
    ]
    own = [rollout.own.nonzero()[0] for rollout in rollouts]
    own_r = np.array([len(positions) for positions in own])
    start_r = np.arange(len(rows)) * length_r.max() + prompt_r - 1
    logprob_n = np.concatenate([rollout.logprobs[positions] for rollout, positions in zip(rollouts, own, strict=True)])
    token_n = np.concatenate([rollout.tokens[positions] for rollout, positions in zip(rollouts, own, strict=True)])
    index_r = torch.tensor(rows)
    mask_rt = _prefix(own_r)
    return MicroBatch(
        input_rs=_rows(np.concatenate(inputs).astype(np.int64), _prefix(length_r)).to(device),
        length_r=length_r,
        source_n=torch.from_numpy(np.concatenate(own) + np.repeat(start_r, own_r)).to(device),
        token_n=torch.from_numpy(token_n).to(device),
        mask_rt=torch.from_numpy(mask_rt).to(device),
        generator_logprob_rt=_rows(logprob_n, mask_rt).to(device),
        advantage_r=plan.advantage_r[index_r].to(device),
        weight_r=plan.weight_r[index_r].to(device),
        num_tokens=int(length_r.sum()),
        num_attended=sum(causal_attended(int(length)) for length in length_r),
    )


def _prefix(count_r: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The first `count` entries of each row."""
    mask: NDArray[np.bool_] = np.arange(count_r.max()) < count_r[:, None]
    return mask


def _rows(values_n: NDArray[np.generic], mask: NDArray[np.bool_]) -> Tensor:
    """Values one after the other, spread over the True entries; 0 elsewhere."""
    spread = np.zeros(mask.shape, values_n.dtype)
    spread[mask] = values_n
    return torch.from_numpy(spread)
