"""`scalerl sft --model`: options, mixing them up, Ctrl-C, and RL from the result."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from scalerl.cli import main
from scalerl.cli.sft_view import SftView
from scalerl.supervised.session import Progress

from .small import chats, new_folder, write

DOCS = Path(__file__).parents[2] / "docs" / "sft.md"
ASKED = ["sft", "--model", "model", "--data", "traces.jsonl", "--out", "out", "--learning-rate", "1e-2"]
ASKED += ["--set", "row_tokens=256", "--batch-tokens", "512", "--no-live"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    new_folder(tmp_path / "model")
    write(tmp_path / "traces.jsonl", chats(40))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_from_traces_to_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--set", "held_out_share=0.2"]) == 0
    printed = capsys.readouterr()
    assert "Policy    out\n" in printed.out
    assert "Traces    40 read" in printed.out
    assert re.search(r"step \d+ of \d+, loss \d\.\d+ \(held-out \d\.\d+\), [\d.]+k? tokens/s, 0:0\d left", printed.err)
    assert main([*ASKED, "--set", "held_out_share=0.2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reason"] == "already there"
    assert document["step"] == document["steps"] > 0
    assert document["traces"]["read"] == 40


def test_a_live_view(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word if word != "--no-live" else "--live" for word in ASKED]) == 0
    assert re.search(r"━.* step 8 of 8, loss", capsys.readouterr().err)


def test_ctrl_c_saves_and_the_same_command_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = [word if word != "out" else "whole" for word in ASKED]
    assert main(whole) == 0
    stepped = SftView.stepped

    def interrupted(self: SftView, progress: Progress) -> None:
        stepped(self, progress)
        if progress.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(SftView, "stepped", interrupted)
        assert main(ASKED) == 130
    printed = capsys.readouterr()
    assert "Stopped   after step 2; the same command goes on from there" in printed.out
    assert "stopping after this step and saving" in printed.err
    assert not Path("out").exists()
    assert main(ASKED) == 0
    assert "training from step 2 of" in capsys.readouterr().err
    for name in ("model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"):
        assert Path("out", name).read_bytes() == Path("whole", name).read_bytes()


def test_the_log_is_one_that_read_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ASKED) == 0
    capsys.readouterr()
    assert main(["read", "out/metrics.jsonl", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "loss" in printed
    assert "learning_rate" in printed


def test_rl_takes_the_result_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that is printed, and what stands in the place of its dots."""
    assert main(ASKED) == 0
    printed = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert (printed[:3], printed[-1]) == (["RL", "scalerl", "train"], "...")
    values = (
        'recipe.length={kind="none"}', "scale.task.numbers=2",
        "scale.task.train_problems=0", "scale.batch.prompts=2", "scale.batch.rollouts=4", "scale.tokens.prompt=48",
        "scale.tokens.thinking=16", "scale.tokens.answer=8", "scale.evaluation.problems=4",
        "scale.evaluation.samples=1", "scale.generator.rows=8",
    )  # fmt: skip
    sets = [word for value in values for word in ("--set", value)]
    assert main(["train", *printed[3:-1], *sets, "--budget", "2", "--out", "run", "--no-live"]) == 0, (
        capsys.readouterr().err
    )


MIXED: dict[str, tuple[list[str], str]] = {
    "no model": (["--data", "a.jsonl", "--epochs", "3"], "--data, --epochs; allowed: --model, which names the model"),
    "scale": (["--model", "m", "--data", "a", "--scale", "laptop"], "--scale; allowed: without --model only"),
    "no data": (["--model", "m", "--out", "o"], "nothing to train on; allowed: --data FILE"),
    "no out": (["--model", "m", "--data", "a"], "no place for the policy; allowed: --out DIR"),
    "unknown": (["--set", "learning_rat=1"], "unknown key learning_rat, did you mean learning_rate?"),
    "twice": (["--epochs", "3", "--set", "epochs=4"], "epochs is given twice"),
    "value": (["--epochs", "0"], "--epochs: epochs: got 0; allowed: a whole number at least 1"),
    "both": (
        ["--held-out", "a", "--set", "held_out_share=.1"],
        "held_out_share: got 0.1; allowed: 0, because held_out",
    ),
    "no folder": (["--model", "/nowhere"], "--model: got '/nowhere'; allowed: a folder that exists"),
    "no file": (["--data", "none.jsonl"], "none.jsonl: no such file"),
    "seed": (["--seed", "x"], "--seed: got 'x'; allowed: a whole number"),
}


@pytest.mark.parametrize("kind", MIXED)
def test_mistakes(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, message = MIXED[kind]
    alone = kind in {"no model", "scale", "no data", "no out"}
    assert main(["sft", *_completed(options, alone=alone)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not Path("out.training").exists()


def _completed(options: list[str], *, alone: bool) -> list[str]:
    """With what is needed besides, unless that is the point."""
    usual = {"--model": "model", "--data": "traces.jsonl", "--out": "out"}
    missing = [word for name, value in usual.items() if name not in options for word in (name, value)]
    return options if alone else [*options, *missing]


def test_the_commands_of_the_docs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that train a model, on small files of the names that the page uses."""
    write(folder / "held_out.jsonl", chats(5))
    write(folder / "pairs.jsonl", [{"question": f"What is {n}?", "answer": f"It is {n}."} for n in range(20)])
    found = re.findall(r"^scalerl sft --model .*$", DOCS.read_text(), re.MULTILINE)
    assert len(found) >= 3
    for command in found:
        words = shlex.split(command)[1:]
        assert main([*words, "--no-live"]) == 0, (command, capsys.readouterr().err)
        capsys.readouterr()
