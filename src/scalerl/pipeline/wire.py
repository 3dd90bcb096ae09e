"""Weights straight from the trainer to the processes of a generator, without a detour through files or a store: NCCL
from GPU to GPU, gloo otherwise.

A wire joins the trainer, which is rank 0, with the processes of one generator, and with nobody else: a generator that
dies cuts its own wire only. Used by the `ray` launcher (`launch.ray.delivery` holds the trainer's ends, an engine its
own). The generator asks and the trainer answers with the newest weights: the version, then tensor after tensor, so that
the receiving side never holds more than it wants to. Nothing but numbers travels: no pickles.

Groups are made of a backend alone, beside the process group that FSDP2 or vLLM have in the same process.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # public, but not declared so

_CONNECT = timedelta(seconds=60)
_PATIENCE = timedelta(minutes=30)
"""A generator may take long to start; one that has died is noticed by other means."""
_NOTHING_NEW = -1

Backend = Literal["nccl", "gloo"]
Layout = tuple[tuple[str, str, tuple[int, ...]], ...]
"""Name, dtype and shape of every tensor, in the order in which they are sent."""
Plain = list[Any]
"""An `End` in plain values: remote calls of vLLM know no others."""


@dataclass(frozen=True)
class End:
    """What the processes of a generator need to find the wire, and to read what comes."""

    host: str
    port: int
    name: str
    size: int
    """Processes on this wire, the trainer's included."""
    backend: Backend
    layout: Layout

    def plain(self) -> Plain:
        return list(astuple(self))

    @classmethod
    def of(cls, plain: Plain) -> End:
        host, port, name, size, backend, layout = plain
        return cls(host, port, name, size, backend, tuple((key, kind, tuple(shape)) for key, kind, shape in layout))


@dataclass
class _Copies:
    """One version of all weights, as the trainer keeps it."""

    version: int
    tensors: list[Tensor]
    num_readers: int = 0
    """Wires that are sending it."""


