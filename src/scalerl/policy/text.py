"""Text as tokens of a policy: prompts, phrases and the end of a text, with an error where a tokenizer cannot write it.

Used by `chat`, which knows templates and tags.
"""

from __future__ import annotations

from tokenizers import models
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from scalerl.errors import InputError
from scalerl.policy.tokenizer import unwritable


def encode_prompt(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """The tokens of a prompt, with a beginning-of-text token where the tokenizer adds one."""
    _check_characters(tokenizer, text, "a prompt")
    return tuple(tokenizer(text)["input_ids"])


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """The tokens of a text that is complete: nothing is added. Special tokens that are spelt out in it are those."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def encode_phrase(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    """The tokens of a text that stands inside a response: nothing is added before or after it.

    A tokenizer that merges across its edges may write the same text with other tokens inside a longer one.
    """
    _check_characters(tokenizer, text, "a phrase")
    ids = encode_text(tokenizer, text)
    if not ids or tokenizer.unk_token_id in ids:
        raise InputError("a phrase that the policy's tokenizer cannot write", text, "text that is in its vocabulary")
    return ids


def end_of_text(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that ends a response."""
    eos_id: int | None = tokenizer.eos_token_id
    if eos_id is None:
        where = tokenizer.name_or_path or None
        raise InputError("the tokenizer has no end-of-text token", allowed="one with eos_token", where=where)
    return eos_id


def _check_characters(tokenizer: PreTrainedTokenizerBase, text: str, what: str) -> None:
    """A vocabulary of characters has no token for what is not in it, and tokenizers then raises a bare Exception."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return
    if isinstance(tokenizer.backend_tokenizer.model, models.WordLevel) and (rest := unwritable(tokenizer, [text])):
        raise InputError(f"{what} with characters that the policy cannot write, {text!r}", rest, "its vocabulary")
