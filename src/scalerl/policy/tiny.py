"""Small policies in Hugging Face format: a Llama or a mixture of experts of some hundred thousand parameters.

Used by `sft` and by whoever wants a policy without a download. A folder written here holds config, weights
(safetensors) and tokenizer, and loads with `AutoModelForCausalLM` and `AutoTokenizer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from scalerl.errors import InputError
from scalerl.folder import complete_folder, refuse_existing
from scalerl.policy.tokenizer import character_tokenizer
from scalerl.tasks import TASK_CHARACTERS


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What both kinds have."""

    width: int = 64
    """Width of the residual stream."""
    layers: int = 3
    """Transformer blocks."""
    heads: int = 4
    """Attention heads; width / heads must be even, because rotary embeddings turn pairs."""
    feed_forward: int = 192
    """Inner width of the feed-forward network, or of each expert."""
    tied: bool = False
    """Share the weights of the input embedding and the LM head."""
    context: int = 128
    """Longest sequence, in tokens."""
    characters: str = TASK_CHARACTERS
    """The vocabulary, besides the markers."""

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "feed_forward", "context"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"model.{name}", value, "a whole number of at least 1")
        if self.width % (2 * self.heads):
            raise InputError("model.heads", self.heads, f"a number for which {self.width} / heads is even")

    def config(self, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
        raise NotImplementedError

    def _common(self, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
        return {
            "vocab_size": len(tokenizer),
            "hidden_size": self.width,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "max_position_embeddings": self.context,
            "initializer_range": self.width**-0.5,  # the usual 0.02 is for wide models; here it learns much later
            "tie_word_embeddings": self.tied,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
        }


@dataclass(frozen=True, kw_only=True)
class TinyLlama(_Shape):
    """A dense policy; 0.16M parameters as it stands."""

    def config(self, tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
        return LlamaConfig(**self._common(tokenizer))


@dataclass(frozen=True, kw_only=True)
class TinyMoe(_Shape):
    """A mixture of experts (Mixtral's architecture); 0.27M parameters as it stands, 0.16M of them used by a token."""

    feed_forward: int = 96
    """Inner width of each expert."""
    experts: int = 4
    """Experts in each block."""
    experts_per_token: int = 2
    """Experts that a token is sent to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts < 2:
            raise InputError("model.experts", self.experts, "a whole number of at least 2")
        if not 1 <= self.experts_per_token <= self.experts:
            raise InputError("model.experts_per_token", self.experts_per_token, f"1 to {self.experts}")

    def config(self, tokenizer: PreTrainedTokenizerFast) -> MixtralConfig:
        return MixtralConfig(
            **self._common(tokenizer), num_local_experts=self.experts, num_experts_per_tok=self.experts_per_token
        )


Shape = TinyLlama | TinyMoe


def build_tiny_llama(
    folder: str | Path,
    *,
    width: int = TinyLlama.width,
    layers: int = TinyLlama.layers,
    heads: int = TinyLlama.heads,
    feed_forward: int = TinyLlama.feed_forward,
    context: int = TinyLlama.context,
    seed: int = 0,
) -> Path:
    """Write a dense policy with random weights into a new folder; `build_policy` for every option."""
    shape = TinyLlama(width=width, layers=layers, heads=heads, feed_forward=feed_forward, context=context)
    return build_policy(folder, shape, seed=seed)


def build_tiny_moe(
    folder: str | Path,
    *,
    width: int = TinyMoe.width,
    layers: int = TinyMoe.layers,
    heads: int = TinyMoe.heads,
    feed_forward: int = TinyMoe.feed_forward,
    experts: int = TinyMoe.experts,
    experts_per_token: int = TinyMoe.experts_per_token,
    context: int = TinyMoe.context,
    seed: int = 0,
) -> Path:
    """Write a mixture-of-experts policy with random weights into a new folder; `build_policy` for every option."""
    shape = TinyMoe(
        width=width, layers=layers, heads=heads, feed_forward=feed_forward, context=context,
        experts=experts, experts_per_token=experts_per_token,
    )  # fmt: skip
    return build_policy(folder, shape, seed=seed)


def build_policy(folder: str | Path, shape: Shape, *, seed: int = 0) -> Path:
    """Write a policy of this shape, with random weights that depend on the seed alone, into a new folder."""
    path = Path(folder)
    refuse_existing(path)
    model, tokenizer = new_policy(shape, seed)
    with complete_folder(path) as partial:
        save_policy(partial, model, tokenizer)
    return path


def new_policy(shape: Shape, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The policy in memory, in float32. The process's own random state stays as it was."""
    tokenizer = character_tokenizer(shape.characters, shape.context)
    config = shape.config(tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config) if isinstance(config, LlamaConfig) else MixtralForCausalLM(config)
    return model, tokenizer


def save_policy(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Config, weights and tokenizer into an existing folder; `weights`: in the place of the model's own."""
    with no_progress_bars(), disk_errors():
        model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))
        tokenizer.save_pretrained(folder)


@contextmanager
def disk_errors() -> Iterator[None]:
    """safetensors and tokenizers word a full disk their own way (`No space left on device (os error 28)`): an OSError.

    tokenizers raises nothing narrower than `Exception`."""
    try:
        yield
    except Exception as error:
        found = re.search(r"([^:]*) \(os error (\d+)\)", str(error))
        if found is None or isinstance(error, OSError):
            raise
        raise OSError(int(found[2]), found[1].strip()) from None


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """A bar for one small file would tear a live view apart."""
    enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            transformers_logging.enable_progress_bar()
