"""`scalerl read`, and logs given to the commands that fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scalerl.cli import main

STEPS = range(0, 420, 20)
METRIC = "val-core/gsm8k/acc/mean@8"


def value(step: int) -> float:
    noise = 0.004 * np.random.default_rng(step).standard_normal()
    return float(0.2 + 0.5 / (1 + (90 / max(step, 1e-9)) ** 1.4) + noise)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """verl's JSONL: an evaluation every 20 steps, 30 s a step, one line torn off at the end."""
    lines = []
    for step in range(STEPS[-1] + 1):
        data = {"timing_s/step": 30.0, "actor/entropy": 0.5, "perf/total_num_tokens": 1000.0}
        if step in STEPS:
            data[METRIC] = value(step)
        lines.append(json.dumps({"step": step, "data": data}))
    (tmp_path / "verl.jsonl").write_text("\n".join([*lines[:7], "garbage", *lines[7:]]) + '\n{"step": 4')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "130")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_list(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "read", "verl.jsonl", "--list")
    assert code == 0
    assert METRIC in out
    assert "timing_s/step" in out
    assert "0 to 400" in out
    assert "skipped 1 broken line" in out
    code, out, _ = run(capsys, "read", "verl.jsonl", "--list", "--json")
    document = json.loads(out)
    metrics = {one["name"]: one for one in document["metrics"]}
    assert metrics[METRIC]["count"] == len(STEPS)
    assert metrics["timing_s/step"]["low"] == metrics["timing_s/step"]["high"] == 30.0


def test_a_table_is_listed_as_a_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log / "plain.csv").write_text("gpu_hours,pass_rate\n1,0.1\n2,0.2\n")
    assert json.loads(run(capsys, "read", "plain.csv", "--list", "--json")[1])["kind"] == "a table"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_to_a_table_that_reads_back(log: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    target = f"out/curve.{ending}"
    code, out, err = run(capsys, "read", "verl.jsonl", "--gpus", "8", "--n", "512", "--to", target)
    assert code == 0, err
    assert f"Written: {target}" in out
    assert "timing_s/step, summed over the steps x 8 GPUs / 3600" in out.replace("\n", " ")
    _, again, _ = run(capsys, "read", target, "--json")
    _, direct, _ = run(capsys, "read", "verl.jsonl", "--gpus", "8", "--n", "512", "--json")
    first, second = json.loads(again), json.loads(direct)
    assert first["compute"] == pytest.approx(second["compute"])
    assert first["value"] == pytest.approx(second["value"])
    assert first["n"] == second["n"] == [512.0] * 20
    assert first["start"] == second["start"]
    assert second["compute"][-1] == pytest.approx(400 * 30 * 8 / 3600)
    assert first["compute_name"] == "gpu_hours"


def test_to_standard_output(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "read", "verl.jsonl", "--x", "steps", "--to", "-")
    assert code == 0
    assert out.splitlines()[0] == f"step,{METRIC}"
    assert len(out.splitlines()) == 1 + len(STEPS)
    assert "skipped 1 broken line" in err


def test_several_logs_in_one_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log / "other.jsonl").write_bytes((log / "verl.jsonl").read_bytes())
    code, _, _ = run(capsys, "read", "verl.jsonl", "other.jsonl", "--to", "both.csv")
    assert code == 0
    code, out, _ = run(capsys, "compare", "both.csv", "--by", "curve", "--json")
    assert code == 0
    assert {pair["challenger"] for pair in json.loads(out)["pairs"]} == {"other"}


@pytest.mark.parametrize("command", ["fit", "decide", "backtest"])
def test_the_commands_take_logs(log: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = run(capsys, command, "verl.jsonl", "--metric", METRIC, "--gpu-hours-per-step", "0.5", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert any("--gpu-hours-per-step" in note for note in document["notes"])
    if command == "fit":
        assert document["ceiling"]["value"] == pytest.approx(0.7, abs=0.03)
        assert document["x"] == "gpu_hours"
        assert document["window"]["last"] == 200.0


def test_what_was_done_is_said_above_a_fit(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fit", "verl.jsonl", "--params", "8B")
    assert code == 0
    words = " ".join(out.split())
    assert "Compute: flops = perf/total_num_tokens, summed over the steps x 8 x 8e+09 parameters" in words
    assert "Skipped 1 broken line" in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["read"], "nothing to read; allowed: FILE..."),
        (["read", "none.jsonl"], "none.jsonl: no such file"),
        (["read", "verl.jsonl", "--metric", "acc"], "unknown metric for --metric: got 'acc'"),
        (["read", "verl.jsonl", "--gpus", "0"], "--gpus: got '0'; allowed: a finite number above zero"),
        (["read", "verl.jsonl", "--gpus", "8", "--params", "8B"], "--gpus and --params together"),
        (["read", "verl.jsonl", "--to", "curve.xlsx"], "--to: got 'curve.xlsx'; allowed: a file name ending in .csv"),
        (["read", "verl.jsonl", "--metric", "timing_s/step"], "unusable 'timing_s/step': got 30.0; allowed: 0 to 1"),
        (["read", "verl.jsonl", "--to", "verl.jsonl"], "--to is one of the files to read: got 'verl.jsonl'"),
        (["report", "verl.jsonl", "--format", "json", "-o", "./verl.jsonl"], "-o"),
        (["fit", "--example", "scalerl-8b", "--gpus", "8"], "--example does not go with --gpus"),
    ],
)
def test_bad_input(log: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not [path for path in log.iterdir() if path.name != "verl.jsonl"]
    assert len((log / "verl.jsonl").read_text().splitlines()) == STEPS[-1] + 3


def test_compare_says_how_each_log_was_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log / "other.jsonl").write_bytes((log / "verl.jsonl").read_bytes())
    code, out, _ = run(capsys, "compare", "verl.jsonl", "other.jsonl", "--gpus", "8")
    assert code == 0
    assert "verl: compute: gpu_hours = timing_s/step, summed over the steps" in out
    assert "other: skipped 1 broken line (" in out
