"""CRC-32C of many small pieces of bytes at once, with numpy.

Called by `tfrecord`, whose frames carry this checksum twice. The tensorboard package computes it byte by byte in
Python, which would take most of the time of reading a large log. Knows nothing about files.

A CRC is linear: the checksum of a piece is the XOR of one table entry for each byte, which depends on the byte and on
how many bytes follow it. So all bytes of all pieces are looked up together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import compress

import numpy as np
import numpy.typing as npt

Checksums = npt.NDArray[np.uint32]
_POLYNOMIAL = 0x82F63B78
_FULL = 0xFFFFFFFF
_SHORTEST, _LONGEST = 4, 1024
"""Pieces that take the fast way; others go block by block."""
_MASK_DELTA = 0xA282EAD8


def masked(checksums: Checksums) -> Checksums:
    """As a TFRecord stores them: rotated and shifted, so that a checksum of checksums is no trap."""
    return ((checksums >> np.uint32(15)) | (checksums << np.uint32(17))) + np.uint32(_MASK_DELTA)


def crc32c(pieces: Sequence[bytes]) -> Checksums:
    """The checksum of each piece."""
    result = np.empty(len(pieces), dtype=np.uint32)
    short = np.array([_SHORTEST <= len(piece) <= _LONGEST for piece in pieces], dtype=bool)
    if short.any():
        result[short] = _of_short(list(compress(pieces, short)))
    for index in map(int, np.flatnonzero(~short)):
        result[index] = _of_one(pieces[index])
    return result


def crc32c_of_windows(data: bytes, width: int) -> Checksums:
    """The checksum of the `width` bytes that start at each offset: for finding a frame in the middle of a file."""
    cells = np.frombuffer(data, dtype=np.uint8)
    count = len(cells) - width + 1
    state = np.full(max(count, 0), _FULL, dtype=np.uint32)
    table = _followed_by()[0]
    for column in range(width):
        state = table[(state ^ cells[column : column + len(state)]) & 0xFF] ^ (state >> np.uint32(8))
    return state ^ np.uint32(_FULL)


def _of_short(pieces: list[bytes]) -> Checksums:
    lengths = np.array([len(piece) for piece in pieces])
    ends = lengths.cumsum()
    cells = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    following = np.repeat(ends - 1, lengths) - np.arange(ends[-1])
    terms = _flat().take(following * 256 + cells)
    sums: Checksums = np.bitwise_xor.reduceat(terms, ends - lengths)
    sums ^= _starts()[lengths] ^ np.uint32(_FULL)
    return sums


def _of_one(piece: bytes) -> int:
    """Block by block; the state so far is XORed into the first four bytes of the next block."""
    state, table = _FULL, _followed_by()[0]
    rows = np.arange(_LONGEST - 1, -1, -1) * 256
    whole = len(piece) // _LONGEST * _LONGEST
    for start in range(0, whole, _LONGEST):
        cells = np.frombuffer(piece, dtype=np.uint8, count=_LONGEST, offset=start).copy()
        cells[:4] ^= np.frombuffer(state.to_bytes(4, "little"), dtype=np.uint8)
        state = int(np.bitwise_xor.reduce(_flat().take(rows + cells)))
    for byte in piece[whole:]:
        state = int(table[(state ^ byte) & 0xFF]) ^ (state >> 8)
    return state ^ _FULL


@cache
def _followed_by() -> Checksums:
    """Row k, column b: what byte b adds to the checksum when k bytes follow it."""
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, (row >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), row >> np.uint32(1))
    table = np.empty((_LONGEST, 256), dtype=np.uint32)
    table[0] = row
    for k in range(1, _LONGEST):
        table[k] = row[table[k - 1] & 0xFF] ^ (table[k - 1] >> np.uint32(8))
    return table


def _flat() -> Checksums:
    return _followed_by().ravel()


@cache
def _starts() -> Checksums:
    """What the starting state of all ones adds, by length: as if the first four bytes were XORed with 255."""
    ones = _followed_by()[:, 255]
    starts = np.zeros(_LONGEST + 1, dtype=np.uint32)
    for length in range(_SHORTEST, _LONGEST + 1):
        starts[length] = np.bitwise_xor.reduce(ones[length - 4 : length])
    return starts
