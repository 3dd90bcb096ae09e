"""The state of the embedded engine as JSON values and tensors, and back: rows, caches, queue, and the prompt kept.

Called by the engine's `snapshot` and `restore`. The weights are not in it. Everything is a copy: the engine may go on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from scalerl.errors import InputError
from scalerl.pipeline.engines.cache import Prompts, SlotCache
from scalerl.pipeline.engines.rows import Rows
from scalerl.pipeline.engines.waiting import Leftover, Waiting
from scalerl.pipeline.packing import request_from_json, request_to_json
from scalerl.pipeline.types import EngineSettings, Snapshot


def settings_values(settings: EngineSettings) -> dict[str, Any]:
    """As JSON gives them back."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return values


def save(rows: Rows, waiting: Waiting, cache: SlotCache) -> Snapshot:
    """Everything in flight and queued."""
    longest = int(rows.position_n.max()) + 1 if rows.num_rows else 0
    keys, values = cache.contents(rows.num_slots, longest)
    tensors = {f"rows.{name}": tensor for name, tensor in rows.tensors().items()}
    tensors |= _numbered("slots.keys", keys) | _numbered("slots.values", values)
    leftover = waiting.leftover
    if leftover is not None:
        prompt = leftover.prompt
        tensors |= _numbered("prompt.keys", prompt.keys) | _numbered("prompt.values", prompt.values)
        tensors["prompt.logits"] = prompt.logits_gv
    state: dict[str, Any] = {
        "waiting": [request_to_json(request) for request in waiting.requests],
        "started": waiting.started,
        "prompt_version": None if leftover is None else leftover.version,
    }
    return Snapshot(state, {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def load(snapshot: Snapshot, rows: Rows, cache: SlotCache, device: torch.device) -> Waiting:
    """Rows and caches into parts that are new and empty; what waits."""
    of_rows = {name: tensor for name, tensor in snapshot.tensors.items() if name.startswith("rows.")}
    rows.load({name.removeprefix("rows."): tensor for name, tensor in of_rows.items()})
    tensors = {name: tensor.to(device) for name, tensor in snapshot.tensors.items() if name not in of_rows}
    keys = _unnumbered("slots.keys", tensors)
    if keys:
        cache.fill(keys, _unnumbered("slots.values", tensors))
    waiting = Waiting(map(request_from_json, snapshot.values["waiting"]), snapshot.values["started"])
    version = snapshot.values["prompt_version"]
    if version is not None:
        keys, values = _unnumbered("prompt.keys", tensors), _unnumbered("prompt.values", tensors)
        waiting.leftover = Leftover(Prompts(keys, values, tensors["prompt.logits"]), version)
    return waiting


def check_settings(snapshot: Snapshot, settings: EngineSettings) -> None:
    """An engine with other settings would go on differently, or not at all."""
    saved, own = snapshot.values["settings"], settings_values(settings)
    for name, value in own.items():
        if saved.get(name) != value:
            raise InputError(f"{name} in the snapshot of the engine", saved.get(name), f"as in the settings, {value}")


def _numbered(name: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"{name}.{layer}": tensor for layer, tensor in enumerate(tensors)}


def _unnumbered(name: str, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    count = sum(key.startswith(f"{name}.") for key in tensors)
    return [tensors[f"{name}.{layer}"] for layer in range(count)]
