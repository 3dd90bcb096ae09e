"""Keys and tokens are not written down: not in files, not in messages, not on pages."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import curve, write
from tests.report.runs import begin

from scalerl.cli import main
from scalerl.config.study import study_from
from scalerl.redaction import command_without_secrets, without_secrets
from scalerl.report.access import Access
from scalerl.study.command_runner import CommandRunner
from scalerl.study.plan import plan
from scalerl.study.process import last_words

CANARY = "c4n4ry-d0-n0t-wr1te-me"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://ada:{CANARY}@host/x", "https://***@host/x"),
        (f"cannot open s3://{CANARY}@bucket/a", "cannot open s3://***@bucket/a"),
        (f"https://host/x?a=1&sig={CANARY}&b=2", "https://host/x?a=1&sig=***&b=2"),
        (f"api_key={CANARY}", "api_key=***"),
        (f"trainer.wandb_token: '{CANARY}'", "trainer.wandb_token: '***'"),
        (f"https://hooks.slack.com/services/T0/B0/{CANARY}", "https://hooks.slack.com/***"),
        ("hf_ABCDEFGHIJKLMNOPQRSTUVWX", "***"),
        ("Bearer sk-proj-0123456789abcdef0123", "Bearer ***"),
        (f"password={CANARY} user=ada", "password=*** user=ada"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text, {}) == shown


@pytest.mark.parametrize(
    "text",
    [
        "scale.tokens.answer=15", "scale.model.experts_per_token=2", "scale.task.answer_key=label",
        "prompt_key=question", "https://wandb.ai/ada/project/runs/abc", "runs/a@b", "tokens: 4,096", "hf_hub",
        "--x tokens", "sk-1", "val-core/openai/gsm8k/acc/mean@1", "a token is needed: open the address",
    ],
)  # fmt: skip
def test_everything_else_stays(text: str) -> None:
    assert without_secrets(text, {}) == text
    assert command_without_secrets([text], {}) == [text]


def test_what_the_environment_calls_a_secret_is_hidden_everywhere() -> None:
    environment = {"WANDB_API_KEY": CANARY, "HF_TOKEN": f"{CANARY}-longer", "HOME": "/home/ada", "SHORT_KEY": "train"}
    text = f"train /home/ada {CANARY} and {CANARY}-longer"
    assert without_secrets(text, environment) == "train /home/ada *** and ***"


def test_an_option_says_what_stands_behind_it() -> None:
    command = ["scalerl", "watch", "--token", CANARY, f"--webhook=https://host/{CANARY}", "--webhook", CANARY, "runs"]
    shown = ["scalerl", "watch", "--token", "***", "--webhook=https://host/***", "--webhook", "***", "runs"]
    assert command_without_secrets(command, {}) == shown


def everything_in(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join([*map(str, files), *(path.read_bytes().decode(errors="replace") for path in files)])


@pytest.mark.parametrize("given", ["options", "environment"])
@pytest.mark.parametrize(
    "webhook", [f"http://127.0.0.1:9/{CANARY}", f"http://ada:{CANARY}@127.0.0.1:9/", f"ftp://host/{CANARY}"]
)
def test_watching_tells_nobody(
    tmp_path: Path,
    given: str,
    webhook: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("scalerl.report.webhook.TRIES", 1)
    write(tmp_path / "one.csv", *curve(0.7, 600, 1))
    options = ["--token", CANARY, "--webhook", webhook]
    if given == "environment":
        monkeypatch.setenv("SCALERL_TOKEN", CANARY)
        monkeypatch.setenv("SCALERL_WEBHOOK", webhook)
        options = []
    code = main(["watch", "one.csv", "--no-page", "--until-decided", "--timeout", "60", *options])
    said = capsys.readouterr()
    assert code == (2 if webhook.startswith("ftp") else 10)
    assert ("the webhook was not told" in said.err) is (code == 10)
    assert CANARY not in said.out + said.err
    assert CANARY not in everything_in(tmp_path)


def test_a_command_that_was_kept_is_shown_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of earlier versions may have one in their provenance."""
    run = tmp_path / "run"
    begin(run, range(0, 300, 20), finished=True)
    kept = json.loads((run / "provenance.json").read_text())
    kept["sessions"][-1]["command"] = ["scalerl", "train", "--token", CANARY, f"https://a:{CANARY}@host/"]
    (run / "provenance.json").write_text(json.dumps(kept))
    for form in ("html", "md", "json"):
        assert main(["report", str(run), "--format", form, "-o", str(tmp_path / f"page.{form}")]) == 0
    assert main(["runs", "show", str(run)]) == 0
    (run / "provenance.json").unlink()
    said = capsys.readouterr()
    assert CANARY not in said.out + said.err + everything_in(tmp_path)


def test_a_token_in_an_error_is_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    for arguments in (
        ["fit", f"{CANARY}.csv"],
        ["fit", f"https://ada:{CANARY}@host/x.csv"],
        ["read", f"wandb:{CANARY}"],
    ):
        assert main(arguments) == 2
    assert main(["watch", "one.csv", "--token", CANARY[:7]]) == 2
    said = capsys.readouterr().err
    assert CANARY not in said
    assert CANARY[:7] not in said


def test_a_study_notes_its_commands_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself gets the key, by the environment; what is kept of its last words does not have it."""
    monkeypatch.setenv("HF_TOKEN", CANARY)
    program = "import os, sys; sys.exit('no access with ' + os.environ['HF_TOKEN'] + ' ' + sys.argv[1][-3:])"
    (tmp_path / "fail.py").write_text(program)
    config = study_from(
        {
            "name": "s", "seeds": [0], "base": {"set": {"a": 1}}, "cells": [{"name": "c", "set": {"a": 2}}],
            "runner": {
                "kind": "command", "log": "{out}/log.csv",
                "command": f"{sys.executable} {tmp_path / 'fail.py'} https://ada:{CANARY}@host/{{a}}",
            },
        },
        "a test",
    )  # fmt: skip
    job, place = plan(config).jobs[0], tmp_path / "job"
    place.mkdir()
    child = CommandRunner(config.runner).start(job, place, 1.0)  # type: ignore[arg-type]  # it is one of a command
    while child.poll() is None:
        time.sleep(0.05)
    (header, *_) = (place / "output.txt").read_text().splitlines()
    assert "https://***@host/1" in header
    assert CANARY not in header
    assert last_words(place) == "no access with *** t/1"


def test_the_token_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return given == known

    monkeypatch.setattr("hmac.compare_digest", compare)
    assert not Access("127.0.0.1", CANARY).knows(CANARY[:-1])
    assert Access("127.0.0.1", CANARY).knows(CANARY)
    assert compared == [(CANARY[:-1].encode(), CANARY.encode()), (CANARY.encode(), CANARY.encode())]


def test_the_provenance_of_a_run_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    words = ["scalerl", "train", f"--webhook=https://h/{CANARY}x", f"https://a:{CANARY}y@h/", CANARY]
    monkeypatch.setattr(sys, "argv", words)
    begin(tmp_path / "run", range(0, 60, 20), finished=True)
    assert "https://***@h/" in (tmp_path / "run" / "provenance.json").read_text()
    assert CANARY not in everything_in(tmp_path)
