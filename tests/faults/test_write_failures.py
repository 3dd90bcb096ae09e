"""A disk that refuses: at some of the operations that `make faults` tries all of, and a disk that is really full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.verify.bubblewrap import bubblewrap

from . import books, commands, failures
from .nursery import ROOT, Nursery, Ran

TRIED = 10
PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def reference(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An undisturbed run, and every operation by which it writes."""
    folder = tmp_path_factory.mktemp("reference")
    assert nursery.run(failures.RUN.begin("warm"), folder).code == 0
    return folder / "run", failures.points_of(nursery, folder)


def test_the_points_are_those_of_every_file(reference: tuple[Path, list[str]]) -> None:
    run, points = reference
    assert len(points) > 100
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    for file in files:
        names = {file, file.replace("/", ".*.partial/", 2).replace(".*.partial/", "/", 1)} | {f"{file}.*.partial"}
        names |= {name.replace("step-000004/", "step-000004.next.*.partial/") for name in names}
        assert any(f"write {name}" in points for name in names), file


@pytest.mark.parametrize("part", range(TRIED))
def test_a_failed_write_is_one_line_and_the_run_goes_on(
    nursery: Nursery, tmp_path: Path, reference: tuple[Path, list[str]], part: int
) -> None:
    run, points = reference
    at = 1 + (2 * part + 1) * len(points) // (2 * TRIED)
    kinds = failures.failures_at(at, points[at - 1])
    failure = kinds[part % len(kinds)]
    outcome = failures.strike(nursery, tmp_path, failure, points[at - 1], run)
    assert outcome.wrong == [], outcome


@pytest.fixture(scope="module")
def ground(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], commands.Ground]:
    """A command that nothing happened to; each is called once."""
    known: dict[str, commands.Ground] = {}

    def find(name: str) -> commands.Ground:
        if name not in known:
            known[name] = commands.undisturbed(nursery, tmp_path_factory.mktemp("ground") / "x", commands.BY_NAME[name])
        return known[name]

    return find


@pytest.mark.parametrize(
    ("name", "point", "error"),
    [
        ("export-config", "mkdir new", "ENOSPC"),
        ("read --to", "write new/.*.tmp", "ENOSPC"),
        ("sft", "fsync .", "EIO"),
        ("sft --model", "mkdir policy.training", "ENOSPC"),
        ("sft --model", "rmdir policy.*.partial", "EIO"),
        ("sft --model", "write policy.*.partial/sft.json", "ENOSPC"),
        ("study run", "mkdir study/jobs/base-*/run", "ENOSPC"),
        ("study run", "rename study/jobs/base-*/run.before", "EIO"),
        ("study run", "truncate study/jobs/base-*/lock", "EIO"),
        ("study run", "write study/decisions.jsonl", "ENOSPC"),
        ("study run", "open study/jobs/base-*/outcome.json.*.partial", "ENOSPC"),
        ("study run", "fsync study/results.json.*.partial", "EIO"),
    ],
)
def test_every_other_command_too(
    nursery: Nursery, tmp_path: Path, ground: Callable[[str], commands.Ground], name: str, point: str, error: str
) -> None:
    """Operations that ended with a traceback before, and some more; the last of each name."""
    found = ground(name)
    places = [at for at, known in enumerate(found.points, 1) if fnmatch(known, point)]
    outcome = commands.strike(nursery, tmp_path, failures.Failure(places[-1], error, lasting=False), found)
    assert outcome.wrong == [], outcome


def test_a_disk_that_is_full(nursery: Nursery, tmp_path: Path, reference: tuple[Path, list[str]]) -> None:
    """A real one: a file system in memory, too small for a second checkpoint. What is on it goes on elsewhere."""
    try:
        bubblewrap()
    except InputError as error:
        pytest.skip(str(error))
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    disk.mkdir()
    files = [path for path in (reference[0] / "checkpoints" / "step-000002").rglob("*") if path.is_file()]
    size = sum(-(-path.stat().st_size // PAGE_BYTES) * PAGE_BYTES for path in files) * 3 // 2
    program = f'cd {disk} && {sys.executable} -m scalerl "$@"; code=$?; cp -r {disk}/run {saved}; exit $code'
    options = f"--bind / / --dev /dev --proc /proc --size {size} --tmpfs {disk}"
    own = {"SCALERL_CACHE": str(nursery.folder / "cache"), "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bwrap", *options.split(), "sh", "-c", program, "sh", *failures.RUN.begin("run")], capture_output=True,
        text=True, env=os.environ | own, check=False,
    )  # fmt: skip
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert ran.refusal is not None, ran
    assert "No space left on device" in ran.refusal
    assert "run/checkpoints/step-000004" in ran.refusal
    assert [path.name for path in books.checkpoints(saved)] == ["step-000002"]
    assert books.kept(saved).step == 2
    shutil.move(saved, tmp_path / "run")
    assert nursery.run(failures.RUN.go_on("run"), tmp_path).code == 0
    assert books.complaints(tmp_path / "run", failures.RUN) == []
    assert books.difference(tmp_path / "run", reference[0]) == []
