"""Float32 copies of weights that are kept in a lower precision: what the optimiser really changes.

Used by the learner. A step of RL moves a weight by about the learning rate, which is far below the spacing of bfloat16
numbers: added to bfloat16 weights it would be rounded away. Weights in float32 are their own masters. Of weights that
are spread over ranks each rank has the masters of its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from scalerl.errors import InputError

PREFIX = "master/"


class Masters:
    """The tensors that the optimiser works on, by parameter name."""

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], local: Callable[[Tensor], Tensor], *, saved: bool = True
    ) -> None:
        """`local`: the part of a tensor that this rank has, in the memory of the tensor. `saved`: the policy's folder
        has these parameters; that of a policy with adapters has only what they add up to."""
        self._parameters = parameters
        self._local = local
        own = {name: local(parameter) for name, parameter in parameters.items()}
        self.tensors: dict[str, Tensor] = {
            name: tensor if tensor.dtype == torch.float32 else tensor.detach().float() for name, tensor in own.items()
        }
        self._low = [name for name, tensor in self.tensors.items() if tensor is not own[name]]
        self._kept = self._low if saved else list(self.tensors)
        self._apart = [name for name, tensor in self.tensors.items() if tensor is not parameters[name]]

    def take_gradients(self) -> list[Tensor]:
        """Hand the gradients of the policy over; the masters that have one."""
        for name in self._apart:
            grad = self._parameters[name].grad
            self.tensors[name].grad = None if grad is None else self._local(grad).float()
        return [tensor for tensor in self.tensors.values() if tensor.grad is not None]

    @torch.no_grad()
    def give_weights(self) -> None:
        """Round the masters into the policy."""
        for name in self._low:
            self._local(self._parameters[name]).copy_(self.tensors[name])

    def save(self) -> dict[str, Tensor]:
        """Only what the policy's own folder does not hold."""
        return {f"{PREFIX}{name}": self.tensors[name].detach().clone() for name in self._kept}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take what `save` gave out of `tensors`."""
        for name in self._kept:
            saved = tensors.pop(f"{PREFIX}{name}", None)
            if saved is None or saved.shape != self.tensors[name].shape:
                raise InputError("saved float32 weights of another policy: parameter", name, "those of the policy")
            self.tensors[name].copy_(saved)
        self.give_weights()
