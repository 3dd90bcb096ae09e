"""Policies that are small enough for a laptop: tokenizer, models in Hugging Face format, and their warm start.

Any Hugging Face causal LM can be a policy; this package builds the small ones. It needs the extra `train` (torch,
transformers, tokenizers, safetensors) and says so when it is imported without.
"""

from importlib.util import find_spec

from scalerl.errors import MissingDependencyError

for _package in ("torch", "transformers", "tokenizers", "safetensors"):
    if find_spec(_package) is None:
        raise MissingDependencyError(_package, "train")

from scalerl.policy.sft import Progress, WarmStart, warm_start, warm_start_digest  # noqa: E402  # after the check above
from scalerl.policy.tiny import TinyLlama, TinyMoe, build_policy, build_tiny_llama, build_tiny_moe  # noqa: E402
from scalerl.policy.tokenizer import EOS, PAD, build_character_tokenizer  # noqa: E402

__all__ = [
    "EOS",
    "PAD",
    "Progress",
    "TinyLlama",
    "TinyMoe",
    "WarmStart",
    "build_character_tokenizer",
    "build_policy",
    "build_tiny_llama",
    "build_tiny_moe",
    "warm_start",
    "warm_start_digest",
]
