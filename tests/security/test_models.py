"""Models from strangers: whatever lies in their folder, nothing of it runs, and a refusal is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from torch import Tensor

from scalerl.config import RunConfig, load_run
from scalerl.errors import InputError, StorageError
from scalerl.pipeline import shards
from scalerl.pipeline.engines.vllm.start import VllmOptions, _arguments
from scalerl.policy import TinyLlama, build_policy
from scalerl.policy.load import load_policy
from scalerl.policy.pretrained import read_config, read_model, resolve

from .evil import evil_module, evil_pickle

SHAPE = TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=64)
Spoil = Callable[[Path, bytes, str], None]
"""Makes a good folder a bad one: the folder, a pickle, the source of a module."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_policy(tmp_path_factory.mktemp("policy") / "whole", SHAPE)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "policy"))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Appears when something was run."""
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers asks on the terminal whether code may be run; a hurried user says yes."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")


def run_with(folder: Path) -> RunConfig:
    model = f"scale.model={{source='pretrained', name='{folder}', dtype='float32'}}"
    return load_run(overrides=[model, 'scale.warm_start.kind="none"']).config


def edit(file: Path, **values: Any) -> None:
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | values))


def only_a_pickle(folder: Path, pickled: bytes, _: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickled)


def a_pickle_behind_a_decoy(folder: Path, pickled: bytes, code: str) -> None:
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "pytorch_model.bin").write_bytes(pickled)


def shards_that_are_pickles(folder: Path, pickled: bytes, _: str) -> None:
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "pytorch_model-00001-of-00001.bin").write_bytes(pickled)
    edit(folder / "pytorch_model.bin.index.json", metadata={}, weight_map={"a": "pytorch_model-00001-of-00001.bin"})


def an_index_that_names_a_pickle(folder: Path, pickled: bytes, _: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "evil.bin").write_bytes(pickled)
    edit(folder / "model.safetensors.index.json", metadata={}, weight_map={"model.norm.weight": "evil.bin"})


def an_index_that_leads_elsewhere(folder: Path, _: bytes, __: str) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    edit(folder / "model.safetensors.index.json", metadata={}, weight_map={"a": "../elsewhere.safetensors"})


def a_config_that_names_a_pickle(folder: Path, pickled: bytes, _: str) -> None:
    (folder / "evil.bin").write_bytes(pickled)
    edit(folder / "config.json", transformers_weights="evil.bin")


def adapters_that_are_a_pickle(folder: Path, pickled: bytes, _: str) -> None:
    edit(folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path="nobody/nothing")
    (folder / "adapter_model.bin").write_bytes(pickled)


def a_model_with_code(folder: Path, _: bytes, code: str) -> None:
    (folder / "modeling_evil.py").write_text(code)
    (folder / "configuration_evil.py").write_text(code)
    names = {"AutoConfig": "configuration_evil.Config", "AutoModelForCausalLM": "modeling_evil.Model"}
    edit(folder / "config.json", model_type="evil", auto_map=names)


def a_tokenizer_with_code(folder: Path, _: bytes, code: str) -> None:
    (folder / "tokenization_evil.py").write_text(code)
    names = ["tokenization_evil.Slow", "tokenization_evil.Fast"]
    edit(folder / "tokenizer_config.json", tokenizer_class="EvilTokenizer", auto_map={"AutoTokenizer": names})
    edit(folder / "config.json", model_type="evil")


def kernels_from_the_hub(folder: Path, _: bytes, __: str) -> None:
    edit(folder / "config.json", attn_implementation="evil/attention")


def kernels_in_a_part(folder: Path, _: bytes, __: str) -> None:
    edit(folder / "config.json", text_config={"attn_implementation": {"": "evil/attention"}})


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (only_a_pickle, "a model folder without weights; allowed: *.safetensors"),
        (a_pickle_behind_a_decoy, "the policy cannot be read"),
        (shards_that_are_pickles, "the policy cannot be read"),
        (an_index_that_names_a_pickle, "a file of weights: got 'evil.bin'; allowed: *.safetensors in the same folder"),
        (an_index_that_leads_elsewhere, "a file of weights: got '../elsewhere.safetensors'"),
        (a_config_that_names_a_pickle, "a file of weights: got 'evil.bin'"),
        (adapters_that_are_a_pickle, "adapters (adapter_config.json); allowed: a whole model"),
        (a_model_with_code, "cannot be read"),
        (a_tokenizer_with_code, "cannot be read"),
        (kernels_from_the_hub, "a model that brings code (attn_implementation)"),
        (kernels_in_a_part, "a model that brings code (attn_implementation)"),
    ],
)
def test_it_is_refused_in_one_line_and_nothing_runs(folder: Path, mark: Path, spoil: Spoil, words: str) -> None:
    spoil(folder, evil_pickle(mark), evil_module(mark))
    with pytest.raises(InputError) as caught:
        load_policy(run_with(folder))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not mark.exists()


@pytest.mark.parametrize("read", [lambda folder: read_model(folder, torch.float32), read_config, resolve])
@pytest.mark.parametrize("spoil", [a_config_that_names_a_pickle, adapters_that_are_a_pickle, kernels_from_the_hub])
def test_every_way_to_read_one_refuses_it(folder: Path, mark: Path, spoil: Spoil, read: Callable[[Path], Any]) -> None:
    spoil(folder, evil_pickle(mark), evil_module(mark))
    with pytest.raises(InputError):
        read(folder)
    assert not mark.exists()


def test_code_beside_a_model_that_needs_none_is_left_alone(folder: Path, mark: Path) -> None:
    (folder / "modeling_evil.py").write_text(evil_module(mark))
    edit(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling_evil.Model"})
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["modeling_evil.Slow", "modeling_evil.Fast"]})
    assert load_policy(run_with(folder)).folder == folder
    assert not mark.exists()


def test_pickles_beside_safetensors_are_left_alone(folder: Path, mark: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "state.pkl"):
        (folder / name).write_bytes(evil_pickle(mark))
    assert load_policy(run_with(folder)).folder == folder
    assert not mark.exists()


def test_the_pickle_does_run_where_it_is_loaded(mark: Path) -> None:
    """The tests above would prove nothing with a pickle that does nothing."""
    import pickle

    pickle.loads(evil_pickle(mark))
    assert mark.is_dir()


def test_shards_are_read_without_their_pickled_metadata(tmp_path: Path, mark: Path) -> None:
    """torch.distributed.checkpoint keeps a pickle in `.metadata`; our shards have none, and one is not looked at."""
    folder = tmp_path / "shards"
    folder.mkdir()
    tensors: dict[str, Tensor] = {"weight.a": torch.arange(6.0).reshape(2, 3)}
    shards.write(folder, tensors, None)
    assert {file.suffix for file in folder.iterdir()} == {".safetensors"}
    (folder / ".metadata").write_bytes(evil_pickle(mark))
    assert torch.equal(shards.read_whole(folder, "weight.")["a"], tensors["weight.a"])
    assert not mark.exists()


def test_a_shard_that_is_a_pickle_is_refused(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "shard-00001-model-00001-of-00001.safetensors").write_bytes(evil_pickle(mark))
    with pytest.raises((InputError, StorageError)):
        shards.read(tmp_path, {"a": torch.zeros(2)}, None)
    assert not mark.exists()


def test_vllm_is_told_the_same(tmp_path: Path) -> None:
    told = _arguments(tmp_path, VllmOptions(rows=1, context=8, dtype="float32", fp32_head=False, threads=1))
    assert told["load_format"] == "safetensors"
    assert told["trust_remote_code"] is False
