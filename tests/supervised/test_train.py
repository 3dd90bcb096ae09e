"""Training of a real model's small sibling: it learns, goes on bit for bit, and leaves what any tool loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, MambaConfig, MambaForCausalLM

from scalerl.errors import InputError, TrainingError
from scalerl.policy.tiny import save_policy
from scalerl.readers.json_lines import read_records
from scalerl.supervised.session import Progress
from scalerl.supervised.settings import SftSettings, load_settings
from scalerl.supervised.train import SftResult, train_supervised

from .small import CHATML, FORGETFUL, chats, new_folder, new_tokenizer, write


class Seen:
    """A watcher that remembers, and can end the process at a step as a crash would."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.notes: list[str] = []
        self.steps: list[Progress] = []
        self.begun: list[int] = []
        self._crash_at = crash_at

    def reading(self, num_traces: int) -> None: ...

    def notice(self, text: str) -> None:
        self.notes.append(text)

    def started(self, progress: Progress) -> None:
        self.begun.append(progress.step)

    def stepped(self, progress: Progress) -> None:
        self.steps.append(progress)
        if progress.step == self._crash_at:
            raise RuntimeError("power cut")

    def evaluated(self, progress: Progress) -> None: ...

    def after_two_steps(self) -> bool:
        return len(self.steps) == 2


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return new_folder(tmp_path / "model")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "traces.jsonl", chats(40))


def settings(model: Path, data: Path, **changes: Any) -> SftSettings:
    usual = {
        "model": str(model), "data": [str(data)], "epochs": 2, "learning_rate": 1e-2, "row_tokens": 256,
        "batch_tokens": 512, "checkpoint_every": 3,
    }  # fmt: skip
    return load_settings(usual | changes)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def losses(folder: Path) -> list[tuple[float, ...]]:
    keys = ("step", "loss", "learning_rate", "grad_norm", "tokens")
    return [tuple(line.get(key, -1.0) for key in keys) for line in read_records(folder / "metrics.jsonl")]


