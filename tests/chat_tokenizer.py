"""A small tokenizer as real models have it: byte-level BPE whose merges cross words, with ChatML's marks."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if opened %}<think>{% endif %}{% endif %}"
)
TEXT = [
    "What is 2 + 3? I think </think>\nit is 5.",
    "a </think>\n\n b",
    "x.</think>\n",
    "the end.</think>\nAnswer: 12",
] * 20


def tokenizer_of(template: str | None = CHATML, *, special: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # merges across words
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = [AddedToken(mark, special=True) for mark in ("<|end|>", "<|im_start|>", "<|im_end|>", *special)]
    inner.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, special_tokens=marks)
    )
    found = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", pad_token="<|end|>")
    found.chat_template = template
    return found
