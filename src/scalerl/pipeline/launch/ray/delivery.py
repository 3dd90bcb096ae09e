"""How new weights get from the trainer's actor to the generators: through Ray's object store, or over wires.

Held by `fleet`: `pack` is called by the trainer's thread, the rest with the fleet's lock held. The same weights may be
sent twice. Knows nothing about requests and rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from scalerl.config import RunConfig
from scalerl.pipeline.launch.ray.cluster import Actor, Ref
from scalerl.pipeline.weights import Parcel
from scalerl.pipeline.wire import Backend, Exchange, Wire


class Calls(Protocol):
    """What is needed of a `Cluster`."""

    def call(self, actor: Actor, method: str, *args: Any) -> Ref: ...
    def put(self, value: Any) -> Ref:
        """Of a copy: the value may change after the call."""


class Delivery(Protocol):
    """One way."""

    def pack(self, weights: Mapping[str, Tensor], version: int) -> None:
        """These are the newest from now on. The tensors may change after the call."""

    def send(self, actor: Actor) -> None:
        """The newest to one generator; nothing, if there are none yet."""

    def forget(self, actor: Actor) -> None:
        """It is gone, or will be."""


class StoreDelivery:
    """A parcel in the object store: from this machine's to each generator's, once to every machine."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._packed: Parcel | None = None
        self._stored: Ref | None = None

    def pack(self, weights: Mapping[str, Tensor], version: int) -> None:
        self._packed = Parcel.of(weights, version, self._packed)
        self._stored = self._calls.put(self._packed)

    def send(self, actor: Actor) -> None:
        if self._stored is not None:
            self._calls.call(actor, "load", self._stored)

    def forget(self, actor: Actor) -> None: ...


class WireDelivery:
    """From this process's device to those of each generator; only the question goes through Ray."""

    def __init__(self, calls: Calls, exchange: Exchange) -> None:
        self._calls, self._exchange = calls, exchange
        self._wires: dict[Actor, Wire] = {}
        self._packed = False

    def pack(self, weights: Mapping[str, Tensor], version: int) -> None:
        self._exchange.publish(weights, version)
        self._packed = True

    def send(self, actor: Actor) -> None:
        if not self._packed:
            return
        if actor not in self._wires:
            self._wires[actor] = self._exchange.lay()
        wire = self._wires[actor]
        wire.answer()
        self._calls.call(actor, "receive", wire.end)

    def forget(self, actor: Actor) -> None:
        wire = self._wires.pop(actor, None)
        if wire is not None:
            wire.cut()


def delivery_of(run: RunConfig, calls: Calls, host: str) -> Delivery:
    """What `scale.launcher.transfer` asks for."""
    launcher, generator = run.scale.launcher, run.scale.generator
    if launcher.transfer == "store":
        return StoreDelivery(calls)
    backend: Backend = "nccl" if launcher.device == "cuda" and launcher.generator_gpus else "gloo"
    receivers = generator.vllm.tensor_parallel if generator.engine == "vllm" else 1
    return WireDelivery(calls, Exchange(host, receivers, backend))
