"""Checkpoints: everything comes back bit for bit, and whatever goes wrong, the one before stays valid."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from scalerl.errors import InputError, StorageError
from scalerl.pipeline import checkpoint
from scalerl.pipeline.types import Snapshot
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.tiny import Shape, new_policy
from scalerl.runs.layout import complete_checkpoints

SMALL = TinyLlama(width=16, layers=1, heads=2, feed_forward=16)
MODEL, TOKENIZER = new_policy(SMALL, seed=1)


def save(root: Path, step: int, parts: dict[str, Snapshot] | None = None, **options: Any) -> Path:
    return checkpoint.save(root, step, parts or {}, model=MODEL, tokenizer=TOKENIZER, **options)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def steps(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.iterdir())


def test_values_come_back_exactly(tmp_path: Path) -> None:
    values = {"rng": {"state": 2**127 + 1}, "shares": [0.1, -0.0, 5e-324], "cursor": None, "flag": True, "text": "ä\n"}
    folder = save(tmp_path, 100, {"session": Snapshot(values), "empty": Snapshot()})
    loaded = checkpoint.load(folder)
    assert (folder.name, loaded.step, loaded.policy) == ("step-000100", 100, folder)
    assert loaded.parts == {"session": Snapshot(values), "empty": Snapshot()}
    assert str(loaded.parts["session"].values["shares"]) == "[0.1, -0.0, 5e-324]"
    assert not (folder / "parts" / "session.safetensors").exists()


def test_tensors_of_every_kind_come_back_bit_for_bit(tmp_path: Path) -> None:
    base = torch.arange(12, dtype=torch.float32).view(3, 4)
    tensors = {
        "bfloat16": torch.randn(5).to(torch.bfloat16),
        "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
        "int64": torch.tensor([2**62, -1]),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(3, dtype=torch.int32),
        "empty": torch.zeros(0, 5),
        "other_empty": torch.zeros(2, 0, dtype=torch.int64),
        "whole": base,
        "same": base,
        "transposed": base.t(),
        "row": base[1],
        "leaf": torch.nn.Parameter(torch.ones(2)),
    }
    loaded = checkpoint.load(save(tmp_path, 1, {"engine": Snapshot({}, tensors)})).parts["engine"].tensors
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape), name
        assert bits(loaded[name]) == bits(tensor), name


@pytest.mark.parametrize("shape", [SMALL, TinyMoe(width=16, layers=1, heads=2, feed_forward=16)], ids=["llama", "moe"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_policy_comes_back_bit_for_bit(tmp_path: Path, shape: Shape, dtype: torch.dtype) -> None:
    made, tokenizer = new_policy(shape, seed=3)
    model: Any = made
    model.to(dtype)
    folder = checkpoint.save(tmp_path, 5, {}, model=model, tokenizer=tokenizer)
    back = AutoModelForCausalLM.from_pretrained(checkpoint.load(folder).policy)
    assert back.dtype == dtype
    weights = dict(back.named_parameters())
    assert weights.keys() == dict(model.named_parameters()).keys()
    assert all(bits(weights[name]) == bits(tensor) for name, tensor in model.named_parameters())
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == tokenizer.get_vocab()


def test_tied_embeddings_come_back_tied(tmp_path: Path) -> None:
    _, tokenizer = new_policy(SMALL, seed=3)
    config = SMALL.config(tokenizer)
    config.tie_word_embeddings = True
    model: Any = AutoModelForCausalLM.from_config(config)
    back: Any = AutoModelForCausalLM.from_pretrained(checkpoint.save(tmp_path, 5, {}, model=model, tokenizer=tokenizer))
    assert back.lm_head.weight is back.model.embed_tokens.weight
    assert bits(back.lm_head.weight) == bits(model.lm_head.weight)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path / "none") is None
    assert checkpoint.load_newest(tmp_path) is None
    for step in (9, 10, 100):
        save(tmp_path, step)
    assert steps(tmp_path) == ["step-000010", "step-000100"]
    save(tmp_path, 1_000_000, keep=1)
    assert steps(tmp_path) == ["step-1000000"]
    assert checkpoint.newest(tmp_path) == tmp_path / "step-1000000"
    with pytest.raises(InputError, match="checkpoints to keep: got 0"):
        save(tmp_path, 5, keep=0)


def test_only_complete_ones_count(tmp_path: Path) -> None:
    save(tmp_path, 10)
    (tmp_path / "step-000020").mkdir()
    (tmp_path / "step-000030.xyz.partial").mkdir()
    (tmp_path / "step-000030.xyz.partial" / "complete.json").write_text("{}")
    (tmp_path / "step-x").mkdir()
    assert checkpoint.newest(tmp_path) == tmp_path / "step-000010"
    with pytest.raises(InputError, match="step-000020: no complete checkpoint"):
        checkpoint.load(tmp_path / "step-000020")
    save(tmp_path, 20)
    assert steps(tmp_path) == ["step-000010", "step-000020", "step-x"]


def test_a_step_can_be_saved_again(tmp_path: Path) -> None:
    save(tmp_path, 10, {"session": Snapshot({"evaluated": False})})
    save(tmp_path, 10, {"session": Snapshot({"evaluated": True})})
    assert steps(tmp_path) == ["step-000010"]
    assert checkpoint.load(tmp_path / "step-000010").parts["session"].values == {"evaluated": True}


def test_a_replacement_that_was_killed_half_way_is_finished(tmp_path: Path) -> None:
    """Killed after the new one was complete: it is the newest, with or without the old one beside it."""
    save(tmp_path, 10, {"session": Snapshot({"second": True})}).rename(tmp_path / "step-000010.next")
    assert checkpoint.newest(tmp_path) == tmp_path / "step-000010.next"
    save(tmp_path / "other", 10, {"session": Snapshot({"second": False})}).rename(tmp_path / "step-000010")
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    assert loaded.parts["session"].values == {"second": True}
    save(tmp_path, 20)
    assert steps(tmp_path) == ["other", "step-000010", "step-000020"]
    assert checkpoint.load(tmp_path / "step-000010").parts["session"].values == {"second": True}


@pytest.mark.parametrize("name", ["model.safetensors", "parts/trainer.safetensors", "state.json", "tokenizer.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    folder = save(tmp_path, 10, {"trainer": Snapshot({"a": 1}, {"b": torch.ones(3)})})
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"step-000010/{name}: a file of the checkpoint is damaged \(wrong SHA-256\)"):
        checkpoint.load(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"step-000010/{name}: a file of the checkpoint is missing"):
        checkpoint.load(folder)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def test_the_one_before_a_damaged_one_is_used(tmp_path: Path) -> None:
    for step in (10, 20):
        save(tmp_path, step, {"session": Snapshot({"step": step})})
    flip(tmp_path / "step-000020" / "model.safetensors")
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    assert (loaded.step, loaded.parts["session"].values) == (10, {"step": 10})
    (why,) = loaded.damaged
    assert "step-000020/model.safetensors: a file of the checkpoint is damaged" in why
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000010", "step-000020.damaged"]
    save(tmp_path, 20, {"session": Snapshot({"step": 20})})
    again = checkpoint.load_newest(tmp_path)
    assert again is not None
    assert (again.step, again.damaged) == (20, ())
    flip(tmp_path / "step-000020" / "model.safetensors")
    last = checkpoint.load_newest(tmp_path)
    assert last is not None
    assert last.damaged
    names = ["step-000010", "step-000020.2.damaged", "step-000020.damaged"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names  # what was set aside before is kept


def test_when_all_are_damaged_nothing_is_moved(tmp_path: Path) -> None:
    for step in (10, 20):
        flip(save(tmp_path, step) / "model.safetensors")
    with pytest.raises(InputError, match=r"step-000020/model.safetensors"):
        checkpoint.load_newest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000010", "step-000020"]


def test_one_to_go_back_to_is_spared(tmp_path: Path) -> None:
    for step in range(10, 60, 10):
        save(tmp_path, step, spare=25)
    assert [folder.name for folder in complete_checkpoints(tmp_path)] == ["step-000020", "step-000040", "step-000050"]
    checkpoint.discard_after(tmp_path, 45)
    assert [folder.name for folder in complete_checkpoints(tmp_path)] == ["step-000020", "step-000040"]
    checkpoint.discard_after(tmp_path, 3)
    assert [folder.name for folder in complete_checkpoints(tmp_path)] == ["step-000020"]


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "parts/../../secret"])
def test_a_marker_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    folder = save(tmp_path, 10)
    marker = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(marker | {"files": marker["files"] | {name: "0"}}))
    with pytest.raises(InputError, match="allowed: names inside its folder"):
        checkpoint.load(folder)


MARKERS = [
    "", "[]", "[" * 100_000,
    '{"format": 2}', '{"format": 1}', '{"format": 1, "files": []}', '{"format": 1, "files": {}}',
]  # fmt: skip


@pytest.mark.parametrize("marker", MARKERS, ids=lambda text: text[:30])
def test_a_broken_marker_is_an_error(tmp_path: Path, marker: str) -> None:
    folder = save(tmp_path, 10)
    (folder / "complete.json").write_text(marker)
    with pytest.raises(InputError, match=r"step-000010/complete.json"):
        checkpoint.load(folder)


def test_any_flipped_bit_of_a_marker_is_one_error(tmp_path: Path) -> None:
    """Or none, where only the step is another one or a blank: that of the state is what counts."""
    marker = save(tmp_path, 10) / "complete.json"
    whole, found = marker.read_bytes(), 0
    names = (b'"format"', b'"files"', b'"state.json"')
    for place in (whole.index(name) + offset for name in names for offset in range(len(name))):
        for bit in range(8):
            marker.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(InputError):
                checkpoint.load(marker.parent)
            found += 1
    assert found == 8 * sum(map(len, names))


def test_a_file_that_cannot_be_read_is_damage_too(tmp_path: Path) -> None:
    for step in (10, 20):
        save(tmp_path, step, {"session": Snapshot({"step": step})})
    marker = tmp_path / "step-000020" / "complete.json"
    saved = json.loads(marker.read_text())
    marker.write_text(json.dumps(saved | {"files": saved["files"] | {"n" * 5000: "0"}}))
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    assert loaded.step == 10
    assert "step-000020: the checkpoint cannot be read (File name too long)" in loaded.damaged[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"session.a\[1\].b: a value for a checkpoint: got nan; allowed: finite numbers, or None"),
        (float("-inf"), "got -inf"),
        ({1: 2}, "a key for a checkpoint: got '1'; allowed: text"),
        ({1, 2}, "a value for a checkpoint: got 'set'; allowed: JSON values"),
        (torch.ones(1), "got 'Tensor'"),
    ],
)
def test_what_json_cannot_hold_is_refused_before_anything_is_written(
    tmp_path: Path, value: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        save(tmp_path, 10, {"session": Snapshot({"a": [0, {"b": value}]})})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model", "../x", "", "A"])
def test_a_part_cannot_overwrite_the_policy(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="name of a part"):
        save(tmp_path, 10, {name: Snapshot()})


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("size", "step"), [(100, 20), (5_000, 20), (40_000, 20), (40_000, 10)])
def test_a_full_disk_is_one_error_and_the_last_one_stays_valid(tmp_path: Path, size: int, step: int) -> None:
    """Whichever file is the first that does not fit: config, weights or a part (100 kB here)."""
    save(tmp_path, 10, {"trainer": Snapshot({"a": 1})})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    parts = {"trainer": Snapshot({}, {"moments": torch.zeros(25_000)})}
    with full_disk(size), pytest.raises(StorageError, match=r"cannot be written \(File too large\)"):
        save(tmp_path, step, parts)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    assert (loaded.step, loaded.parts["trainer"].values) == (10, {"a": 1})


def test_a_kill_at_any_moment_leaves_a_valid_one(tmp_path: Path) -> None:
    """A process saves without end, new steps and the same step again, and is killed: what is newest is whole."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; import torch\n"
        "from scalerl.pipeline import checkpoint; from scalerl.pipeline.types import Snapshot\n"
        "from scalerl.policy import TinyLlama; from scalerl.policy.tiny import new_policy\n"
        "model, tokenizer = new_policy(TinyLlama(width=16, layers=1, heads=2, feed_forward=16), 1)\n"
        "for i in range(10**6):\n"
        "    part = Snapshot({'i': i}, {'x': torch.full((1000,), float(i))})\n"
        "    checkpoint.save(Path(sys.argv[1]), 1 + i // 3, {'a': part}, model=model, tokenizer=tokenizer, keep=1)\n"
        "    print(i, flush=True)\n"
    )
    src = str(Path(checkpoint.__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), src], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = [int(process.stdout.readline()) for _ in range(4)][-1]
    os.kill(process.pid, signal.SIGKILL)
    rest, _ = process.communicate()
    last = max([last, *map(int, rest.split())])
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    i = loaded.parts["a"].values["i"]
    assert i >= last
    assert loaded.step == 1 + i // 3
    assert torch.equal(loaded.parts["a"].tensors["x"], torch.full((1000,), float(i)))


def test_the_marker_lists_every_file(tmp_path: Path) -> None:
    folder = save(tmp_path, 10, {"trainer": Snapshot({"a": 1}, {"b": torch.ones(3)})})
    listed = set(json.loads((folder / "complete.json").read_text())["files"])
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert listed == files - {"complete.json"}
    assert {"config.json", "model.safetensors", "tokenizer.json", "parts/trainer.safetensors", "state.json"} <= listed
    assert {file.name for file in folder.glob("*.safetensors")} == {"model.safetensors"}  # vLLM takes all of them


def test_a_disk_that_fails_after_the_checkpoint_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the one before it, of the same step, is taken away: one of the two stays."""
    save(tmp_path, 10, {"session": Snapshot({"first": True})})
    rename = Path.rename

    def fail(path: Path, other: Path) -> Path:
        if other.name.startswith("step-000010.") and other.name.endswith(".partial"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, other)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            save(tmp_path, 10, {"session": Snapshot({"second": True})})
    loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None
    assert loaded.parts["session"].values == {"second": True}
