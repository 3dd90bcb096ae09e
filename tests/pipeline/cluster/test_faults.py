"""Actors are killed and a node is taken away while a run goes on: it ends, with every batch trained once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig, patch
from scalerl.config.scale import ScaleConfig
from scalerl.pipeline.launch.ray import drive
from scalerl.pipeline.launch.ray.drive import TrainerLostError, train_on_ray
from scalerl.runs import RunDirectory

MakeRun = Callable[..., RunConfig]
Metrics = Callable[[Path], list[dict[str, Any]]]
Kill = Callable[[str], bool]
K = 3
LONG = (
    'scale.launcher.kind="ray"', "scale.launcher.generators=2", f"recipe.asynchrony.k={K}", "scale.budget.amount=300",
    "scale.checkpoint_every=20", "scale.evaluation.every=100", 'recipe.curriculum.kind="uniform"',
)  # fmt: skip


def trained(lines: list[dict[str, Any]]) -> list[int]:
    """The groups of all steps, in the order of training."""
    ends = [[int(end) for end in part.split("-")] for line in lines for part in line["groups"].split(",")]
    return [index for part in ends for index in range(part[0], part[-1] + 1)]


def check_books(lines: list[dict[str, Any]], last: int, scale: ScaleConfig) -> None:
    """Every step and every group once, ages within the bound, and a ledger that holds what was trained on."""
    assert [line["step"] for line in lines] == list(range(1, last + 1))
    assert trained(lines) == list(range(len(trained(lines))))
    assert all(0 <= line["age_max"] <= K for line in lines)
    for side in ("generation", "training"):
        for unit in ("flops", "tokens", "device_s"):
            spent = [line["ledger"][side][unit] for line in lines]
            assert spent == sorted(spent), (side, unit)
            assert spent[-1] > 0
    tokens = [line["ledger"]["training"]["tokens"] for line in lines]
    for line, before, after in zip(lines, [0, *tokens], tokens, strict=False):  # no step is booked twice, or not at all
        assert line["loss_tokens"] <= after - before <= line["effective_rollouts"] * scale.tokens.context, line["step"]
    rollouts = [len(trained([line])) * scale.batch.rollouts for line in lines]
    written = sum(
        num * (line["mean_length"] - 1) for num, line in zip(rollouts, lines, strict=True)
    )  # the last is not read
    assert lines[-1]["ledger"]["generation"]["tokens"] >= written


@pytest.mark.parametrize("transfer", ["store", "direct"])
def test_generators_and_the_trainer_are_killed(
    transfer: str,
    make_run: MakeRun,
    cache: Path,
    tmp_path: Path,
    address: str,
    heard: Any,
    metrics: Metrics,
    kill: Kill,
) -> None:
    """The generators again and again, the trainer once, after a checkpoint."""
    killed: list[str] = []

    def strike(step: int) -> None:
        if step in {10, 60, 200} and kill("PolicyGenerator"):
            killed.append("generator")
        if step == 130 and "trainer" not in killed and kill("TrainerActor"):
            killed.append("trainer")

    watcher = heard(strike)
    run = make_run(*LONG, f"scale.launcher.transfer={transfer}")
    result = train_on_ray(run, tmp_path / "run", watcher=watcher, cache=cache, address=address)
    assert (result.reason, result.step) == ("budget", 300)
    assert killed == ["generator", "generator", "trainer", "generator"]
    deaths = [text for text in watcher.notices if text.startswith("a generator died (its process was killed")]
    assert len(deaths) == 3
    (again,) = [text for text in watcher.notices if text.startswith("the trainer died")]
    assert "started again from step-000" in again
    lines = metrics(result.folder)
    check_books(lines, 300, run.scale)
    assert lines[-1]["generators_lost"] == 1  # of this life of the trainer
    assert lines[-1]["requests_repeated"] >= 0


def test_a_generator_is_killed_while_it_answers_an_evaluation(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, kill: Kill
) -> None:
    """Of step 0 and of a later one. Every problem is answered once, by the version that is measured, and what that cost
    is not booked as generation."""
    killed: list[int] = []

    def strike(version: int, num_finished: int) -> None:
        if version not in killed and num_finished >= 2 and kill("PolicyGenerator"):
            killed.append(version)

    watcher = heard(generating=strike)
    run = make_run(
        *LONG, 'scale.evaluation.by="generators"', "scale.evaluation.samples=300", "scale.evaluation.every=20",
        "scale.budget.amount=30",
    )  # fmt: skip
    result = train_on_ray(run, tmp_path / "run", watcher=watcher, cache=cache, address=address)
    assert (result.reason, result.step, killed[:2]) == ("budget", 30, [0, 20])
    assert len([text for text in watcher.notices if text.startswith("a generator died")]) == len(killed)
    for point in result.points:
        assert {judged for _, judged in point.per_problem.values()} == {300}
        assert len(point.per_problem) == 8
    assert [point.step for point in result.points] == [0, 20, 30]
    check_books(metrics(result.folder), 30, run.scale)
    written = 8 * 300 * sum(point.mean_length - 1 for point in result.points)
    assert result.ledger.evaluation.tokens >= written  # and more, where it was written twice
    assert result.ledger.generation.tokens < written / 3


@pytest.mark.skipif("SCALERL_LONG" not in os.environ, reason="three and a half minutes: make faults")
def test_a_generator_is_killed_every_half_minute(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, kill: Kill
) -> None:
    """Six times, and the trainer once between two of them; then the run is asked to end."""
    times = {30 * number: "PolicyGenerator" for number in range(1, 7)} | {105: "TrainerActor"}
    started, waiting = time.monotonic(), sorted(times)

    def strike(_: int) -> None:
        if waiting and time.monotonic() - started >= waiting[0] and kill(times[waiting[0]]):
            waiting.pop(0)

    watcher = heard(strike)
    run = make_run(*LONG, "scale.budget.amount=100000")
    result = train_on_ray(
        run, tmp_path / "run", watcher=watcher, cache=cache, address=address,
        should_stop=lambda: time.monotonic() - started > 200,
    )  # fmt: skip
    assert result.reason == "interrupted"
    assert not waiting
    deaths = [text for text in watcher.notices if text.startswith(("a generator died", "the trainer died"))]
    assert len(deaths) == 7
    lines = metrics(result.folder)
    check_books(lines, result.step, run.scale)


def test_a_node_is_lost_with_its_generator(
    make_run: MakeRun, cache: Path, tmp_path: Path, heard: Any, metrics: Metrics
) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        second = cluster.add_node(num_cpus=1)
        removed: list[int] = []

        def take_away(step: int) -> None:
            if step >= 20 and not removed:
                removed.append(step)
                cluster.remove_node(second, allow_graceful=False)

        watcher = heard(take_away)

        def has_gone_on() -> bool:
            """Ray may take a while to notice."""
            lost = any(text.startswith("a generator died") for text in watcher.notices)
            return lost and watcher.steps[-1] > removed[0] + 50

        run = make_run(*LONG, "scale.budget.amount=100000")
        result = train_on_ray(
            run, tmp_path / "run", watcher=watcher, cache=cache, address=cluster.address, should_stop=has_gone_on
        )
        assert result.reason == "interrupted"
        check_books(metrics(result.folder), result.step, run.scale)
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def test_a_rank_of_the_trainer_is_killed(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, kill: Kill, gone: Any
) -> None:
    """Not the first: that one notices, and the run goes on from its checkpoint with a new pair."""
    killed: list[int] = []

    def strike(step: int) -> None:
        if step == 50 and not killed and kill("RankActor"):
            killed.append(step)

    watcher = heard(strike)
    run = make_run(*LONG, "scale.launcher.trainers=2", "scale.budget.amount=80")
    result = train_on_ray(run, tmp_path / "run", watcher=watcher, cache=cache, address=address)
    assert (result.reason, result.step, killed) == ("budget", 80, [50])
    (again,) = [text for text in watcher.notices if text.startswith("the trainer died")]
    assert "started again from step-000040" in again
    check_books(metrics(result.folder), 80, run.scale)
    assert gone("RankActor")


def test_a_trainer_that_dies_at_once_is_given_up(
    make_run: MakeRun,
    cache: Path,
    tmp_path: Path,
    address: str,
    heard: Any,
    monkeypatch: pytest.MonkeyPatch,
    kill: Kill,
) -> None:
    monkeypatch.setattr(drive, "RESTARTS", 1)
    watcher = heard(lambda _: kill("TrainerActor") and None)
    run = make_run(*LONG)
    with pytest.raises(TrainerLostError, match=r"the trainer died 2 times without a new checkpoint .*can be resumed"):
        train_on_ray(run, tmp_path / "run", watcher=watcher, cache=cache, address=address)
    assert RunDirectory.open(tmp_path / "run").config == run


COMMAND = """
import sys
from pathlib import Path
from scalerl.config import from_json
from scalerl.pipeline.launch.ray.drive import train_on_ray
from scalerl.cli.live import view_for

