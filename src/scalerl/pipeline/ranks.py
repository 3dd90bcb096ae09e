"""What a learner asks of the processes that train one policy together: the smallest surface, and the case of one.

Rank 0 is where the session runs. It tells the others what to do next (`tell`, then the same call on every rank), so all
of them make the same calls in the same order: each of `gather`, `most`, `norm` and `whole` is made by all or by none.
`Alone` is the one rank of a run on one device: nothing is spread, nothing is said. `fsdp.Together` is several. Knows no
algorithm and no launcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from transformers import PreTrainedModel

from scalerl.pipeline.types import Group
from scalerl.recipe import Plan

Item = TypeVar("Item")


@dataclass(frozen=True)
class Learn:
    """One step, with the groups that fell to this rank."""

    groups: tuple[Group, ...]
    plan: Plan
    """Of their rollouts alone, with the denominators of the whole batch."""
    rate: float


@dataclass(frozen=True)
class Collect:
    """The whole weights, for rank 0."""


@dataclass(frozen=True)
class Write:
    """The state of the trainer, each rank its part."""

    folder: Path


@dataclass(frozen=True)
class Read:
    """Go on from a checkpoint."""

    folder: Path


@dataclass(frozen=True)
class Stop:
    """The end."""


Order = Learn | Collect | Write | Read | Stop


class Ranks(Protocol):
    """The processes that train together, seen from one of them."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def group(self) -> ProcessGroup | None:
        """For talking about files; None: there is nobody to talk to."""

    def tell(self, orders: Sequence[Order]) -> None:
        """Rank 0 says what comes next, to each rank its own; the first order is its own and is not sent."""

    def guarded(self) -> AbstractContextManager[None]:
        """Inside, the loss of a rank is an error that says which one and how."""

    def shard(self, model: PreTrainedModel) -> None:
        """Spread the parameters, in place; gradients add up over the ranks from now on."""

    def local(self, tensor: Tensor) -> Tensor:
        """What this rank has of a parameter or gradient: the same memory."""

    def spread(self, part: Tensor, like: Tensor) -> Tensor:
        """The opposite: a tensor that is spread as `like` is, of which this rank has this part, in its memory."""

    def whole(self, tensor: Tensor) -> Tensor:
        """A parameter put together again, for rank 0."""

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """Of all gradients, of which this rank has these parts."""

    def most(self, number: int) -> int:
        """The largest number that a rank has."""

    def gather(self, item: Item) -> list[Item]:
        """Everybody's item, in the order of ranks. Tensors in it are on the CPU."""


class Alone:
    """One rank."""

    size = 1
    group = None

    def tell(self, orders: Sequence[Order]) -> None:
        """There is nobody to tell."""

    def guarded(self) -> AbstractContextManager[None]:
        return nullcontext()

    def shard(self, model: PreTrainedModel) -> None:
        """The parameters stay as they are."""

    def local(self, tensor: Tensor) -> Tensor:
        return tensor

    def spread(self, part: Tensor, like: Tensor) -> Tensor:
        del like
        return part

    def whole(self, tensor: Tensor) -> Tensor:
        return tensor

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        return torch.nn.utils.get_total_norm(gradients)

    def most(self, number: int) -> int:
        return number

    def gather(self, item: Item) -> list[Item]:
        return [item]
