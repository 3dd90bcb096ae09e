"""A verifier that fails, rewards that never differ, a side that is slow, and numbers that are not finite."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from . import books, kills
from .nursery import Nursery
from .small import PROMPTS, ROLLOUTS, K, Small


@pytest.mark.parametrize("how", ["raises", "nonsense", "odd_status", "fewer"])
def test_a_verifier_that_fails_now_and_then(nursery: Nursery, tmp_path: Path, inline: kills.Ground, how: str) -> None:
    """What it fails at is not judged, and counted; the run goes on."""
    ran = nursery.run(Small().begin("run"), tmp_path, tampering=[("verifier", {"how": how, "every": 3})])
    assert ran.code == 0, ran.err
    assert books.complaints(tmp_path / "run", Small()) == []
    unjudged = [line["unjudged_rollouts"] for line in books.lines(tmp_path / "run" / "metrics.jsonl")]
    assert sum(unjudged) > 0
    assert all(count <= PROMPTS * ROLLOUTS for count in unjudged)
    clean = books.lines(inline.folder / "metrics.jsonl")
    assert sum(line["unjudged_rollouts"] for line in clean) == 0


def test_a_judge_in_a_process_of_its_own_that_hangs_dies_and_talks_nonsense(nursery: Nursery, tmp_path: Path) -> None:
    """The judge of mathematics; a policy that was never warmed up writes what only sympy could judge."""
    rows = [{"prompt": f"{a}+{b}=", "answer": rf"\sqrt{{{a}}}+{b}x"} for a in range(1, 9) for b in range(1, 9)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = (
        'scale.task={kind="file", path="sums.jsonl", verifier="math", held_out_share=0.3, timeout_s=0.2, workers=1}',
        'scale.warm_start={kind="none"}',
    )  # fmt: skip
    run = Small(steps=2, evaluate_every=2, sets=sets)
    handler = str(Path(__file__).with_name("hanging_handler.py"))
    ran = nursery.run(run.begin("run"), tmp_path, tampering=[("worker_of_verifier", {"handler": handler})])
    assert ran.code == 0, ran.err
    assert books.complaints(tmp_path / "run", run) == []
    metrics = books.lines(tmp_path / "run" / "metrics.jsonl")
    assert all(0 < line["unjudged_rollouts"] < PROMPTS * ROLLOUTS for line in metrics)


def test_rewards_that_never_differ(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    """A hundred steps without anything to learn: they are made, counted and said, and change nothing."""
    assert inline.folder.is_dir()
    run = Small(steps=100, evaluate_every=50, save_every=50)
    ran = nursery.run(run.begin("run"), tmp_path, tampering=[("verifier", {"how": "wrong"})])
    assert ran.code == 0, ran.err
    assert books.complaints(tmp_path / "run", run) == []
    metrics = books.lines(tmp_path / "run" / "metrics.jsonl")
    assert {line["zero_variance_groups"] for line in metrics} == {PROMPTS}
    assert {(line["loss"], line["grad_norm"]) for line in metrics} == {(None, None)}
    start = {_digest(file) for file in (nursery.folder / "cache").glob("*/model.safetensors")}
    weights = {_digest(folder / "model.safetensors") for folder in books.checkpoints(tmp_path / "run")}
    assert len(weights) == 1
    assert weights <= start


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("side", ["generator", "trainer"])
def test_a_slow_side_keeps_the_other_waiting_and_no_more(
    nursery: Nursery, tmp_path: Path, local: kills.Ground, side: str
) -> None:
    """Ages stay within the bound, and the slow trainer's rollouts reach it."""
    assert local.folder.is_dir()
    run = Small("local")
    slow_trainer = [("slow_trainer", {"seconds": 0.3})] if side == "trainer" else []
    slow_generator = [("slow_generator", {"seconds": 0.02})] if side == "generator" else []
    ran = nursery.run(run.begin("run"), tmp_path, tampering=slow_trainer, in_generator=slow_generator)
    assert ran.code == 0, ran.err
    assert books.complaints(tmp_path / "run", run) == []
    metrics = books.lines(tmp_path / "run" / "metrics.jsonl")
    if side == "trainer":
        assert max(line["age_max"] for line in metrics) == K
    else:
        assert max(line["trainer_idle"] for line in metrics) > 0.5


def test_a_generator_that_starts_late_finds_the_checkpoint_that_it_was_given(
    nursery: Nursery, tmp_path: Path, local: kills.Ground
) -> None:
    """The trainer has groups for some steps in its buffer, and saves after each: older checkpoints are removed."""
    assert local.folder.is_dir()
    run = Small("local", save_every=1)
    slow = [("slow_trainer", {"seconds": 0.3})]  # so that the buffer is full at the end
    assert nursery.run([*run.begin("run")[:-1], "scale.budget.amount=4"], tmp_path, tampering=slow).code == 0
    late = [("slow_start", {"seconds": 3.0})]
    ran = nursery.run(run.go_on("run", "--budget", str(run.steps)), tmp_path, in_generator=late)
    assert ran.code == 0, ran.err
    assert [line["step"] for line in books.lines(tmp_path / "run" / "metrics.jsonl")] == list(range(1, run.steps + 1))


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_skipped(
    nursery: Nursery, tmp_path: Path, inline: kills.Ground, what: str
) -> None:
    """It counts as a step, changes nothing, and its batch is kept for whoever wants to know why."""
    assert inline.folder.is_dir()
    ran = nursery.run(Small().begin("run"), tmp_path, tampering=[("not_finite", {"steps": [4, 6], "what": what})])
    assert ran.code == 0, ran.err
    run = tmp_path / "run"
    assert books.complaints(run, Small()) == []
    events = [line for line in books.lines(run / "events.jsonl") if line["event"] == "skipped_step"]
    assert [line["step"] for line in events] == [4, 6]
    assert books.lines(run / "metrics.jsonl")[-1]["skipped_steps"] == 2
    assert "step 4 was skipped: loss or gradient is not finite" in ran.err
    batch = books.lines(run / "inspect" / "step-000004.jsonl")
    assert len(batch) == PROMPTS * ROLLOUTS
    assert {line["group"] for line in batch} == {9, 10, 11}


def test_steps_that_are_never_finite_stop_the_run(nursery: Nursery, tmp_path: Path, inline: kills.Ground) -> None:
    """One line, everything saved, and the run goes on once the cause is gone."""
    assert inline.folder.is_dir()
    run = Small(sets=("scale.guards.skipped_in_a_row=3",))
    steps = list(range(3, 99))
    ran = nursery.run(run.begin("run"), tmp_path, tampering=[("not_finite", {"steps": steps})])
    assert ran.code not in {0, 1}
    assert ran.refusal is not None, ran.err
    assert "the last of 3 in a row" in ran.refusal
    safe = books.kept(tmp_path / "run")
    assert safe.steps_since == 0
    assert 5 <= safe.step < run.steps
    assert nursery.run(run.go_on("run"), tmp_path).code == 0
    assert books.complaints(tmp_path / "run", run) == []
