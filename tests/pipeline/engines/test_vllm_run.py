"""A run with vLLM generating learns what the same run learns with the embedded engine, and leaves nothing behind."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.pipeline.session import train

pytestmark = pytest.mark.vllm


def test_it_reaches_what_the_embedded_engine_reaches(
    laptop_like: Any, tmp_path: Path, vllm_processes: Callable[[], set[int]]
) -> None:
    children = set(multiprocessing.active_children())  # the server of other tests
    found = train(laptop_like.run(*laptop_like.vllm), tmp_path / "vllm", cache=laptop_like.cache)
    assert not vllm_processes()
    assert set(multiprocessing.active_children()) == children
    laptop_like.check(found)