run = from_json(Path(sys.argv[1]).read_text())
train_on_ray(run, Path(sys.argv[2]), watcher=view_for(run, False), cache=Path(sys.argv[3]))
"""


def test_a_killed_command_leaves_a_run_that_can_be_resumed_and_no_process(
    make_run: MakeRun, cache: Path, tmp_path: Path, address: str, heard: Any, metrics: Metrics, gone: Any
) -> None:
    """A cluster of the command's own, which must end with it."""
    from scalerl.config import to_json

    run = make_run(*LONG, "scale.budget.amount=100000")
    (tmp_path / "run.json").write_text(to_json(run))
    words = [sys.executable, "-c", COMMAND, "run.json", "run", str(cache)]
    command = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 300
        while not list(tmp_path.glob("run/checkpoints/step-*/complete.json")):
            assert command.poll() is None
            assert time.monotonic() < end_s
            time.sleep(0.2)
    finally:
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
    for name in ("TrainerActor", "PolicyGenerator"):
        assert gone(name)
    made = len(metrics(tmp_path / "run"))
    shorter = patch(run, {"scale.budget.amount": float(made + 30)})
    result = train_on_ray(shorter, tmp_path / "run", watcher=heard(), cache=cache, address=address, resume=True)
    assert (result.reason, result.step) == ("budget", made + 30)
    check_books(metrics(result.folder), made + 30, run.scale)
