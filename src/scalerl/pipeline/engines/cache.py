"""The KV cache of the engine: one slot for each different text, each at its own length, as a transformers `Cache`.

Written by the forward passes, copied by the engine when texts part. Knows nothing of tokens, seeds or rollouts.
Transformers' own caches hold rows of one common length; here a slot that is free is given to another text at once.

Slots in use are always 0 .. n - 1, so that every view below is a slice and nothing is gathered. What a slot holds
beyond its text's length is left over from earlier ones, and finite: the mask gives it the weight zero.

Shapes: r = slots, n = slots in use, h = heads of keys and values, c = capacity in tokens, t = tokens of the longest
text in use, g = prompts, p = tokens of the longest prompt, d = width of a head, v = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


@dataclass(frozen=True)
class Prompts:
    """Prompts that have gone through the model: keys and values of each layer, [g, h, p, d], padded on the right."""

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    logits_gv: Tensor
    """For the first token of each response."""

    def only(self, index: int, length: int) -> Prompts:
        """A copy of one prompt, without its padding."""
        keys, values = ([layer[index, None, :, :length].clone() for layer in part] for part in (self.keys, self.values))
        return Prompts(keys, values, self.logits_gv[index, None].clone())


@dataclass
class _Places:
    """Where the next tokens go. Layers share this and not the cache: a layer that knew the cache that holds it would
    keep gigabytes after everybody else has forgotten them, until Python looks for circles."""

    num_slots: int
    capacity: int
    num_rows: int = 0
    longest: int = 0
    write_index: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, [r, h, c, d]. The shape comes from the first prompt: any architecture will do."""

    def __init__(self, places: _Places) -> None:
        CacheLayerMixin.__init__(self)
        self._places = places
        self.keys: Tensor
        self.values: Tensor

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Room for every slot, in the dtype and on the device of the states [..., h, p, d]."""
        self.keys = _room(key_states, self._places.num_slots, self._places.capacity)
        self.values = _room(value_states, self._places.num_slots, self._places.capacity)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append one token to each row, and return the views [n, h, t, d] to attend to."""
        index = self._places.write_index
        _flat(self.keys).index_copy_(0, index, key_states.reshape(len(index), -1))
        _flat(self.values).index_copy_(0, index, value_states.reshape(len(index), -1))
        num_rows, longest = self._places.num_rows, self._places.longest
        return self.keys[:num_rows, :, :longest], self.values[:num_rows, :, :longest]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - the signature is transformers'
        return self._places.longest, 0

    def get_seq_length(self) -> int:
        return self._places.longest

    def get_max_length(self) -> int:
        return self._places.capacity


class SlotCache(Cache):
    """All layers, and where the next tokens go."""

    def __init__(self, num_layers: int, num_slots: int, capacity: int) -> None:
        self._places = _Places(num_slots, capacity)
        self._first_rh: Tensor | None = None  # line of `_flat` at which a head of a slot begins
        self.slots = [SlotLayer(self._places) for _ in range(num_layers)]
        super().__init__(layers=[*self.slots])

    def aim(self, position_n: Tensor, longest: int) -> None:
        """The next `update` writes the token of row i at position_n[i]; rows then have up to `longest` tokens."""
        places = self._places
        if self._first_rh is None:
            keys_rhcd = self.slots[0].keys
            lines = torch.arange(0, keys_rhcd[..., 0].numel(), places.capacity, device=keys_rhcd.device)
            self._first_rh = lines.view(keys_rhcd.shape[:2])
        places.num_rows, places.longest = len(position_n), longest
        places.write_index = (self._first_rh[: places.num_rows] + position_n.unsqueeze(1)).flatten()

    def put(self, first: int, prompts: Prompts) -> None:
        """Copy prompts into the slots from `first` on."""
        places = slice(first, first + len(prompts.logits_gv))
        for slot, key_ghpd, value_ghpd in zip(self.slots, prompts.keys, prompts.values, strict=True):
            if not slot.is_initialized:
                slot.lazy_initialization(key_ghpd, value_ghpd)
            slot.keys[places, :, : key_ghpd.shape[2]] = key_ghpd
            slot.values[places, :, : value_ghpd.shape[2]] = value_ghpd

    def copy(self, source: NDArray[np.int64], target: NDArray[np.int64], longest: int) -> None:
        """Copy slots of up to `longest` tokens to other places; nobody is in both lists."""
        device = self.slots[0].keys.device
        here, there = torch.from_numpy(source).to(device), torch.from_numpy(target).to(device)
        for slot in self.slots:
            for tensor in (slot.keys, slot.values):
                tensor[there, :, :longest] = tensor[here, :, :longest]

    def contents(self, num_rows: int, longest: int) -> tuple[list[Tensor], list[Tensor]]:
        """Copies of keys and values in use, [n, h, t, d] for each layer."""
        used = [slot for slot in self.slots if slot.is_initialized]
        keys = [slot.keys[:num_rows, :, :longest].clone() for slot in used]
        return keys, [slot.values[:num_rows, :, :longest].clone() for slot in used]

    def fill(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """What `contents` gave, into fresh slots."""
        for slot, key_nhtd, value_nhtd in zip(self.slots, keys, values, strict=True):
            slot.lazy_initialization(key_nhtd, value_nhtd)
            slot.keys[: len(key_nhtd), :, : key_nhtd.shape[2]] = key_nhtd
            slot.values[: len(value_nhtd), :, : value_nhtd.shape[2]] = value_nhtd


def _room(like_hpd: Tensor, num_slots: int, capacity: int) -> Tensor:
    heads, _, width = like_hpd.shape[-3:]
    return like_hpd.new_zeros(num_slots, heads, capacity, width)


def _flat(tensor_rhcd: Tensor) -> Tensor:
    """[r * h * c, d]: one line for each token of a head."""
    return tensor_rhcd.view(-1, tensor_rhcd.shape[-1])