def same(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_it_learns_and_leaves_a_plain_folder(model: Path, data: Path, tmp_path: Path) -> None:
    seen, out = Seen(), tmp_path / "out"
    result = train_supervised(settings(model, data, epochs=6, held_out_share=0.2), out, seen)
    assert (result.reason, result.folder) == ("finished", out)
    assert not out.with_name("out.training").exists()
    lines = read_records(out / "metrics.jsonl")
    held_out = [line["held_out_loss"] for line in lines if "held_out_loss" in line]
    assert lines[0]["step"] == 0
    assert held_out[-1] < 0.6 * held_out[0]
    assert [line["step"] for line in lines] == [0, *(progress.step for progress in seen.steps)]
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.chat_template == CHATML
    loaded = AutoModelForCausalLM.from_pretrained(out)
    assert loaded.config.vocab_size == len(tokenizer)
    record = json.loads((out / "sft.json").read_text())
    assert record["traces"]["read"] == 40
    assert record["traces"]["held_out"] > 0
    assert record["measured"]["learnt_tokens"] < record["measured"]["tokens"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_that_was_stopped_goes_on_bit_for_bit(model: Path, data: Path, tmp_path: Path, dtype: str) -> None:
    asked = settings(model, data, dtype=dtype, held_out_share=0.2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_supervised(asked, whole, Seen())
    reasons = []
    for _ in range(20):
        seen = Seen()
        result = train_supervised(asked, parts, seen, seen.after_two_steps)
        reasons.append(result.reason)
        if result.reason == "finished":
            break
        assert result.folder == parts.with_name("parts.training")
        assert not parts.exists()
    assert len(reasons) > 2
    assert same(whole, parts)
    assert losses(whole) == losses(parts)
    assert weights(whole)["model.norm.weight"].dtype == getattr(torch, dtype)


def test_a_crash_costs_what_came_after_the_checkpoint_and_nothing_else(model: Path, data: Path, tmp_path: Path) -> None:
    asked = settings(model, data)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_supervised(asked, whole, Seen())
    for crash_at in (2, 5):  # before the first checkpoint, and between two
        with pytest.raises(RuntimeError, match="power cut"):
            train_supervised(asked, parts, Seen(crash_at))
    seen = Seen()
    train_supervised(asked.model_copy(update={"checkpoint_every": 2}), parts, seen)
    assert seen.begun == [3]
    assert same(whole, parts)
    assert losses(whole) == losses(parts)


def test_the_same_call_again_does_nothing(model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = train_supervised(settings(model, data), out, Seen())
    seen = Seen()
    again = train_supervised(settings(model, data), out, seen)
    assert (again.reason, again.progress, seen.steps) == ("already there", first.progress, [])
    with pytest.raises(InputError, match="the folder holds a policy of other settings"):
        train_supervised(settings(model, data, seed=1), out, Seen())


def stopped(asked: SftSettings, out: Path) -> SftResult:
    return train_supervised(asked, out, Seen(), lambda: True)


def test_another_training_is_not_mistaken_for_this_one(model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stopped(settings(model, data), out)
    with pytest.raises(InputError, match=r"out\.training: learning_rate: got '0\.02'; allowed: 0\.01, to go on"):
        train_supervised(settings(model, data, learning_rate=2e-2), out, Seen())
    write(data, chats(41))
    with pytest.raises(InputError, match="the traces have changed since the training began"):
        train_supervised(settings(model, data), out, Seen())


def test_how_rows_are_packed_does_not_change_the_result(model: Path, data: Path, tmp_path: Path) -> None:
    """One step over everything: the mean over tokens, whatever the rows."""
    found = []
    for row_tokens in (64, 256):
        out = tmp_path / str(row_tokens)
        train_supervised(settings(model, data, row_tokens=row_tokens, batch_tokens=10**6, epochs=1), out, Seen())
        found.append(losses(out)[0])
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_a_row_is_no_larger_than_a_step(model: Path, data: Path, tmp_path: Path) -> None:
    """Or a small batch would be a large one."""
    train_supervised(settings(model, data, row_tokens=0, batch_tokens=256, epochs=1), tmp_path / "out", Seen())
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) > 1
    assert lines[0]["tokens"] <= 256


def test_gradient_checkpointing_changes_nothing(model: Path, data: Path, tmp_path: Path) -> None:
    found = []
    for flag in (False, True):
        out = tmp_path / str(flag)
        train_supervised(settings(model, data, gradient_checkpointing=flag, epochs=1), out, Seen())
        found.append(losses(out)[-1])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_long_traces(model: Path, data: Path, tmp_path: Path) -> None:
    rows = [*chats(6), {"messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "x " * 99}]}]
    write(data, rows)
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"longer than 80 tokens \(first: .*line 7\): got '1 of 7'; .*--too-long skip"):
        train_supervised(settings(model, data, max_tokens=80), out, Seen())
    assert not out.with_name("out.training").exists()
    seen = Seen()
    result = train_supervised(settings(model, data, max_tokens=80, too_long="skip"), out, seen)
    assert seen.notes[0].startswith("1 trace is left out: longer than 80 tokens (the longest has")
    assert (result.record["traces"]["too_long"], result.record["traces"]["documents"]) == (1, 6)
    with pytest.raises(InputError, match="max_tokens: got 300; allowed: at most the context of the model, 256"):
        train_supervised(settings(model, data, max_tokens=300, row_tokens=0), tmp_path / "b", Seen())


def test_turn_by_turn_is_said(data: Path, tmp_path: Path) -> None:
    """Some questions have a second turn, and the template forgets the thinking of the first."""
    seen = Seen()
    result = train_supervised(settings(new_folder(tmp_path / "m", FORGETFUL), data), tmp_path / "out", seen)
    assert seen.notes == [
        "14 conversations are learnt turn by turn, because the chat template shows earlier turns differently"
    ]
    assert result.record["traces"]["documents"] == 40 + 14


def test_a_model_that_cannot_be_packed_gets_one_trace_at_a_time(data: Path, tmp_path: Path) -> None:
    tokenizer = new_tokenizer()
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, state_size=4)
    (tmp_path / "mamba").mkdir()
    save_policy(tmp_path / "mamba", MambaForCausalLM(config), tokenizer)
    seen = Seen()
    result = train_supervised(settings(tmp_path / "mamba", data, epochs=1), tmp_path / "out", seen)
    assert seen.notes == ["one trace at a time: a model of type mamba does not keep packed traces apart"]
    assert result.record["measured"]["rows"] == 40


def test_a_share_of_the_prompts_is_held_out_with_all_their_traces(model: Path, data: Path, tmp_path: Path) -> None:
    write(data, [*chats(40), *chats(40)])
    result = train_supervised(settings(model, data, held_out_share=0.3, epochs=1), tmp_path / "out", Seen())
    held_out = result.record["traces"]["held_out"]
    assert 0 < held_out < 80
    assert held_out % 2 == 0


def test_divergence_is_an_error_and_not_a_policy(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"step \d+: loss or gradient is not finite"):
        train_supervised(settings(model, data, learning_rate=1e30, grad_clip=1e30), tmp_path / "out", Seen())
    assert not (tmp_path / "out").exists()
