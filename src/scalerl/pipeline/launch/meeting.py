"""How ranks find one another: rank 0 opens a meeting at an address, the others come to it, and a process group is made.

Used by `trainers` on rank 0 and by `rank` everywhere else, whoever started those processes. On one machine everything
is bound to the loopback interface. The meeting is also where a rank leaves its last words: it lives in the process of
rank 0, which can read them when the other one is gone. They are JSON, not a pickle: whoever reaches the address can
write there. Knows nothing about training.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # public, but not declared so

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError, StorageError, TrainingError
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
_SENT = {kind.__name__: kind for kind in (InputError, MissingDependencyError, StorageError, TrainingError)}
"""Errors that rank 0 raises again as they were."""


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

    @classmethod
    def of(cls, rank: int, error: Exception) -> LastWords:
        """Call it while the error is being handled."""
        known = error if isinstance(error, ScaleRLError) and type(error).__name__ in _SENT else None
        return cls(rank, known, f"{type(error).__name__}: {_first_line(error)}", traceback.format_exc())

    def to_json(self) -> str:
        arguments = [] if self.error is None else [_plain(item) for item in _arguments(self.error)]
        kind = None if self.error is None else type(self.error).__name__
        return json.dumps([self.rank, kind, arguments, self.summary, self.traceback])

    @classmethod
    def from_json(cls, text: str | bytes) -> LastWords:
        """What nobody of ours has written is a rank that is lost."""
        try:
            rank, kind, arguments, summary, where = json.loads(text)
            error = None if kind is None else _SENT[kind](*arguments)
            return cls(int(rank), error, str(summary), str(where))
        except (ValueError, TypeError, KeyError, RecursionError):
            return cls(0, None, "its last words cannot be read", "")

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
        return LastWords.from_json(self._store.get(f"{_FAILURES}/1")).as_error()


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
        words = LastWords.of(self._rank, error)
        with suppress(RuntimeError):
            number = self._store.add(_FAILURES, 1)
            self._store.set(f"{_FAILURES}/{number}", words.to_json())


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


def _arguments(error: ScaleRLError) -> tuple[object, ...]:
    """With which it was made; an OSError keeps its file name out of `args`."""
    reduced = error.__reduce__()
    return tuple(reduced[1])


def _plain(value: object) -> object:
    """Arguments of errors are for messages: what JSON does not know is said as it would be printed."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
