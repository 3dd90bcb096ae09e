"""Six of the runs that `make faults` kills at random moments, and the books of each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from . import books, kills
from .nursery import Nursery
from .small import Small


@pytest.mark.parametrize("number", range(6))
def test_a_killed_run_comes_to_its_end(
    nursery: Nursery, tmp_path: Path, inline: kills.Ground, local: kills.Ground, number: int
) -> None:
    """With every step once, every group once, nothing that was saved lost, and nothing left behind."""
    grounds = {"inline": inline, "local": local}
    plan = kills.plan_of(number, grounds)
    outcome = kills.torture(nursery, tmp_path, plan, grounds[plan.launcher])
    assert outcome.wrong == [], outcome
    assert outcome.kills


def test_the_kills_do_hit(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    """In the middle of the second checkpoint, where the first is what there is to go on from."""
    points = books.read_json(nursery.folder / "writes-inline.json")
    wanted = "write checkpoints/step-000004.*.partial/model.safetensors"
    strike = kills.Strike("trainer", write=1 + points.index(wanted))
    outcome = kills.torture(nursery, tmp_path, kills.Plan(0, "inline", False, 1, (strike,)), inline)
    assert outcome.wrong == []
    (kill,) = outcome.kills
    assert kill.endswith("saved 2, logged 2 more")
    assert outcome.steps_again == 2


def test_books_that_are_wrong_are_noticed(inline: kills.Ground, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(inline.folder, run)
    assert books.complaints(run, Small()) == []
    metrics = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join([*metrics[:3], metrics[2], *metrics[4:]]))
    found = "\n".join(books.complaints(run, Small()))
    for words in ("steps in metrics.jsonl: [1, 2, 3, 3, 5", "group 6 was trained twice", "group 9 is lost"):
        assert words in found
    (run / "metrics.jsonl").write_text("".join(metrics))
    (run / "checkpoints" / "step-000008" / "model.safetensors").write_bytes(b"")
    assert books.complaints(run, Small()) == ["step-000008/model.safetensors is damaged"]
    assert books.difference(run, inline.folder) == ["model.safetensors of the last checkpoint differs"]
