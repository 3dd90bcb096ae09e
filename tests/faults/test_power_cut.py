"""The power fails at any moment of a run: what was promised to be on the disk is found again, and the run goes on.

A real run of two sessions and the writes of a study are recorded once (`simulated_disk`); then the power is cut after
every single operation: once with nothing left of what nobody waited for, once with some of it. `SCALERL_POWER_CUTS=N`
tries N random outcomes of each moment instead of one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.cli.tiny import TINY

from scalerl.config import RunConfig, load_run
from scalerl.config.study import StudyConfig, study_from
from scalerl.folder import complete_folder, discard_folder
from scalerl.pipeline import checkpoint
from scalerl.pipeline.session import train
from scalerl.runs import Records, RunDirectory
from scalerl.runs.verify import verify
from scalerl.runs.verify_checkpoints import look_at_all
from scalerl.runs.verify_repair import repair
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome

from .simulated_disk import Disk, Mode, Operation, Promise, Recorder, Sync

DRAWS = int(os.environ.get("SCALERL_POWER_CUTS", "1"))
SOME: Mode = "some"
MODES: tuple[Mode, ...] = ("nothing", *(SOME for _ in range(DRAWS)))
PLACE = Path("deep", "runs", "first")
BEGINNING, END = 4, 6


@dataclass(frozen=True)
class Recorded:
    """A session, and how to end it."""

    operations: list[Operation]
    folders: set[int]
    paths: dict[int, str]
    cache: Path
    evals: list[dict[str, Any]]
    """Of the run that nobody disturbed."""


def config(steps: int) -> RunConfig:
    """Saves twice at the last step: once as every second time, and again after the evaluation at the end."""
    changes = ("scale.evaluation.every=3", "scale.checkpoint_every=2", f"scale.budget.amount={steps}")
    return load_run("scalerl", "laptop", overrides=[*TINY, "scale.budget.unit=steps", *changes]).config


@pytest.fixture
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at after a cut need not survive another one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root, cache = tmp_path_factory.mktemp("disk"), tmp_path_factory.mktemp("cache")
    recorder = Recorder(root)
    with recorder.recording(), promises(recorder):
        train(config(BEGINNING), root / PLACE, cache=cache)
        train(config(END), root / PLACE, resume=True, cache=cache)
    return Recorded(recorder.operations, recorder.folders, recorder.paths, cache, comparable(root / PLACE))


class promises:  # noqa: N801  # reads like the context manager that it is
    """What the run may rely on: noted where the functions that promise it return."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._patch = recorder, pytest.MonkeyPatch()

    def __enter__(self) -> None:
        say = self._recorder.promise

        def saved(folder: Path) -> None:
            run = folder.parent.parent
            say("checkpoint", int(folder.name.removeprefix("step-")))
            say("logs", {name: (run / name).read_bytes() for name in ("metrics.jsonl", "evals.jsonl")})

        self._after(checkpoint, "save", saved)
        self._after(RunDirectory, "write_evaluation", lambda file: say("evaluation", (file.name, file.read_bytes())))
        self._after(RunDirectory, "finish", lambda _: say("ended", True))
        self._after(RunDirectory, "add_provenance", lambda _: say("ended", False))
        self._after(RunDirectory, "_write_config", lambda _: say("run"))

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _after(self, owner: Any, name: str, say: Callable[[Any], None]) -> None:
        call = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            say(result)
            return result

        self._patch.setattr(owner, name, wrapped)


def comparable(run: Path) -> list[dict[str, Any]]:
    """Evaluations without times."""
    return [{key: value for key, value in line.items() if key not in {"wall_s", "ledger"}} for line in
            RunDirectory.open(run).evals.read()]  # fmt: skip


def moments(operations: list[Operation], folders: set[int]) -> Iterator[tuple[int, Disk, dict[str, Any]]]:
    """After each operation: the disk, and the last promise of each kind."""
    disk, known = Disk(folders), dict[str, Any]()
    for index, operation in enumerate(operations):
        disk.apply(operation)
        if isinstance(operation, Promise):
            known[operation.what] = operation.value
        if index + 1 == len(operations) or not isinstance(operations[index + 1], Promise):  # those cost no time
            yield index, disk, known


