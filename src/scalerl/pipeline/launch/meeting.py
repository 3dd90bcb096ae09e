"""How ranks find one another: rank 0 opens a meeting at an address, the others come to it, and a process group is made.

Used by `trainers` on rank 0 and by `rank` everywhere else, whoever started those processes. On one machine everything
is bound to the loopback interface. The meeting is also where a rank leaves its last words: it lives in the process of
rank 0, which can read them when the other one is gone. Knows nothing about training.
"""

from __future__ import annotations

import errno
import os
import pickle
import socket
import time
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # public, but not declared so

from scalerl.errors import InputError, ScaleRLError
from scalerl.pipeline.fsdp import Fate, Together

LOOPBACK = "127.0.0.1"
_CONNECT = timedelta(seconds=60)
_COLLECTIVE = timedelta(minutes=30)
"""A rank that takes longer for its part of a pass is given up."""
_ORDER = timedelta(days=30)
"""A rank may wait for its next order as long as rollouts take."""
_COME_S = 600.0
"""How long rank 0 waits for the others: each reads the policy first."""
_POLL_S = 0.05
_FAILURES = "failures"


class RankLostError(ScaleRLError, RuntimeError):
    """A process that trained with others is gone. The last checkpoint is valid."""

    def __init__(self, rank: int, how: str) -> None:
        super().__init__(rank, how)
        self.rank = rank
        self.how = how

    def __str__(self) -> str:
        return f"trainer rank {self.rank} {self.how}; the run can be resumed from its last checkpoint"


@dataclass(frozen=True)
class LastWords:
    """Why a rank has ended by itself."""

    rank: int
    error: ScaleRLError | None
    """To be raised again on rank 0; None: something that was not raised on purpose."""
    summary: str
    traceback: str

    def as_error(self) -> ScaleRLError:
        error = self.error or RankLostError(self.rank, f"failed ({self.summary})")
        error.add_note(f"on trainer rank {self.rank}:\n{self.traceback}")
        return error


class Meeting:
    """Rank 0's side. `address` is what the others need."""

    def __init__(self, size: int, host: str = LOOPBACK, port: int = 0) -> None:
        """`port` 0: any free one. `InputError` if the address cannot be had."""
        listener = _listen(host, port)
        self.address = f"tcp://{host}:{listener.getsockname()[1]}"
        self._size = size
        self._host = host
        self._store = TCPStore(
            host, listener.getsockname()[1], is_master=True, wait_for_workers=False, timeout=_CONNECT,
            master_listen_fd=listener.detach(),
        )  # fmt: skip

    def wait(self, lost: Callable[[], ScaleRLError | None], patience_s: float = _COME_S) -> None:
        """Until all the others have come; `lost` says whether one of their processes is gone."""
        end_s = time.monotonic() + patience_s
        while missing := [rank for rank in range(1, self._size) if not self._store.check([_arrived(rank)])]:
            if (error := self.last_words() or lost()) is not None:
                raise error
            if time.monotonic() > end_s:
                raise RankLostError(missing[0], f"did not come to {self.address} within {patience_s:g} s")
            time.sleep(_POLL_S)

    def join(self, device: torch.device, fate: Fate) -> Together:
        """As rank 0, after `wait`."""
        return _join(0, self._size, self._store, self._host, device, fate)

    def last_words(self) -> ScaleRLError | None:
        """Of the first rank that failed: others may have failed because of it."""
        if not self._store.check([f"{_FAILURES}/1"]):
            return None
        words: LastWords = pickle.loads(b64decode(self._store.get(f"{_FAILURES}/1")))  # noqa: S301  # from a rank of this run
        return words.as_error()


class Arrival:
    """The side of every other rank: come, say so, join, and leave last words."""

    def __init__(self, rank: int, size: int, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme != "tcp" or parts.hostname is None or parts.port is None:
            raise InputError("address of a meeting", address, "tcp://HOST:PORT")
        self._rank, self._size, self._host = rank, size, parts.hostname
        self._store = TCPStore(parts.hostname, parts.port, is_master=False, wait_for_workers=False, timeout=_CONNECT)

    def join(self, device: torch.device) -> Together:
        """Say that this rank is there, and wait for the group. Call it when all that can fail alone is done."""
        self._store.set(_arrived(self._rank), "")
        return _join(self._rank, self._size, self._store, self._host, device, lambda: None)

    def fail(self, error: Exception) -> None:
        """Tell rank 0, if it is still there."""
        known = error if isinstance(error, ScaleRLError) else None
        words = LastWords(self._rank, known, f"{type(error).__name__}: {_first_line(error)}", traceback.format_exc())
        with suppress(RuntimeError):
            number = self._store.add(_FAILURES, 1)
            self._store.set(f"{_FAILURES}/{number}", b64encode(pickle.dumps(words)).decode())


def device_of(rank: int) -> torch.device:
    """One GPU for each rank where there are some; a launcher may show each of its processes only one."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _join(rank: int, size: int, store: Store, host: str, device: torch.device, fate: Fate) -> Together:
    if dist.is_initialized():
        what = "torch.distributed is in use in this process already"
        raise InputError(what, allowed="a process of its own for each rank; start scalerl without torchrun")
    backend = "nccl" if device.type == "cuda" else "gloo"
    with _loopback_only(host):
        dist.init_process_group(
            backend, store=PrefixStore("ranks", store), rank=rank, world_size=size, timeout=_COLLECTIVE
        )
        orders = dist.new_group(backend="gloo", timeout=_ORDER)
    assert orders is not None
    return Together(device, orders, fate)


def _listen(host: str, port: int) -> socket.socket:
    """A socket of our own: torch's would listen on all interfaces."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError("port for the trainer ranks, which is in use", port, "a free port, or 0 for any") from None
        raise InputError(f"address for the trainer ranks ({error.strerror})", f"{host}:{port}", "one of here") from None
    return listener


@contextmanager
def _loopback_only(host: str) -> Iterator[None]:
    """gloo asks the environment which interface to use, when a group is made."""
    name = next((name for _, name in socket.if_nameindex() if name in {"lo", "lo0"}), None)
    if host != LOOPBACK or name is None:
        yield
        return
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    os.environ["GLOO_SOCKET_IFNAME"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["GLOO_SOCKET_IFNAME"]
        else:
            os.environ["GLOO_SOCKET_IFNAME"] = before


def _arrived(rank: int) -> str:
    return f"arrived/{rank}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
