"""Policies in Hugging Face format: a folder, or a name that a hub knows. Every way in which one can be unusable is one
line that says what is missing and where.

A folder comes from anywhere and is data: weights are read as safetensors alone, never as pickles, and no code that it
brings or names is run. transformers is told so at every call, and asked nothing that it would ask the user; what it
would follow all the same (`harmless`) is refused before.

Used by `load`. Knows nothing about runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from scalerl.errors import InputError
from scalerl.policy.tiny import no_progress_bars

CONFIG = "config.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
_DOWNLOADED = ["*.json", "*.safetensors", "*.txt", "*.jinja", "tokenizer.model"]
"""No pickles: weights come as safetensors."""
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_SAFE = ".safetensors"
_INDEX = "model.safetensors.index.json"
_ADAPTERS = "adapter_config.json"
_WEIGHTS_KEY = "transformers_weights"
"""Of a config: the file to read in the place of the usual ones, whatever its format."""
_KERNELS = {"attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation"}
"""Of a config: by a name with a slash they are compiled code on the hub."""


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
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the tokenizer cannot be read ({_first_line(error)})", where=str(folder)) from None
    return tokenizer


def read_config(folder: Path) -> Any:
    """The config of a model, without its weights."""
    harmless(folder)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the config of the model cannot be read ({_first_line(error)})", where=str(folder)) from None


def read_model(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    harmless(folder)
    try:
        with no_progress_bars():
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, trust_remote_code=False
            )
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
        raise InputError(f"the policy cannot be read ({_first_line(error)})", where=str(folder)) from None
    return model


def harmless(folder: Path) -> None:
    """Refuse a folder whose files lead to pickles, to other folders or to code; transformers follows all of these."""
    where = str(folder)
    if (folder / _ADAPTERS).exists():
        raise InputError(f"adapters ({_ADAPTERS})", allowed="a whole model, with its adapters merged", where=where)
    config, index = _json(folder / CONFIG), _json(folder / _INDEX)
    shards = index.get("weight_map", {})
    named = list(shards.values()) if isinstance(shards, dict) else [shards]
    for name in (*([config[_WEIGHTS_KEY]] if _WEIGHTS_KEY in config else []), *dict.fromkeys(map(str, named))):
        plain = str(name).removesuffix(".index.json")
        if not plain.endswith(_SAFE) or Path(plain).name != plain or "\\" in plain:
            raise InputError("a file of weights", str(name), "*.safetensors in the same folder", where)
    for key, value in _entries(config):
        if key in _KERNELS and "/" in json.dumps(value):
            raise InputError(f"a model that brings code ({key})", str(value), "one that runs without", where)


def _json(file: Path) -> dict[str, Any]:
    """What cannot be read says nothing here: whoever needs it will complain."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a config and of the configs inside, with what it says."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _check_folder(folder: Path) -> None:
    if not (folder / CONFIG).is_file():
        raise InputError(f"a model folder without {CONFIG}", allowed="a Hugging Face causal LM", where=str(folder))
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise InputError("a model folder without weights", allowed="*.safetensors in it", where=str(folder))
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise InputError("a model folder without tokenizer", allowed="tokenizer.json in it", where=str(folder))
    harmless(folder)


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