def check_run(run: Path, known: dict[str, Any]) -> None:
    """Readable after a repair, nothing lost that was promised."""
    if "run" in known:
        assert RunDirectory.open(run).path == run
    if not (run / "config.json").exists():
        return
    repair(run)
    found = verify(run)
    assert found.level != "error", [finding for finding in found.findings if finding.level == "error"]
    assert repair(run) == []
    usable = [saved.step for saved in look_at_all(run / "checkpoints") if saved.problem is None]
    assert max(usable, default=0) >= known.get("checkpoint", 0)
    for name, content in known.get("logs", {}).items():
        assert (run / name).read_bytes().startswith(content)
    if "evaluation" in known:
        name, content = known["evaluation"]
        assert (run / "evals" / name).read_bytes() == content
    if known.get("ended"):
        assert (run / "stopped.json").exists()


@pytest.mark.usefixtures("_hurry")
def test_a_power_cut_loses_nothing_that_was_promised(recorded: Recorded, tmp_path: Path) -> None:
    num = 0
    for index, disk, known in moments(recorded.operations, recorded.folders):
        for draw, mode in enumerate(MODES):
            target = tmp_path / "after"
            disk.cut(target, mode, Random(f"{index} {draw}"))
            try:
                check_run(target / PLACE, known)
            except AssertionError as error:
                raise AssertionError(
                    f"after operation {index} of {len(recorded.operations)}, {mode}: {error}"
                ) from error
            shutil.rmtree(target)
            num += 1
    sys.stdout.write(f"{num:,} power cuts at {num // len(MODES)} moments of a run: nothing promised was lost\n")
    assert num > 300


@pytest.mark.parametrize("share", [0.25, 0.5, 0.7, 0.9])
def test_after_a_power_cut_the_run_goes_on_to_the_same_end(recorded: Recorded, tmp_path: Path, share: float) -> None:
    at = int(share * len(recorded.operations))
    disk = next(disk for index, disk, _ in moments(recorded.operations, recorded.folders) if index >= at)
    disk.cut(tmp_path / "after", "some", Random(at))
    run = tmp_path / "after" / PLACE
    train(config(END), run, resume=(run / "config.json").exists(), cache=recorded.cache)
    if share < 0.6:  # the last evaluation of the first budget is not one of the longer run
        assert [line for line in recorded.evals if line["step"] != BEGINNING] == comparable(run)
    else:
        assert recorded.evals == comparable(run)
    assert verify(run).level != "error"


def test_the_disk_is_waited_for_at_checkpoints_and_not_at_steps(recorded: Recorded) -> None:
    """The table "what is on the disk when" of docs/guarantees.md."""
    synced = Counter(recorded.paths[one.of] for one in recorded.operations if isinstance(one, Sync) and one.of)
    saves = sum(isinstance(one, Promise) and one.what == "checkpoint" for one in recorded.operations)
    run = PLACE.as_posix()
    assert saves == 4  # of steps 2, 4, 4 again and 6
    assert synced[f"{run}/metrics.jsonl"] == saves + 1  # once more where the second session cut it
    assert synced[f"{run}/evals.jsonl"] == saves + 1
    each = {"evals/step-000000.json": 1, "evals/step-000003.json": 1, "stopped.json": 2, "provenance.json": 2}
    assert {name: synced[f"{run}/{name}"] for name in each} == each  # two sessions
    newest = f"{run}/checkpoints/step-000006"
    inside = {path for path in synced if path.startswith(newest + "/")}
    assert {"complete.json", "model.safetensors", "state.json"} <= {Path(path).name for path in inside}
    assert all(synced[path] == 1 for path in (newest, *inside))


