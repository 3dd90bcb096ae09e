"""Checkpoints are verified byte by byte, without torch, and repair keeps whatever can be kept."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.errors import InputError, StorageError
from scalerl.runs import RunDirectory, layout
from scalerl.runs.verify import verify
from scalerl.runs.verify_checkpoints import look_at
from scalerl.runs.verify_findings import Finding
from scalerl.runs.verify_repair import repair

from .conftest import FullDisk
from .tiny_run import copy, edit, tiny_config, train_tiny

NEWEST, OLDER = Path(layout.CHECKPOINTS, "step-000006"), Path(layout.CHECKPOINTS, "step-000004")
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return copy(whole, tmp_path)


def of_checkpoint(run: Path, step: int) -> Finding:
    (found,) = [finding for finding in verify(run).findings if finding.check == f"checkpoint {step}"]
    return found


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def sign(folder: Path, **changes: object) -> None:
    """Change the marker."""
    marker = json.loads((folder / layout.COMPLETE).read_bytes())
    (folder / layout.COMPLETE).write_text(json.dumps(marker | changes))


def test_one_flipped_bit_is_found_in_every_file(run: Path) -> None:
    names = json.loads((run / NEWEST / layout.COMPLETE).read_bytes())["files"]
    assert {"model.safetensors", "parts/trainer.safetensors", "parts/feed.safetensors", "state.json"} <= {*names}
    for name in names:
        before = (run / NEWEST / name).read_bytes()
        flip(run / NEWEST / name)
        assert look_at(run / NEWEST).problem == f"{name} is damaged (wrong SHA-256)"
        (run / NEWEST / name).write_bytes(before)
    assert look_at(run / NEWEST).problem is None


def test_the_checkpoint_before_a_damaged_one_is_the_newest(run: Path) -> None:
    flip(run / NEWEST / "model.safetensors")
    assert of_checkpoint(run, 6).level == "error"
    assert of_checkpoint(run, 4).level == "ok"
    ending = next(finding for finding in verify(run).findings if finding.check == "ending")
    assert "the newest usable checkpoint is of step 4" in ending.message


MARKERS: list[tuple[Damage, str]] = [
    (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    (lambda folder: os.truncate(folder / "parts/feed.safetensors", 100), "parts/feed.safetensors is damaged"),
    (lambda folder: (folder / layout.COMPLETE).unlink(), "complete.json is missing"),
    (lambda folder: (folder / layout.COMPLETE).write_text("{"), "complete.json is broken"),
    (lambda folder: sign(folder, format=2), "unknown format"),
    (lambda folder: sign(folder, step=7), "complete.json is of step 7"),
    (lambda folder: sign(folder, files={}), "does not name the files"),
    (lambda folder: sign(folder, files={"state.json": "", "../../config.json": ""}), "names a file elsewhere"),
    (lambda folder: sign(folder, files={"state.json": "", "/etc/hosts": ""}), "names a file elsewhere"),
    (lambda folder: folder.rename(folder.with_name("step-000005")), "is of step 6"),
]


@pytest.mark.parametrize(("damage", "words"), MARKERS, ids=[words for _, words in MARKERS])
def test_a_marker_that_does_not_fit(run: Path, damage: Damage, words: str) -> None:
    damage(run / NEWEST)
    (found,) = [finding for finding in verify(run).findings if finding.check in {"checkpoint 5", "checkpoint 6"}]
    assert found.level == "error"
    assert words in found.message


LOGS: list[tuple[Damage, str]] = [
    (lambda run: os.truncate(run / layout.METRICS, 100), "metrics.jsonl: the file has 100 bytes"),
    (lambda run: (run / layout.EVALS).unlink(), "evals.jsonl: the file has 0 bytes"),
    (lambda run: edit(run / layout.METRICS, lambda records: records[-1].update(step=5)), "metrics.jsonl is of step 5"),
    (lambda run: shift(run / layout.METRICS), "metrics.jsonl: no line ends at byte"),
    (
        lambda run: edit(run / layout.METRICS, lambda records: records[-1]["ledger"]["training"].update(tokens=9)),
        "metrics.jsonl",
    ),
]


def shift(file: Path) -> None:
    """The same lines, a byte further on."""
    file.write_bytes(b" " + file.read_bytes())


@pytest.mark.parametrize(("damage", "words"), LOGS, ids=[words for _, words in LOGS])
def test_the_lines_that_a_checkpoint_refers_to_must_be_there(run: Path, damage: Damage, words: str) -> None:
    damage(run)
    found = of_checkpoint(run, 6)
    assert found.level == "error"
    assert words in found.message


def test_files_that_the_marker_does_not_name_are_said(run: Path) -> None:
    (run / NEWEST / "notes.txt").write_text("mine")
    found = of_checkpoint(run, 6)
    assert (found.level, "notes.txt" in found.message) == ("warning", True)


def test_checkpoints_that_are_gone(run: Path) -> None:
    shutil.rmtree(run / layout.CHECKPOINTS)
    found = next(finding for finding in verify(run).findings if finding.check == "checkpoints")
    assert (found.level, found.message) == ("error", "none is there, although 6 steps were made")


def test_repair_does_everything_that_it_may_and_then_nothing(run: Path) -> None:
    flip(run / NEWEST / "model.safetensors")
    shutil.copytree(run / OLDER, run / layout.CHECKPOINTS / "step-000004.next")
    (run / OLDER / "model.safetensors").unlink()
    (run / layout.CHECKPOINTS / "step-000008.abc.partial").mkdir()
    (run / "config.json.1234.partial").write_text("{")
    logs = {name: (run / name).read_bytes() for name in (layout.METRICS, layout.EVALS)}
    for name in logs:
        with (run / name).open("ab") as stream:
            stream.write(b'{"step": 7')
    assert repair(run) == [
        "removed config.json.1234.partial: it was never complete",
        "removed checkpoints/step-000008.abc.partial: it was never complete",
        "finished the replacement of checkpoints/step-000004",
        "renamed checkpoints/step-000006 to step-000006.damaged: model.safetensors is damaged (wrong SHA-256)",
        "cut 10 bytes of a torn line off metrics.jsonl",
        "cut 10 bytes of a torn line off evals.jsonl",
    ]
    assert repair(run) == []
    assert {name: (run / name).read_bytes() for name in logs} == logs
    assert of_checkpoint(run, 4).level == "ok"
    assert (run / layout.CHECKPOINTS / "step-000006.damaged" / "model.safetensors").is_file()


def test_a_repaired_run_goes_on_to_the_same_end(run: Path, whole: Path, tmp_path: Path) -> None:
    from scalerl.pipeline.session import train

    flip(run / NEWEST / "parts/trainer.safetensors")
    repair(run)
    train(tiny_config(), run, resume=True, cache=tmp_path / "cache")
    rates = [[line["pass_rate"] for line in RunDirectory.open(path).evals.read()] for path in (run, whole)]
    assert rates[0] == rates[1]
    assert verify(run).level == "ok"


def test_the_last_checkpoint_is_not_set_aside(run: Path) -> None:
    """Going on without any would begin at step 0 and cut the logs to nothing."""
    shutil.rmtree(run / OLDER)
    flip(run / NEWEST / "model.safetensors")
    assert repair(run) == []
    assert (run / NEWEST).is_dir()
    assert "go back to a copy" in (of_checkpoint(run, 6).todo or "")


def test_what_was_set_aside_before_is_kept(run: Path) -> None:
    (run / f"{NEWEST}.damaged").mkdir()
    flip(run / NEWEST / "model.safetensors")
    assert "step-000006.2.damaged" in repair(run)[0]
    assert (run / f"{NEWEST}.damaged").is_dir()


def test_a_replacement_that_is_damaged_is_set_aside(run: Path) -> None:
    shutil.copytree(run / NEWEST, run / f"{NEWEST}.next")
    flip(run / f"{NEWEST}.next" / "model.safetensors")
    assert "step-000006.next.damaged" in repair(run)[0]
    assert of_checkpoint(run, 6).level == "ok"


def test_a_run_that_is_held_is_not_repaired(run: Path) -> None:
    with (
        RunDirectory.hold(run, tiny_config()),
        pytest.raises(InputError, match="the run directory is in use: got 'process"),
    ):
        repair(run)


def test_repair_needs_no_space(run: Path, full_disk: FullDisk) -> None:
    flip(run / NEWEST / "model.safetensors")
    (run / "config.json.1234.partial").write_text("{")
    with (run / layout.METRICS).open("ab") as stream:
        stream.write(b'{"step": 7')
    with full_disk(0):
        assert len(repair(run)) == 3
    assert repair(run) == []


@pytest.mark.parametrize("call", ["rename", "fsync", "unlink"])
def test_a_disk_that_refuses_is_one_error_and_loses_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(run))

    flip(run / NEWEST / "model.safetensors")
    (run / "config.json.1234.partial").write_text("{")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageError, match=r"cannot be written \(Read-only file system\)"):
            repair(run)
    repair(run)
    assert of_checkpoint(run, 4).level == "ok"
    assert (run / f"{NEWEST}.damaged" / "model.safetensors").is_file()


def test_no_torch_is_needed(run: Path) -> None:
    code = (
        "import sys; from scalerl.runs.verify import verify; print(verify(sys.argv[1]).level, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ok", "False"]
