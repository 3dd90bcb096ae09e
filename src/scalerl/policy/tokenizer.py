"""The character tokenizer of the small policies: one token for each character, and four for the markers.

Used by `tiny` and `sft`. Written as a Hugging Face fast tokenizer, so that `AutoTokenizer.from_pretrained(folder)` and
every engine that reads that format can load it.

`<pad>` and `<eos>` are special tokens, which `decode(..., skip_special_tokens=True)` leaves out; `<think>` and
`</think>` are not, because the verifier needs to see them. A character outside the vocabulary is an error, not an
unknown token: a policy cannot answer what it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from scalerl.errors import InputError
from scalerl.folder import refuse_existing
from scalerl.tasks import END_THINK, TASK_CHARACTERS, THINK

PAD = "<pad>"
EOS = "<eos>"
MARKERS = (PAD, EOS, THINK, END_THINK)
"""Tokens 0 to 3; the characters follow in their order."""


def character_tokenizer(characters: str = TASK_CHARACTERS, context: int = 128) -> PreTrainedTokenizerFast:
    """A tokenizer for these characters. Padding goes to the left, where a decoder wants it."""
    if not characters or len(set(characters)) != len(characters):
        raise InputError("characters of the tokenizer", characters, "at least one character, each once")
    vocabulary = {token: i for i, token in enumerate((*MARKERS, *characters))}
    inner = Tokenizer(models.WordLevel(vocabulary))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([PAD, EOS])
    inner.add_tokens([AddedToken(THINK, normalized=False), AddedToken(END_THINK, normalized=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        model_max_length=context,
        clean_up_tokenization_spaces=False,  # it would drop spaces before punctuation
    )


def build_character_tokenizer(path: str | Path, characters: str = TASK_CHARACTERS, context: int = 128) -> Path:
    """Write the tokenizer into a new folder."""
    folder = Path(path)
    refuse_existing(folder)
    character_tokenizer(characters, context).save_pretrained(folder)
    return folder


def unwritable(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> str:
    """The characters of the texts that the vocabulary lacks, in order of first appearance."""
    vocabulary = tokenizer.get_vocab()
    rest = "".join(texts)
    for marker in MARKERS:
        rest = rest.replace(marker, "")
    return "".join(dict.fromkeys(character for character in rest if character not in vocabulary))