def record_study(root: Path) -> Recorder:
    """Everything that is ever written about a study itself, its runs left out."""
    recorder = Recorder(root)
    say = recorder.promise
    with recorder.recording():
        folder = StudyFolder.create_or_open(root / "deep" / "study", study([0]))
        say("seeds", (0,))
        first, second, *_ = folder.plan.jobs
        for job in (first, second):
            folder.write_job(job)
            say(f"job {job.name}")
        folder.add_decision({"rung": 1, "cell": second.cell, "action": "prune"})
        say("decisions", 1)
        folder.write_outcome(second, Outcome("pruned", 0.5))
        say(f"outcome {second.name}", "pruned")
        folder.write_outcome(first, Outcome("finished", 1.0))
        say(f"outcome {first.name}", "finished")
        folder.write_results("{}\n")
        say("results")
        StudyFolder.create_or_open(folder.path, study([0, 1]))
        say("seeds", (0, 1))
    return recorder


def study(seeds: list[int]) -> StudyConfig:
    cells = [{"name": "sample", "set": {"recipe.aggregation": "sample"}}]
    return study_from({"name": "s", "cells": cells, "seeds": seeds}, "study.toml")


def check_study(path: Path, known: dict[str, Any]) -> None:
    if "seeds" in known:
        assert (path / "study.json").exists()
    if not (path / "study.json").exists():
        return
    folder = StudyFolder.open(path)
    assert set(folder.config.seeds) >= set(known.get("seeds", ()))
    assert len(folder.decisions()) >= known.get("decisions", 0)
    outcomes = {job.name: folder.outcome(job) for job in folder.plan.jobs}
    for job in folder.plan.jobs:
        assert folder.started(job) >= (f"job {job.name}" in known)
        found = outcomes[job.name]
        if (promised := known.get(f"outcome {job.name}")) is not None:
            assert found is not None
            assert found.state == promised
        if found is not None and found.state == "pruned":
            assert folder.decisions(), "stopped, and nobody knows why"
    assert folder.results_path.exists() >= ("results" in known)


@pytest.fixture(scope="module")
def recorded_study(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return record_study(tmp_path_factory.mktemp("disk"))


@pytest.mark.usefixtures("_hurry")
def test_a_power_cut_loses_nothing_of_a_study(recorded_study: Recorder, tmp_path: Path) -> None:
    recorder = recorded_study
    for index, disk, known in moments(recorder.operations, recorder.folders):
        for draw, mode in enumerate((*MODES, SOME)):
            target = tmp_path / "after"
            disk.cut(target, mode, Random(f"{index} {draw}"))
            check_study(target / "deep" / "study", known)
            shutil.rmtree(target)
    assert len(recorder.operations) > 30


@pytest.mark.usefixtures("_hurry")
def test_a_line_to_the_disk_survives_and_another_may_not(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    recorder = Recorder(tmp_path / "disk")
    log = Records(tmp_path / "disk" / "events.jsonl")
    with recorder.recording():
        log.append({"event": 1}, to_disk=True)
        log.append({"event": 2})
    *_, (_, disk, _) = moments(recorder.operations, recorder.folders)
    disk.cut(tmp_path / "after", "nothing", Random(0))
    assert Records(tmp_path / "after" / "events.jsonl").read() == [{"event": 1}]


@pytest.mark.usefixtures("_hurry")
def test_a_folder_is_discarded_as_a_whole(tmp_path: Path) -> None:
    """Its content never goes before its name."""
    (tmp_path / "disk").mkdir()
    recorder = Recorder(tmp_path / "disk")
    with recorder.recording():
        with complete_folder(tmp_path / "disk" / "old") as folder:
            for name in "abc":
                (folder / name).write_text(name)
        recorder.promise("made")
        discard_folder(tmp_path / "disk" / "old")
        recorder.promise("gone")
    for index, disk, known in moments(recorder.operations, recorder.folders):
        for draw in range(5):
            disk.cut(tmp_path / "after", "some", Random(f"{index} {draw}"))
            old = tmp_path / "after" / "old"
            assert not old.exists() or {file.name: file.read_text() for file in old.iterdir()} == {x: x for x in "abc"}
            assert not old.exists() or "gone" not in known
            shutil.rmtree(tmp_path / "after")
