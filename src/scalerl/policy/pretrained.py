"""Policies in Hugging Face format: a folder, or a name that a hub knows. Every way in which one can be unusable is one
line that says what is missing and where.

Used by `load`. Knows nothing about runs.
"""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.policy.tiny import no_progress_bars

CONFIG = "config.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
_DOWNLOADED = ["*.json", "*.safetensors", "*.txt", "*.jinja", "tokenizer.model"]
"""No pickles: weights come as safetensors."""
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


def resolve(name: str) -> Path:
    """The folder of a policy: the name itself, or where the hub's files lie after the download."""
    folder = Path(name)
    if folder.is_dir():
        _check_folder(folder)
        return folder
    if folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError("scale.model.name", name, "a folder that exists, or a name on the hub")
    return _download(name)


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the tokenizer cannot be read ({_first_line(error)})", where=str(folder)) from None
    return tokenizer


def read_model(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    try:
        with no_progress_bars():
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
        raise InputError(f"the policy cannot be read ({_first_line(error)})", where=str(folder)) from None
    return model


def _check_folder(folder: Path) -> None:
    if not (folder / CONFIG).is_file():
        raise InputError(f"a model folder without {CONFIG}", allowed="a Hugging Face causal LM", where=str(folder))
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise InputError("a model folder without weights", allowed="*.safetensors in it", where=str(folder))
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise InputError("a model folder without tokenizer", allowed="tokenizer.json in it", where=str(folder))


def _download(name: str) -> Path:
    try:
        folder = Path(snapshot_download(name, allow_patterns=_DOWNLOADED))
    except (OSError, ValueError) as error:
        allowed = "a folder that exists, or a name on a hub that can be reached"
        raise InputError(f"scale.model.name ({_first_line(error)})", name, allowed) from None
    _check_folder(folder)
    return folder


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
