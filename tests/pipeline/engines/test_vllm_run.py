"""A run with vLLM generating learns what the same run learns with the embedded engine, and leaves nothing behind."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.pipeline.session import train
from scalerl.pipeline.types import EvalPoint

pytestmark = pytest.mark.vllm


def test_it_reaches_what_the_embedded_engine_reaches(
    laptop_like: Any, tmp_path: Path, vllm_processes: Callable[[], set[int]]
) -> None:
    children = set(multiprocessing.active_children())  # the server of other tests
    found = train(laptop_like.run(*laptop_like.vllm), tmp_path / "vllm", cache=laptop_like.cache)
    assert not vllm_processes()
    assert set(multiprocessing.active_children()) == children
    laptop_like.check(found)


def test_it_answers_the_evaluations_too(
    laptop_like: Any, tmp_path: Path, vllm_processes: Callable[[], set[int]]
) -> None:
    """Pass rates are those that the embedded engine measures; a set has its own temperature and length."""
    cool = "scale.evaluation.downstream.cool={task={largest=8}, problems=40, temperature=0.1, tokens={thinking=36}}"
    run = laptop_like.run(*laptop_like.vllm, 'scale.evaluation.by="generators"', cool)
    found = train(run, tmp_path / "vllm", cache=laptop_like.cache)
    assert not vllm_processes()
    laptop_like.check_values(found)
    written = 0.0
    for point in found.points:
        easier = point.downstream["cool"]
        assert isinstance(easier, EvalPoint)
        assert easier.pass_rate > point.pass_rate + 0.1  # it knows how, and errs by chance
        written += len(point.per_problem) * point.num_samples * (point.mean_length - 1)
        written += len(easier.per_problem) * easier.num_samples * (easier.mean_length - 1)
    assert written <= found.ledger.evaluation.tokens < 2 * written
