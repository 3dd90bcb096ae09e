"""Inputs for hypothesis: bytes of any kind, and valid samples with a few things wrong.

The edits are those that disks, crashes and people make: something cut out, put in, doubled, moved from another sample,
a bit turned over, a value replaced by one of another kind, the end missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from .target import Target

_VALUE = re.compile(rb'-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|"[^"\n]*"(?!\s*:)|\{[^{}\n]*\}|\[[^\[\]\n]*\]|\btrue\b|\bnull\b')
"""A number, a text that is no key, a small table or list."""
_ODD = (
    b"NaN", b"1e999", b"-1", b"0", b"1" * 400, b"1" * 5000, b"5e-324", b"1e308", b"null", b'"a"', b"[]", b"{}", b"",
)  # fmt: skip
LONGEST = 1 << 15
LONGEST_WORD = 60
PLACES = 12

Edit = Callable[[bytes], bytes]


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Mostly near-valid."""
    samples = list(target.samples())
    words = [word.encode("utf-8", "surrogatepass") for word in target.words] or [b"\0"]
    edits = st.lists(_edit(words, samples), min_size=1, max_size=4)
    near = st.builds(_edited, st.sampled_from(samples), edits)
    pieces = st.lists(st.one_of(st.sampled_from(words), st.binary(max_size=6)), max_size=12).map(b"".join)
    return st.one_of(near, near, pieces, st.binary(max_size=200))


def spoiled(target: Target) -> list[bytes]:
    """Samples with something odd in the place of a value, and with the words that are too long for libFuzzer."""
    words = [word.encode("utf-8", "surrogatepass") for word in target.words if len(word) > LONGEST_WORD]
    edits = [edit for word in words for edit in (_replaced(0.0, word), _replaced(0.5, word), _put(0.9, word))]
    odd = [_replaced(place / PLACES, value) for place in range(PLACES) for value in _ODD]
    return [edit(sample) for edit in (*edits, *odd) for sample in target.samples()[:6]]


def _edited(sample: bytes, edits: Sequence[Edit]) -> bytes:
    for edit in edits:
        sample = edit(sample)[:LONGEST]
    return sample


def _edit(words: Sequence[bytes], samples: Sequence[bytes]) -> st.SearchStrategy[Edit]:
    place = st.floats(0, 1)
    length = st.integers(1, 40)
    return st.one_of(
        st.builds(_cut, place, length),
        st.builds(_put, place, st.one_of(st.sampled_from(words), st.binary(max_size=8))),
        st.builds(_doubled, place, length),
        st.builds(_spliced, place, st.sampled_from(samples), place, length),
        st.builds(_turned, place, st.integers(0, 7)),
        st.builds(_replaced, place, st.sampled_from(_ODD)),
        st.builds(_replaced, place, st.sampled_from(_ODD)),
        st.builds(_ended, place),
    )


def _at(data: bytes, place: float) -> int:
    return int(place * len(data))


def _cut(place: float, length: int) -> Edit:
    return lambda data: data[: _at(data, place)] + data[_at(data, place) + length :]


def _put(place: float, word: bytes) -> Edit:
    return lambda data: data[: _at(data, place)] + word + data[_at(data, place) :]


def _doubled(place: float, length: int) -> Edit:
    return lambda data: data[: _at(data, place) + length] + data[_at(data, place) :]


def _spliced(place: float, other: bytes, start: float, length: int) -> Edit:
    piece = other[_at(other, start) :][: 10 * length]
    return lambda data: data[: _at(data, place)] + piece + data[_at(data, place) :]


def _turned(place: float, bit: int) -> Edit:
    def turn(data: bytes) -> bytes:
        at = min(_at(data, place), len(data) - 1)
        return data if not data else data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]

    return turn


def _replaced(place: float, value: bytes) -> Edit:
    def replace(data: bytes) -> bytes:
        found = _VALUE.search(data, _at(data, place))
        return data if found is None else data[: found.start()] + value + data[found.end() :]

    return replace


def _ended(place: float) -> Edit:
    return lambda data: data[: _at(data, place)]
