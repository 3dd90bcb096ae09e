"""Small policies: their size, their format, and that a seed means its weights."""

import errno
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, MixtralForCausalLM

from scalerl.errors import InputError, StorageError
from scalerl.policy import TinyLlama, TinyMoe, build_policy, build_tiny_llama, build_tiny_moe
from scalerl.policy.tiny import Shape, disk_errors


def parameters(folder: Path) -> int:
    return sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())


@pytest.mark.parametrize(
    ("shape", "kind"), [(TinyLlama(), LlamaForCausalLM), (TinyMoe(), MixtralForCausalLM)], ids=["llama", "moe"]
)
def test_it_loads_and_generates(tmp_path: Path, shape: Shape, kind: type[Any]) -> None:
    folder = build_policy(tmp_path / "policy", shape)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert type(model) is kind
    assert model.config.vocab_size == len(tokenizer) == 24
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 128
    assert (model.config.pad_token_id, model.config.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)
    assert model.dtype == torch.float32
    inputs = tokenizer(["1+2=", "10+2="], return_tensors="pt", padding=True)
    assert model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False).shape == (2, 9)


def test_parameter_counts(tmp_path: Path) -> None:
    """Embedding and head 2 x 24 x 64; a block 4 x 64^2 + 3 x 64 x 192 + 2 x 64 (norms); the last norm 64."""
    dense = build_tiny_llama(tmp_path / "dense")
    assert parameters(dense) == 2 * 24 * 64 + 3 * (4 * 64**2 + 3 * 64 * 192 + 2 * 64) + 64 == 163_264
    moe = build_tiny_moe(tmp_path / "moe")  # four experts of half the width, and a router of 4 x 64 in each block
    assert parameters(moe) == 2 * 24 * 64 + 3 * (4 * 64**2 + 4 * 3 * 64 * 96 + 4 * 64 + 2 * 64) + 64 == 274_624
    large = build_tiny_llama(tmp_path / "large", width=128, layers=5, heads=8, feed_forward=384)
    assert 900_000 < parameters(large) < 1_100_000


def test_a_seed_means_its_weights(tmp_path: Path) -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    folders = [build_tiny_llama(tmp_path / str(i), seed=seed) for i, seed in enumerate([3, 3, 4])]
    assert torch.equal(torch.get_rng_state(), state)
    one, same, other = (load_file(folder / "model.safetensors") for folder in folders)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["lm_head.weight"], other["lm_head.weight"])


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    tied, untied = build_policy(tmp_path / "a", TinyLlama(tied=True)), build_tiny_llama(tmp_path / "b")
    assert parameters(untied) - parameters(tied) == 24 * 64


def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build_tiny_llama(tmp_path / "a", layers=1)
    with pytest.raises(InputError, match="the folder exists already"):
        build_tiny_llama(folder, layers=1)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", full_disk)
    with pytest.raises(StorageError, match=r"b: cannot be written \(No space left on device\)"):
        build_tiny_llama(tmp_path / "b", layers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("kind", "sizes", "part"),
    [
        (TinyLlama, {"width": 60, "heads": 4}, "model.heads: got 4; allowed: a number for which 60 / heads is even"),
        (TinyLlama, {"layers": 0}, "model.layers: got 0"),
        (TinyMoe, {"experts": 1}, "model.experts: got 1"),
        (TinyMoe, {"experts_per_token": 5}, "model.experts_per_token: got 5; allowed: 1 to 4"),
    ],
)
def test_impossible_shapes(kind: type[Any], sizes: dict[str, int], part: str) -> None:
    with pytest.raises(InputError) as caught:
        kind(**sizes)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        Exception("No space left on device (os error 28)"),
    ],
    ids=["safetensors", "tokenizers"],
)
def test_a_full_disk_is_one_whoever_writes_to_it(error: Exception) -> None:
    """Both libraries write in Rust and have their own words for it."""
    with pytest.raises(OSError, match="No space left on device") as caught, disk_errors():
        raise error
    assert caught.value.errno == errno.ENOSPC


def test_other_failures_are_left_as_they_are() -> None:
    for error in (ValueError("no such thing"), PermissionError(13, "Permission denied")):
        with pytest.raises(type(error)) as caught, disk_errors():
            raise error
        assert caught.value is error
