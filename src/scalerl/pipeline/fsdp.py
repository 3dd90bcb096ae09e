"""Several ranks that train one policy: FSDP2 over torch.distributed, gloo between CPUs and NCCL between GPUs.

Made by `launch.meeting.join`; used by the learner through `Ranks`. Each block of the policy is a unit of `fully_shard`:
its parameters lie in parts on all ranks and are put together for the block's forward and backward. Gradients are added
up, not averaged: the weights of the rollouts have the denominators of the whole batch inside. The optimiser works on
the local parts, which are plain tensors.

Two groups of the same processes: one for tensors of the policy, and one on the CPU for orders and small sums. On the
second one a rank may wait long, while rank 0 waits for rollouts or evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from scalerl.errors import ScaleRLError
from scalerl.pipeline.ranks import Order, Stop

Item = TypeVar("Item")

Fate = Callable[[], ScaleRLError | None]
"""Why another rank is gone; None: nothing is known. May wait a little for the answer."""


class Together:
    """One of several ranks; the process group is there already."""

    def __init__(self, device: torch.device, orders: dist.ProcessGroup, fate: Fate) -> None:
        self._device = device
        self._orders = orders
        self._fate = fate
        self._mesh = DeviceMesh(device.type, list(range(dist.get_world_size())))
        self._broken = False

    @property
    def size(self) -> int:
        return dist.get_world_size()

    @property
    def group(self) -> dist.ProcessGroup:
        return self._orders

    def tell(self, orders: Sequence[Order]) -> None:
        received: list[Order | None] = [None]
        dist.scatter_object_list(received, [None, *orders[1:]], src=0, group=self._orders)

    def listen(self) -> Order:
        """The other side of `tell`: wait for the next order."""
        received: list[Order | None] = [None]
        dist.scatter_object_list(received, None, src=0, group=self._orders)
        return cast("Order", received[0])

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except ScaleRLError:
            raise
        except RuntimeError:  # also torch.distributed's own: what a collective raises when a rank is gone
            self._broken = True
            if (loss := self._fate()) is not None:
                raise loss from None
            raise
        except BaseException:
            self._broken = True
            raise

    def shard(self, model: PreTrainedModel) -> None:
        nn.Module.to(model, self._device)
        for block in blocks(model):
            self._shard(block)
        self._shard(model)

    def local(self, tensor: Tensor) -> Tensor:
        return cast("DTensor", tensor.detach()).to_local()

    def spread(self, part: Tensor, like: Tensor) -> Tensor:
        assert isinstance(like, DTensor)
        return DTensor.from_local(
            part, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )

    def whole(self, tensor: Tensor) -> Tensor:
        """On rank 0, in the memory of its CPU; on the others nothing is kept."""
        assert isinstance(tensor, DTensor)
        found = tensor.full_tensor()
        return found.cpu() if dist.get_rank() == 0 else found.new_empty(0)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        square = torch.nn.utils.get_total_norm(gradients).to(self._device).double().square()
        dist.all_reduce(square)
        return square.sqrt().float()

    def most(self, number: int) -> int:
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self._orders)
        return int(found)

    def gather(self, item: Item) -> list[Item]:
        found: list[Item | None] = [None] * self.size
        dist.all_gather_object(found, item, group=self._orders)
        return cast("list[Item]", found)

    def close(self) -> None:
        """Rank 0 ends the work of all, unless they cannot hear it any more; then every rank leaves by itself."""
        if dist.get_rank() == 0 and not self._broken:
            with suppress(RuntimeError):  # a rank that is gone already is missed no more
                self.tell([Stop()] * self.size)
        if self._broken:  # or the others would wait in a collective for as long as this process lives
            for group in (self._orders, dist.group.WORLD):
                if group is not None:
                    group.abort()
        dist.destroy_process_group()

    def _shard(self, module: nn.Module) -> None:
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)  # bfloat16 gradients are not added up in bfloat16
        sharded = fully_shard(module, mesh=self._mesh, reshard_after_forward=True, mp_policy=policy)
        assert isinstance(sharded, FSDPModule)
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(enable=True)
        # An expert that no token of this rank was sent to has no gradient here, but perhaps elsewhere.
        sharded.set_reduce_scatter_unused_params(reduce_scatter_unused_params=True)


def blocks(model: PreTrainedModel) -> list[nn.Module]:
    """The transformer blocks of a policy: what transformers itself never splits between devices."""
    names = set(model._no_split_modules or ())  # the only place where transformers says it
    return [module for module in model.modules() if type(module).__name__ in names]
