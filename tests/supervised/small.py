"""A chat model that fits a test: a BPE tokenizer trained here, a Llama of 20k parameters, traces, some templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from scalerl.policy.tiny import save_policy

END, START, PAD = "<|im_end|>", "<|im_start|>", "<|pad|>"

_TURN = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
_ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
CHATML = "{% for message in messages %}" + _TURN + "{% endfor %}" + _ASK

MARKED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}" + _TURN + "{% endif %}{% endfor %}" + _ASK
)
"""With generation blocks."""

MARKED_WITHOUT_END = MARKED.replace(
    "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}",
    "{{ message['content'] }}{% endgeneration %}{{ '<|im_end|>\\n' }}",
)
"""With generation blocks that forget the end of the turn."""

FORGETFUL = (
    "{% for message in messages %}{% if message['role'] == 'assistant' and not loop.last %}"
    "{{ '<|im_start|>assistant\\n' + message['content'].split('</think>')[-1] + '<|im_end|>\\n' }}"
    "{% else %}" + _TURN + "{% endif %}{% endfor %}" + _ASK
)
"""Shows the thinking of the last turn only, as Qwen3's."""

OPENED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\\n' + message['content'].split('</think>')[-1] + '<|im_end|>\\n' }}"
    "{% else %}" + _TURN + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""Opens the thinking in the prompt, and drops it from what was said, as DeepSeek-R1's."""

UNENDED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{% if not loop.last %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_end|>\\n<|im_start|>assistant\\n' }}{% endif %}"
)
"""Leaves the end of the last turn out."""

CLOSED = CHATML.replace("{% if add_", "{% if not add_generation_prompt %}{{ '<|pad|>' }}{% endif %}{% if add_")
"""Closes the whole conversation with another token, as Phi-3's."""

LINES = (
    "What is the sum of 3 and 4? Let me think about it: 3 + 4 = 7, so the answer is seven.",
    "user assistant system you are a careful tutor who adds numbers and explains each step",
    "<think> first add the numbers then check </think> The answer is 12.",
)


@cache
def _trained() -> str:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        show_progress=False,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(LINES, trainer)
    return str(raw.to_str())


def new_tokenizer(template: str | None = CHATML, context: int = 256) -> PreTrainedTokenizerFast:
    raw = Tokenizer.from_str(_trained())
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token=END, pad_token=PAD, chat_template=template, model_max_length=context
    )


def new_model(vocabulary: int, context: int = 256, **changes: Any) -> PreTrainedModel:
    sizes: dict[str, Any] = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": context, "tie_word_embeddings": True,
        "initializer_range": 0.2, "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **(sizes | changes)))
    model.eval()
    return model


def new_folder(folder: Path, template: str | None = CHATML, context: int = 256) -> Path:
    """A model folder as one downloads it."""
    tokenizer = new_tokenizer(template, context)
    folder.mkdir(parents=True)
    save_policy(folder, new_model(len(tokenizer), context), tokenizer)
    return folder


def chats(count: int) -> list[dict[str, Any]]:
    """Sums in one or two turns; every line differs."""
    found = []
    for number in range(count):
        a, b = number % 7, number // 7
        turns = [("user", f"What is {a} + {b}?"), ("assistant", f"<think>{a} + {b} = {a + b}</think>{a + b}")]
        if number % 3 == 0:
            turns += [("user", "Are you sure?"), ("assistant", f"Yes, the answer is {a + b}.")]
        found.append({"messages": [{"role": role, "content": text} for role, text in turns]})
    return found


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
