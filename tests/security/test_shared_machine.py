"""A machine with other users: who can read what we write, and what they can guess."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tests.report.runs import begin

from scalerl.folder import complete_folder, replace_file
from scalerl.pipeline.engines.vllm.start import VllmOptions, _environment, open_log
from scalerl.pipeline.weights import SharedWeights
from scalerl.policy import TinyLlama, build_policy
from scalerl.report.output import write

SHAPE = TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=64)


@pytest.fixture(params=[0o022, 0o077, 0o027], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}


def policy(folder: Path) -> None:
    build_policy(folder, SHAPE)


def run(folder: Path) -> None:
    begin(folder, range(0, 60, 20), finished=True)


def one_file(folder: Path) -> None:
    folder.mkdir()
    replace_file(folder / "results.json", "{}")
    write(folder / "page.html", b"page")


def nested(folder: Path) -> None:
    with complete_folder(folder) as partial:
        (partial / "shards").mkdir(mode=0o700)
        (partial / "shards" / "a.safetensors").touch(mode=0o600)


@pytest.mark.parametrize("make", [policy, run, one_file, nested])
def test_the_umask_decides_who_may_read(tmp_path: Path, mask: int, make: Callable[[Path], None]) -> None:
    make(tmp_path / "made")
    assert modes(tmp_path / "made") == {(True, 0o777 & ~mask), (False, 0o666 & ~mask)}
    assert os.umask(mask) == mask  # still the one that was set


def test_weights_in_shared_memory_are_the_owners_and_have_a_random_name() -> None:
    import multiprocessing

    lock = multiprocessing.get_context("spawn").Lock()
    made = [SharedWeights.create({"a": torch.zeros(3)}, lock, lambda: True) for _ in range(2)]
    try:
        files = [Path("/dev/shm") / one.handle.memory.lstrip("/") for one in made]
        if not files[0].parent.is_dir():
            pytest.skip("shared memory has no files here")
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert files[0] != files[1]
        assert all(len(file.name) >= 8 for file in files)
    finally:
        for one in made:
            one.close()


def test_vllm_writes_into_a_file_without_a_name_and_listens_here() -> None:
    with open_log() as log:
        assert os.fstat(log.fileno()).st_nlink == 0
    options = VllmOptions(rows=1, context=8, dtype="float32", fp32_head=False, threads=1)
    with _environment(options):
        assert os.environ["VLLM_HOST_IP"] == "127.0.0.1"
        assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
        assert "VLLM_ALLOW_INSECURE_SERIALIZATION" not in os.environ
