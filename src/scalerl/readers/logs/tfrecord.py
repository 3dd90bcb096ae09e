"""The frames of a TFRecord file, which is what a TensorBoard event file is: bytes in, payloads out.

Called by `tensorboard`; knows nothing about events. A frame is

    length (8 bytes)   checksum of the length (4)   payload (length)   checksum of the payload (4)

The tensorboard package has a reader for this, but it stops at the first damaged frame and says neither where nor how
much is lost behind it. Here a damaged stretch is searched for the next frame whose length has the right checksum, and
counted in bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO, NamedTuple

import numpy as np

from scalerl.readers.logs.crc32c import crc32c, crc32c_of_windows, masked
from scalerl.readers.logs.records import Tally

_HEAD, _TAIL = 12, 4
_BATCH_FRAMES, _BATCH_BYTES = 4096, 1 << 20
_SEARCH_BYTES = 1 << 20
_LARGEST_BYTES = 64 << 20
"""No scalar is that big: larger payloads (videos, embeddings) are jumped over unread, for the sake of memory."""


class _Frame(NamedTuple):
    start: int
    payload: bytes
    checksum: int


def payloads(stream: BinaryIO, size: int, label: str, tally: Tally) -> Iterator[tuple[int, bytes]]:
    """Each intact payload with the offset of its end. `size` is that of the file when it was opened."""
    position = 0
    while position < size:
        frames, end, broken = _batch(stream, position, size)
        intact = _num_intact(frames)
        for frame in frames[:intact]:
            yield frame.start + _HEAD + len(frame.payload) + _TAIL, frame.payload
        position = end
        if broken or intact < len(frames):
            damage = end if intact == len(frames) else frames[intact].start
            position = _next_frame(stream, damage + 1, size)
            _count(tally, stream, damage, position, size, label)


def _batch(stream: BinaryIO, position: int, size: int) -> tuple[list[_Frame], int, bool]:
    """Frames from `position` on whose lengths can be trusted, where the next one starts, and whether it is broken."""
    frames: list[_Frame] = []
    num_bytes = 0
    stream.seek(position)
    while len(frames) < _BATCH_FRAMES and num_bytes < _BATCH_BYTES and position < size:
        length = _length(stream.read(_HEAD))
        if length is None or position + _HEAD + length + _TAIL > size:
            return frames, position, True
        if length > _LARGEST_BYTES:
            stream.seek(length + _TAIL, 1)
        else:
            body = stream.read(length + _TAIL)
            if len(body) < length + _TAIL:  # the file has been cut since it was opened
                return frames, position, True
            frames.append(_Frame(position, body[:length], int.from_bytes(body[length:], "little")))
            num_bytes += length
        position += _HEAD + length + _TAIL
    return frames, position, False


def _num_intact(frames: list[_Frame]) -> int:
    """How many frames come before the first with a wrong checksum."""
    found = masked(crc32c([frame.payload for frame in frames]))
    wrong = np.flatnonzero(found != np.array([frame.checksum for frame in frames], dtype=np.uint32))
    return int(wrong[0]) if wrong.size else len(frames)


def _next_frame(stream: BinaryIO, start: int, size: int) -> int:
    """The first offset from `start` on that has a length with the right checksum; the size when there is none."""
    while start + _HEAD <= size:
        stream.seek(start)
        data = stream.read(_SEARCH_BYTES)
        if len(data) < _HEAD:
            break
        expected = masked(crc32c_of_windows(data[:-_TAIL], 8))
        cells = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, dtype=np.uint8)[8:], _TAIL)
        stored = np.ascontiguousarray(cells).view("<u4").ravel()
        for offset in np.flatnonzero(expected == stored):
            length = int.from_bytes(data[offset : offset + 8], "little")
            if start + int(offset) + _HEAD + length + _TAIL <= size:
                return start + int(offset)
        start += len(data) - _HEAD + 1
    return size


def _count(tally: Tally, stream: BinaryIO, broken: int, found: int, size: int, label: str) -> None:
    """Tell a writer that was stopped, or is still at work, from damage."""
    torn = found == size and (size - broken < _HEAD or _length_at(stream, broken) is not None)
    what = "bytes of an unfinished last record" if torn else "damaged bytes"
    tally.skip(what, f"{label}, byte {broken + 1:,}", found - broken)


def _length_at(stream: BinaryIO, position: int) -> int | None:
    stream.seek(position)
    return _length(stream.read(_HEAD))


@lru_cache(maxsize=4096)  # the lengths of a log are few
def _length(head: bytes) -> int | None:
    """The length that a frame's head gives; None when its checksum is wrong."""
    if len(head) < _HEAD:
        return None
    length, checksum = struct.unpack("<QI", head)
    return int(length) if int(masked(crc32c([head[:8]]))[0]) == checksum else None
