"""The frames of a W&B transaction log (`run-ID.wandb`): bytes in, whole messages out.

Called by `wandb_offline`; knows nothing about messages. The file is a LevelDB log behind a header of seven bytes, and a
frame is

    checksum of kind and data (4 bytes)   length (2)   kind (1: whole, 2: first, 3: middle, 4: last)   data (length)

in blocks of 32 KiB that no frame crosses. wandb no longer ships a reader (and the one it had stopped at the first
damage), hence this one: behind a damaged stretch it goes on at the next frame whose checksum is right, even when bytes
are missing and the blocks have shifted.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from scalerl.readers.logs.records import Tally

_IDENT = b":W&B"
_HEAD = 7
_BLOCK_BYTES = 1 << 15
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_SEEDS = {kind: zlib.crc32(bytes([kind])) for kind in (_WHOLE, _FIRST, _MIDDLE, _LAST)}
_SEARCH_BYTES = 1 << 20
_LARGEST_BYTES = 64 << 20
"""A message that grows beyond this (a table, a media file) holds no metrics and is dropped, for the sake of memory."""

Frame = tuple[int, int, bytes]
"""Offset, kind, data."""


def is_transaction_log(head: bytes) -> bool:
    return head.startswith(_IDENT)


def messages(stream: BinaryIO, size: int, label: str, tally: Tally) -> Iterator[tuple[int, bytes]]:
    """Each intact message with the offset of its end. `size` is that of the file when it was opened."""
    pending = _Parts()
    for start, kind, data in _frames(stream, size, label, tally):
        begins = kind in {_WHOLE, _FIRST}
        if pending.parts and (begins or start - pending.end >= _HEAD):  # less is the padding of a block
            pending.drop("damaged bytes", label, tally)
        if not begins and not pending.parts:  # the beginning was lost
            tally.skip("damaged bytes", f"{label}, byte {start + 1:,}", _HEAD + len(data))
            continue
        pending.add(start, data)
        if kind in {_WHOLE, _LAST}:
            yield pending.end, b"".join(pending.parts)
            pending = _Parts()
        elif pending.end - pending.start > _LARGEST_BYTES:
            pending.drop("bytes of oversized messages", label, tally)
    if pending.parts:
        pending.drop("bytes of an unfinished last message", label, tally)


@dataclass
class _Parts:
    """A message whose last part has not come yet."""

    parts: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def add(self, start: int, data: bytes) -> None:
        self.start = self.start if self.parts else start
        self.parts.append(data)
        self.end = start + _HEAD + len(data)

    def drop(self, what: str, label: str, tally: Tally) -> None:
        tally.skip(what, f"{label}, byte {self.start + 1:,}", self.end - self.start)
        self.parts = []


def _frames(stream: BinaryIO, size: int, label: str, tally: Tally) -> Iterator[Frame]:
    position = _HEAD  # a damaged header is no reason to give up
    while position < size:
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        if left < _HEAD:
            position += left
            continue
        data = _data(stream, position)
        if data is not None:
            yield position, data[0], data[1]
            position += _HEAD + len(data[1])
            continue
        found = _next_frame(stream, position + 1, size)
        torn = found >= size and _is_torn(stream, position, size)
        what = "bytes of an unfinished last message" if torn else "damaged bytes"
        if found - position >= _HEAD or found >= size:  # less is the padding of a block that has shifted
            tally.skip(what, f"{label}, byte {position + 1:,}", found - position)
        position = found


def _data(stream: BinaryIO, position: int) -> tuple[int, bytes] | None:
    """Kind and data of the frame at an offset; None when it is damaged or incomplete."""
    stream.seek(position)
    head = stream.read(_HEAD)
    if len(head) < _HEAD:
        return None
    checksum, length, kind = struct.unpack("<IHB", head)
    if kind not in _SEEDS:
        return None
    data = stream.read(length)
    return (kind, data) if len(data) == length and zlib.crc32(data, _SEEDS[kind]) == checksum else None


def _is_torn(stream: BinaryIO, position: int, size: int) -> bool:
    """Whether a frame was begun here that the file has no room for."""
    stream.seek(position)
    head = stream.read(_HEAD)
    if len(head) < _HEAD:
        return True
    _, length, kind = struct.unpack("<IHB", head)
    return kind in _SEEDS and position + _HEAD + length > size


def _next_frame(stream: BinaryIO, start: int, size: int) -> int:
    """The first offset from `start` on with an intact frame; the size when there is none."""
    while start + _HEAD <= size:
        stream.seek(start)
        data = stream.read(_SEARCH_BYTES)
        if len(data) < _HEAD:
            break
        cells = np.frombuffer(data, dtype=np.uint8)
        kinds, lengths = cells[6:], cells[4:-2] + 256 * cells[5:-1].astype(np.int64)
        fits = (kinds >= _WHOLE) & (kinds <= _LAST) & (lengths <= _BLOCK_BYTES - _HEAD)
        for offset in np.flatnonzero(fits):
            if _data(stream, start + int(offset)) is not None:
                return start + int(offset)
        start += len(data) - _HEAD + 1
    return size
