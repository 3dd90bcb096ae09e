"""AdamW's state by parameter name, so that it can be kept in safetensors and found again in another process.

Used by the learner for snapshots and sharded checkpoints. torch's own `state_dict` numbers parameters instead of naming
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from scalerl.errors import InputError
from scalerl.pipeline.masters import PREFIX

_PARTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps for each parameter: updates made, and the means of gradient and squared gradient."""
_NUMBER = "step"
"""The part that is one number, whatever the shape of the parameter."""


@dataclass(frozen=True)
class Slot:
    """What a saved tensor is the state of."""

    parameter: str
    shaped: bool
    """It has the shape of the parameter; otherwise it is one number."""

    def shape(self, parameter: torch.Size) -> torch.Size:
        return parameter if self.shaped else torch.Size(())


def state_slot(key: str) -> Slot | None:
    """The slot of a saved name, `part/parameter`; None: no state of the trainer."""
    part, found, parameter = key.partition("/")
    if not found or part not in (*_PARTS, PREFIX.removesuffix("/")):
        return None
    return Slot(parameter, shaped=part != _NUMBER)


def save_optimiser(parameters: Mapping[str, Tensor], optimiser: AdamW) -> dict[str, Tensor]:
    """Copies, named `part/parameter`; nothing for a parameter that has had no update yet."""
    return {
        f"{part}/{name}": optimiser.state[parameter][part].detach().clone()
        for name, parameter in parameters.items()
        if optimiser.state.get(parameter)
        for part in _PARTS
    }


def restore_optimiser(parameters: Mapping[str, Tensor], optimiser: AdamW, tensors: Mapping[str, Tensor]) -> None:
    """The opposite; everything is checked before anything is changed."""
    rest = dict(tensors)
    states: dict[Tensor, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        found = {part: rest.pop(f"{part}/{name}") for part in _PARTS if f"{part}/{name}" in rest}
        shapes = [found[part].shape for part in ("exp_avg", "exp_avg_sq") if part in found]
        if found and (len(found) != len(_PARTS) or any(shape != parameter.shape for shape in shapes)):
            raise InputError("saved optimiser state of another policy: parameter", name, f"shape {[*parameter.shape]}")
        if found:
            states[parameter] = {part: tensor.clone() for part, tensor in found.items()}
    if rest:
        raise InputError("saved optimiser state of another policy: parameter", min(rest), "those of the policy")
    optimiser.state.clear()
    optimiser.state.update(states)
