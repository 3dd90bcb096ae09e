"""Units of the processor that kill the process: found out by a child, and left alone afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from scalerl.policy import processor

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
LIVES = "raise SystemExit(1)"


@pytest.fixture(autouse=True)
def amx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A processor that shows AMX, and nothing settled yet."""
    flags = tmp_path / "cpuinfo"
    flags.write_text("flags : fpu avx512_bf16 amx_bf16 amx_tile\n")
    monkeypatch.setattr(processor, "FLAGS", flags)
    monkeypatch.setenv(processor.SETTING, "")  # so that it is put back whatever the test does
    del os.environ[processor.SETTING]
    return flags


def test_units_that_kill_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "TRIAL", DIES)
    processor.spare_broken_units()
    assert os.environ[processor.SETTING] == "AVX512_CORE_BF16"


def test_units_that_work_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "TRIAL", LIVES)
    processor.spare_broken_units()
    assert processor.SETTING not in os.environ


def test_what_the_user_has_settled_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "TRIAL", DIES)
    monkeypatch.setenv(processor.SETTING, "AVX2")
    processor.spare_broken_units()
    assert os.environ[processor.SETTING] == "AVX2"


@pytest.mark.parametrize("text", ["flags : fpu avx2\n", None])
def test_without_such_units_nothing_is_tried(text: str | None, amx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "TRIAL", DIES)
    amx.unlink() if text is None else amx.write_text(text)
    processor.spare_broken_units()
    assert processor.SETTING not in os.environ


def test_the_trial_itself_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has: afterwards a product in bfloat16 survives in a new process."""
    processor.spare_broken_units()
    assert not processor._dies(processor.TRIAL)


def test_whoever_asks_torch_is_told_that_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    processor.hide_broken_units()
    assert torch.cpu._is_amx_tile_supported()
    monkeypatch.setenv(processor.SETTING, processor.WITHOUT_AMX)
    processor.hide_broken_units()
    assert not torch.cpu._is_amx_tile_supported()
