"""Which addresses the processes of this machine listen on, as the kernel says (Linux)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

Address = tuple[str, int]
_LISTENING = "0A"


def addresses_of_this_process() -> set[Address]:
    return addresses_of([os.getpid()])


def addresses_of(processes: Iterable[int]) -> set[Address]:
    """(host, port) of every TCP socket on which one of them listens."""
    sockets = {inode for process in processes for inode in _sockets(process)}
    return {address for inode, address in _listening().items() if inode in sockets}


def descendants(process: int) -> set[int]:
    """All processes that a process has started, and those that they have."""
    found: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                found |= {child} | descendants(child)
    return found


def _sockets(process: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(link)  # noqa: PTH115  # "socket:[123]" is no path
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _listening() -> dict[str, Address]:
    """Inode of a socket -> where it listens."""
    found = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == _LISTENING:
                host, _, port = cells[1].partition(":")
                found[cells[9]] = (socket.inet_ntop(family, _bytes(host)), int(port, 16))
    return found


def _bytes(text: str) -> bytes:
    """Words of four bytes in the order of this machine."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    return struct.pack(f"={len(words)}I", *words)
