"""A whole run with the local launcher: a generator process that reads the policy, decodes, verifies, and is stopped."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path

from scalerl.config import RunConfig
from scalerl.pipeline.session import train

K = 2


def test_a_run_is_stopped_and_goes_on(make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path) -> None:
    run = make_run('scale.launcher.kind="local"', f"recipe.asynchrony.k={K}", "scale.budget.amount=7")
    stops = iter([False, False, False, False, True])
    first = train(run, tmp_path / "run", cache=cache, should_stop=lambda: next(stops))
    assert (first.reason, first.step) == ("interrupted", 4)
    assert not multiprocessing.active_children()

    second = train(run, tmp_path / "run", cache=cache, resume=True)
    assert (second.reason, second.step) == ("budget", 7)
    assert not multiprocessing.active_children()
    assert [point.step for point in second.points] == [0, 2, 4, 6, 7]

    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 8))
    assert all(0 <= line["age_max"] <= K for line in lines)
    assert max(line["age_max"] for line in lines) > 0  # the generator did not wait for the trainer
    for key, most in {"idle": 1, "memory_bytes": 50e9}.items():
        assert all(0 <= line[f"trainer_{key}"] <= most for line in lines)
        heard = [line[f"generator_{key}"] for line in lines if line[f"generator_{key}"] is not None]
        assert heard  # nothing is known of a generator that has said nothing since the last step
        assert all(0 <= value <= most for value in heard)
    spent = [line["ledger"]["generation"]["flops"] for line in lines]
    assert spent == sorted(spent)
    assert spent[-1] > 0
