"""Checkpoints that the disk has damaged, one file after the other, and two that are damaged at once."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from . import books, damages, kills
from .nursery import Nursery
from .small import Small


@pytest.fixture(scope="module")
def longer(nursery: Nursery, inline: kills.Ground, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was never stopped, with the longer budget."""
    folder = tmp_path_factory.mktemp("longer")
    ran = nursery.run(damages.LONGER.begin("run"), folder)
    assert ran.code == 0, ran.err
    assert inline.folder.is_dir()  # the warm start is in the cache
    return folder / "run"


@pytest.mark.parametrize("number", range(10))
def test_the_one_before_is_used(
    nursery: Nursery, tmp_path: Path, inline: kills.Ground, longer: Path, number: int
) -> None:
    """A file of each kind, and another kind of damage each time; that it happened is said in two places."""
    outcome = damages.damage_newest(nursery, tmp_path, number, inline.folder, longer)
    assert outcome.wrong == [], outcome


def test_there_are_not_more_kinds_of_files_than_are_tried(inline: kills.Ground) -> None:
    names = damages.files_of(inline.folder)
    parts = {"parts/trainer.safetensors", "parts/feed.safetensors"}
    assert {"complete.json", "state.json", "model.safetensors", *parts} < set(names)
    assert len(names) <= 10


def test_all_are_damaged(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    """One line, and everything as it was."""
    run = tmp_path / "run"
    shutil.copytree(inline.folder, run)
    for folder in books.checkpoints(run):
        damages.spoil(folder / "parts/trainer.safetensors", "bit", random.Random(1))
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}
    ran = nursery.run(Small().go_on("run", "--budget", "10"), tmp_path)
    assert ran.code == 2
    assert ran.refusal is not None
    assert "trainer.safetensors: a file of the checkpoint is damaged (wrong SHA-256)" in ran.refusal
    assert {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()} == before
    assert len(books.lines(run / "metrics.jsonl")) == Small().steps