class Exchange:
    """The trainer's side: the newest weights, and a wire for each generator. `receivers`: processes of a generator."""

    def __init__(self, host: str, receivers: int, backend: Backend) -> None:
        listener = socket.create_server((host, 0))  # torch's own would listen on all interfaces
        self._host, self._port = host, listener.getsockname()[1]
        self._meeting = TCPStore(
            host, self._port, is_master=True, wait_for_workers=False, timeout=_CONNECT,
            master_listen_fd=listener.detach(),
        )  # fmt: skip
        self._size, self._backend = 1 + receivers, backend
        self._lock = threading.Lock()
        self._newest: _Copies | None = None
        self._last: _Copies | None = None
        """Before the newest: on a CPU its memory is used again, because new memory costs more than the copies. A GPU
        has other things to do with its memory, and gives it out at no cost."""
        self._layout: Layout = ()
        self._num_wires = 0

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """These are the newest from now on; they are copied, because the next step changes them."""
        layout = tuple(
            (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in weights.items()
        )
        copies = self._copied(weights, layout)
        _finish(copies[0].device)
        with self._lock:
            self._last = self._newest if self._backend == "gloo" else None
            self._newest, self._layout = _Copies(version, copies), layout

    def _copied(self, weights: Mapping[str, Tensor], layout: Layout) -> list[Tensor]:
        with self._lock:
            spare = None
            if self._last is not None and not self._last.num_readers and layout == self._layout:
                spare, self._last = self._last.tensors, None
        if spare is None:
            device = "cpu" if self._backend == "gloo" else "cuda"
            return [tensor.detach().to(device=device, copy=True).contiguous() for tensor in weights.values()]
        return [copy.copy_(tensor.detach()) for copy, tensor in zip(spare, weights.values(), strict=True)]

    def lay(self) -> Wire:
        """A wire to a new generator; weights must have been published."""
        self._num_wires += 1
        name = f"wire-{self._num_wires}"
        end = End(self._host, self._port, name, self._size, self._backend, self._layout)
        return Wire(end, self)

    @contextmanager
    def newest(self) -> Iterator[tuple[int, list[Tensor]]]:
        """The version and its tensors, which stay as they are inside."""
        with self._lock:
            copies = self._newest
            assert copies is not None, "nothing was published"
            copies.num_readers += 1
        try:
            yield copies.version, copies.tensors
        finally:
            with self._lock:
                copies.num_readers -= 1


class Wire:
    """The trainer's end. A thread of its own waits for a slow generator, so that nobody else has to."""

    def __init__(self, end: End, exchange: Exchange) -> None:
        self.end = end
        self._exchange = exchange
        self._questions: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._group: Any = None
        threading.Thread(target=self._live, name=end.name, daemon=True).start()

    def answer(self) -> None:
        """The generator asks, or is about to: it gets what is newest then."""
        self._questions.put(True)

    def cut(self) -> None:
        """The generator is gone, or will be."""
        self._questions.put(False)
        if self._group is not None:
            with suppress(RuntimeError):  # NCCL would wait for the dead; gloo has noticed by itself
                self._group.abort()

    def _live(self) -> None:
        sent = _NOTHING_NEW
        with suppress(RuntimeError):  # the other side is gone: whoever looks after the generators hears of it too
            self._group = _group(self.end, 0)
            while self._questions.get():
                with self._exchange.newest() as (version, tensors):
                    device = tensors[0].device
                    header = torch.tensor([version if version > sent else _NOTHING_NEW], device=device)
                    _broadcast(self._group, header)
                    for tensor in tensors if version > sent else ():
                        _broadcast(self._group, tensor)
                    _finish(device)
                sent = max(sent, version)


class Receiving:
    """A generator's end, in the process whose rank on the wire is `rank`, from 1 on."""

    def __init__(self, end: End, rank: int, device: torch.device) -> None:
        self.end = end
        self._kept: list[Tensor] = []
        self._device = torch.device("cpu") if end.backend == "gloo" else device
        self._group = _group(end, rank)

    @classmethod
    def at(cls, end: End, before: Receiving | None, rank: int, device: torch.device) -> Receiving:
        """The one that there was before, if it is at the same wire."""
        return before if before is not None and before.end == end else cls(end, rank, device)

    def receive(self, *, borrowed: bool = False) -> tuple[int, Iterator[tuple[str, Tensor]]] | None:
        """Ask once: the version, and the tensors, all of which must be taken; None: there are no newer ones.

        `borrowed`: they are copied before the next question, whose tensors then come in the same memory."""
        header = torch.zeros(1, dtype=torch.int64, device=self._device)
        _broadcast(self._group, header)
        version = int(header.item())
        if version == _NOTHING_NEW:
            return None
        if borrowed and not self._kept:
            self._kept = list(self._room())
        return version, self._tensors(self._kept if borrowed else self._room())

    def _room(self) -> Iterator[Tensor]:
        """For one tensor after the other."""
        for _, dtype, shape in self.end.layout:
            yield torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)

    def _tensors(self, room: Iterable[Tensor]) -> Iterator[tuple[str, Tensor]]:
        for (name, _, _), tensor in zip(self.end.layout, room, strict=True):
            _broadcast(self._group, tensor)
            yield name, tensor


def _group(end: End, rank: int) -> Any:
    """Waits for all others of the wire, each with a connection of its own: who waits on one keeps others from using it.

    Private names of torch: nothing public makes a group beside the default one, of processes that have none in common.
    """
    meeting = TCPStore(end.host, end.port, is_master=False, wait_for_workers=False, timeout=_CONNECT)
    store = PrefixStore(end.name, meeting)
    if end.backend == "nccl":
        nccl = dist.ProcessGroupNCCL.Options()
        nccl._timeout = _PATIENCE
        return dist.ProcessGroupNCCL(store, rank, end.size, nccl)
    gloo: Any = getattr(dist.ProcessGroupGloo, "_Options")()  # noqa: B009  # not declared
    gloo._timeout = _PATIENCE
    gloo._devices = [dist.ProcessGroupGloo.create_device(hostname=_own_address(end.host))]
    return dist.ProcessGroupGloo(store, rank, end.size, gloo)


def _own_address(host: str) -> str:
    """Of the interface that leads to the trainer: on the loopback there nothing listens anywhere else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        address: str = probe.getsockname()[0]
        return address


def _broadcast(group: Any, tensor: Tensor) -> None:
    group.broadcast([tensor], dist.BroadcastOptions()).wait()  # from rank 0


def _finish(device: torch.device) -> None:
    """What was begun on a GPU is done."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
