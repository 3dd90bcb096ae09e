"""Weights in shared memory, with real second processes: one version at a time, and no lock or memory left behind."""

from __future__ import annotations

import importlib
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest
import torch
from torch import Tensor

from scalerl.errors import InputError
from scalerl.pipeline.weights import PeerLostError, SharedWeights

CONTEXT = multiprocessing.get_context("spawn")


def filled(value: float) -> dict[str, Tensor]:
    """Several hundred kilobytes, so that copying takes a while; every dtype a policy may have."""
    shapes = {"embed": (300, 200), "norm": (3,), "head": (200, 300), "scale": ()}
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float32)
    pairs = zip(shapes.items(), dtypes, strict=True)
    return {name: torch.full(shape, value, dtype=dtype) for (name, shape), dtype in pairs}


def never_asked() -> bool:
    raise AssertionError


@pytest.fixture
def shared() -> Iterator[SharedWeights]:
    weights = SharedWeights.create(filled(0), CONTEXT.Lock(), never_asked)
    yield weights
    weights.close()


def fetched(shared: SharedWeights, newer_than: int) -> tuple[int, dict[str, Tensor]] | None:
    found: list[tuple[int, dict[str, Tensor]]] = []

    def load(weights: Mapping[str, Tensor], version: int) -> None:
        found.append((version, {name: tensor.clone() for name, tensor in weights.items()}))

    assert shared.fetch(newer_than, load) == bool(found)
    return found[0] if found else None


def test_what_is_published_comes_back_exactly(shared: SharedWeights) -> None:
    weights = {name: torch.randn(tensor.shape).to(tensor.dtype) for name, tensor in filled(0).items()}
    assert fetched(shared, -1) is None
    shared.publish(weights, 0)
    found = fetched(shared, -1)
    assert found is not None
    assert found[0] == 0
    torch.testing.assert_close(found[1], weights, rtol=0, atol=0)
    assert fetched(shared, 0) is None


def test_parameters_that_are_not_contiguous(shared: SharedWeights) -> None:
    weights = filled(0) | {"head": torch.randn(300, 200).half().t().requires_grad_()}
    shared.publish(weights, 3)
    found = fetched(shared, 2)
    assert found is not None
    assert torch.equal(found[1]["head"], weights["head"])


def test_versions_only_grow(shared: SharedWeights) -> None:
    shared.publish(filled(4), 4)
    with pytest.raises(InputError, match="published version: got 4; allowed: more than 4"):
        shared.publish(filled(5), 4)
    found = fetched(shared, 0)
    assert found is not None
    assert torch.equal(found[1]["norm"], filled(4)["norm"])


@pytest.mark.parametrize(
    "other", [{}, filled(0) | {"norm": torch.zeros(4)}, filled(0) | {"norm": torch.zeros(3, dtype=torch.int32)}]
)
def test_other_weights_are_refused(shared: SharedWeights, other: dict[str, Tensor]) -> None:
    with pytest.raises(InputError, match="published weights have other names, dtypes or shapes"):
        shared.publish(other, 1)


def test_a_reader_that_hammers_never_sees_half_a_version_and_its_death_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    reader = importlib.import_module("weights_reader")
    lock = CONTEXT.Lock()
    here, there = CONTEXT.Pipe()
    alive = [True]
    shared = SharedWeights.create(filled(0), lock, lambda: alive[0])
    last = 200
    child = CONTEXT.Process(target=reader.fetch_until, args=(last, shared.handle, lock, there))
    child.start()
    there.close()
    assert here.recv() == "ready"
    for version in range(1, last + 1):
        shared.publish(filled(version), version)
        time.sleep(0.001)
    seen = here.recv()
    child.join()
    versions = [version for version, _ in seen]
    assert len(versions) > 20
    assert versions == sorted(set(versions))
    assert all(values == {float(version)} for version, values in seen)
    alive[0] = False
    with pytest.raises(PeerLostError, match="the other process died while it held the shared weights"):
        shared.publish(filled(1), last + 1)  # the reader took the lock with it
    shared.close()
    with pytest.raises(FileNotFoundError):
        SharedMemory(shared.handle.memory)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="looks at shared memory the way Linux shows it")
def test_the_memory_of_a_killed_trainer_is_freed() -> None:
    program = (
        "import multiprocessing, time, torch\n"
        "from scalerl.pipeline.weights import SharedWeights\n"
        "lock = multiprocessing.get_context('spawn').Lock()\n"
        "shared = SharedWeights.create({'a': torch.zeros(9)}, lock, bool)\n"
        "print(shared.handle.memory, flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert Path("/dev/shm", name).exists()
    child.kill()
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 20
    while Path("/dev/shm", name).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path("/dev/shm", name).exists()
