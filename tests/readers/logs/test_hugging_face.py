"""trainer_state.json as TRL writes it: whole, found in folders, and damaged. (The Trainer: test_real_trainer.py.)"""

import json
from pathlib import Path

import pytest

from scalerl.readers.logs import hugging_face, text_lines
from scalerl.readers.logs.hugging_face import (
    TrainerStateLog,
    find_trainer_states,
    is_trainer_state,
)
from scalerl.readers.logs.records import Record, Tally

TRL = Path(__file__).parent / "data" / "trl_trainer_state.json"


def read(path: Path) -> tuple[list[Record], Tally]:
    tally = Tally()
    return list(TrainerStateLog(path, str(path)).records(tally)), tally


def damaged(path: Path, data: bytes) -> tuple[list[Record], Tally]:
    path.write_bytes(data)
    return read(path)


def test_checkpoints_are_ordered_by_step_and_not_by_name(tmp_path: Path) -> None:
    for step in (9, 100, 20):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 20, "log_history": []}))
    (tmp_path / "checkpoint-200").mkdir()
    (tmp_path / "checkpoint-200" / "trainer_state.json").write_bytes(b"")  # the crash came while it was saved
    found = find_trainer_states(tmp_path)
    assert [path.parent.name for path in found] == ["checkpoint-100", tmp_path.name, "checkpoint-20", "checkpoint-9"]


def test_trl(tmp_path: Path) -> None:
    records, tally = read(TRL)
    evals = [(record.step, record.values["eval_reward"]) for record in records if "eval_reward" in record.values]
    assert [step for step, _ in evals] == [0, 4, 8, 12]
    assert evals[0][1] == pytest.approx(0.4458333)
    tokens = [record.values["num_tokens"] for record in records if "num_tokens" in record.values]
    assert tokens == sorted(tokens)  # a running total
    assert all(record.values["step_time"] > 0 for record in records if "loss" in record.values)
    assert tally.skipped == {}


@pytest.mark.parametrize("block", [50, 333, 4096])
def test_blocks_leave_no_trace(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    whole, _ = read(TRL)
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", block)
    assert read(TRL)[0] == whole


def test_every_cut_keeps_the_complete_entries(tmp_path: Path) -> None:
    data = TRL.read_bytes()
    whole, _ = read(TRL)
    ends = [at + 1 for at in range(len(data)) if data[at : at + 2] in (b"},", b"}\n") and at > data.index(b"[")]
    for cut in range(400, data.index(b"]"), 97):
        records, tally = damaged(tmp_path / "cut.json", data[:cut])
        assert records == whole[: sum(end <= cut for end in ends)]
        assert sum(tally.skipped.values()) == 1


@pytest.mark.parametrize("garbage", [b"\0" * 40, b"\xff\xfe", b"<<<<<<< HEAD\n", b'"reward": 0.5.5,\n'])
def test_garbage_in_the_middle_costs_one_entry(tmp_path: Path, garbage: bytes) -> None:
    data = TRL.read_bytes()
    whole, _ = read(TRL)
    at = data.index(b'"step": 6')
    records, tally = damaged(tmp_path / "bad.json", data[: at + 8] + garbage + data[at + 8 :])
    assert records == [record for record in whole if record.step != 6]
    assert tally.notes() == ["skipped 1 broken entry of log_history (first: entry 5)"]


def test_an_endless_broken_entry_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugging_face, "_ENOUGH", 1000)
    monkeypatch.setattr(hugging_face, "LONGEST_LINE_BYTES", 5000)
    monkeypatch.setattr(text_lines, "BLOCK_BYTES", 500)
    data = b'{"log_history": [{"step": 1, "a": 1.0}, {"step": ' + b"x" * 20_000 + b"}, {"
    records, tally = damaged(tmp_path / "bad.json", data)
    assert [record.step for record in records] == [1]
    assert tally.skipped == {"torn last entries of log_history": 1}


def test_nothing_in_it(tmp_path: Path) -> None:
    assert damaged(tmp_path / "empty.json", b"")[1].skipped == {"files without a log_history": 1}
    records, tally = damaged(tmp_path / "none.json", b'{"global_step": 0, "log_history": [], "max_steps": 5}')
    assert (records, tally.skipped) == ([], {})


def test_other_json_is_not_taken_for_it() -> None:
    assert not is_trainer_state(b'{"step": 1, "log_history": 3}')
    assert not is_trainer_state(b'[{"log_history": []}]')
    assert not is_trainer_state(b"")
