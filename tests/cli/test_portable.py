"""`scalerl train --set scale.launcher.portable=true`: it starts itself again with the settings, once, and says so."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from scalerl import portable
from scalerl.cli import main
from scalerl.errors import InputError, PortableError

from .conftest import Run
from .tiny import tiny_options

PORTABLE = "scale.launcher.portable=true"
INLINE = ('scale.launcher.kind="inline"', "scale.launcher.threads=1")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path_factory.mktemp("cache")))


def _as_a_process(*words: object) -> str:
    """A process of its own, without the settings; MKL tells on standard output how it multiplies."""
    environment = {name: value for name, value in os.environ.items() if name not in portable.ENVIRONMENT}
    command = [sys.executable, "-m", "scalerl", "train", "--no-live", *map(str, words)]
    environment |= {"MKL_VERBOSE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _weights(run: Path, step: int) -> bytes:
    return (run / "checkpoints" / f"step-{step:06}" / "model.safetensors").read_bytes()


def test_a_run_and_its_resumption_compute_with_the_settings(tmp_path: Path) -> None:
    try:
        portable.check_start()
    except InputError as error:
        pytest.skip(str(error))
    except PortableError:
        pass
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("portable runs need a processor with AVX2 and FMA")
    options = tiny_options(PORTABLE, *INLINE)
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    said = [
        _as_a_process(*options, "--budget", "2 steps", "--out", parts),
        _as_a_process("--resume", "--budget", "4 steps", "--out", parts),
        _as_a_process(*options, "--budget", "4 steps", "--out", whole),
    ]
    for text in said:
        products = [line for line in text.splitlines() if "GEMM" in line]
        assert products
        assert all("CNR:COMPATIBLE" in line for line in products)
    assert _weights(parts, 4) == _weights(whole, 4)
    sessions = json.loads((parts / "provenance.json").read_text())["sessions"]
    assert [session["portable"] for session in sessions] == [True, True]
    assert sessions[0]["command"][1:3] == ["train", "--no-live"]


def test_only_a_process_of_its_own_is_started_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    words = ["train", *tiny_options(PORTABLE, *INLINE), "--budget", "1 steps", "--out", "one"]
    ran = run(*words)
    assert (ran.code, ran.out, started) == (2, "", [])
    assert ran.err.startswith("scalerl: error: scale.launcher.portable: the process must be started with these")
    assert ran.err.count("\n") == 1
    assert not Path("one").exists()
    monkeypatch.setattr(sys, "argv", ["scalerl", *words])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-P", "-m", "scalerl", *words])
    main()
    program, command, environment = started[0]
    assert (program, command[1:4]) == (sys.executable, ["-P", "-m", "scalerl"])
    assert portable.ENVIRONMENT.items() <= environment.items()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (['scale.launcher.kind="local"'], "false with kind local; a portable run has kind inline"),
        (["scale.launcher.threads=2"], "false with threads 2; a portable run has threads 1"),
        (['scale.launcher.device="cuda"'], "false with device cuda; a portable run has device cpu"),
    ],
)
def test_what_cannot_be_portable_is_refused(run: Run, changes: list[str], words: str) -> None:
    ran = run("train", *tiny_options(PORTABLE, *INLINE, *changes), "--out", "one")
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_it_is_another_run(run: Run) -> None:
    plain = run("train", *tiny_options(*INLINE), "--dry-run", "--json").document
    same = run("train", *tiny_options(*INLINE, "scale.launcher.portable=false"), "--dry-run", "--json").document
    other = run("train", *tiny_options(*INLINE, PORTABLE), "--dry-run", "--json").document
    assert plain["digest"] == same["digest"] != other["digest"]
