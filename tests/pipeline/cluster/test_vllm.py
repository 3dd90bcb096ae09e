"""vLLM generates, Ray places it and supervises it: `make test-vllm`, because vLLM has an environment of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalerl.config import RunConfig
from scalerl.pipeline.launch.ray.drive import train_on_ray

pytestmark = pytest.mark.vllm

STEPS = 40
RUN = (
    'scale.launcher.kind="ray"', "scale.generator.engine=vllm", "scale.generator.vllm.cpu_cache_gb=0.1",
    "scale.model.width=64", "scale.model.heads=2",  # heads of 32 numbers: vLLM's smallest
    "recipe.asynchrony.k=0", 'recipe.curriculum.kind="uniform"', "scale.optimiser.learning_rate=0.001",
    f"scale.budget.amount={STEPS}", f"scale.evaluation.every={STEPS}",
)  # fmt: skip


@pytest.mark.parametrize("transfer", ["store", "direct"])
def test_each_step_is_written_with_the_weights_before_it(
    transfer: str, make_run: Callable[..., RunConfig], cache: Path, tmp_path: Path, address: str, heard: Any,
    metrics: Callable[[Path], list[dict[str, Any]]], kill: Callable[[str], bool],
    vllm_processes: Callable[[], set[int]],
) -> None:  # fmt: skip
    """Then the trainer gives every token the generator's own log-prob; also after a generator's death."""
    killed: list[int] = []

    def strike(step: int) -> None:
        if step >= STEPS // 4 and not killed and kill("PolicyGenerator"):
            killed.append(step)

    watcher = heard(strike)
    run = make_run(*RUN, f"scale.launcher.transfer={transfer}")
    result = train_on_ray(run, tmp_path / "run", watcher=watcher, cache=cache, address=address)
    assert (result.reason, result.step, len(killed)) == ("budget", STEPS, 1)
    lines = metrics(result.folder)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert all(line["age_max"] == 0 for line in lines)
    assert max(line["grad_norm"] or 0.0 for line in lines) > 0  # the weights did change
    for line in lines:
        if line["ratio_max"] is not None:  # None: no prompt of the batch taught anything
            assert line["ratio_max"] == pytest.approx(1.0, abs=1e-3), line["step"]
    assert lines[-1]["generators_lost"] == 1


def test_it_reaches_what_the_embedded_engine_reaches_on_local(
    laptop_like: Any, tmp_path: Path, address: str, heard: Any, gone: Callable[[str], bool],
    vllm_processes: Callable[[], set[int]],
) -> None:  # fmt: skip
    """The same run as with `local`, the same criterion; at k = 8 both sides are at work at the same time."""
    run = laptop_like.run('scale.launcher.kind="ray"', *laptop_like.vllm)
    watcher = heard()
    found = train_on_ray(run, tmp_path / "run", watcher=watcher, cache=laptop_like.cache, address=address)
    assert watcher.notices == []
    assert gone("PolicyGenerator")
    assert not vllm_processes()
    laptop_like.check(found)
