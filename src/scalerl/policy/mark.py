"""A tag as a policy may write it: with whichever tokens its tokenizer has for it, also merged with what stands around.

Used by the engines, which see tokens and no text: "</think>" can be one token, several, or end inside ">\\n". Only the
tokens that can be part of the tag are kept, so the whole is small, and can be stored and sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from transformers import PreTrainedTokenizerBase

_OTHER = "\0"
"""Stands for every token that cannot be part of the tag."""


@dataclass(frozen=True)
class Mark:
    """A tag, and the tokens that can be part of it."""

    tag: str
    pieces: tuple[tuple[int, str], ...]
    """Token and its text."""

    def in_tokens(self, tokens: Sequence[int]) -> bool:
        """Whether the tag is written there."""
        return bool(self.tag) and self.tag in "".join(self._text.get(token, _OTHER) for token in tokens)

    @cached_property
    def _text(self) -> dict[int, str]:
        return dict(self.pieces)


NO_MARK = Mark("", ())
"""Never written."""


def mark_of(tokenizer: PreTrainedTokenizerBase, tag: str) -> Mark:
    """The mark of a tag in a tokenizer's vocabulary."""
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))], skip_special_tokens=False)
    return Mark(tag, tuple((token, text) for token, text in enumerate(texts) if _can_be_part(text, tag)))


def _can_be_part(text: str, tag: str) -> bool:
    """Holds the tag, lies within it, ends with its beginning or begins with its end."""
    if not text:
        return False
    if text in tag or tag in text:
        return True
    return any(text.endswith(tag[:size]) or text.startswith(tag[-size:]) for size in range(1, len(tag)))
