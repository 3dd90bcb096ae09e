"""Short portable runs, and digests of all they computed: the same on every x86-64 Linux machine with AVX2 and FMA.

    python benchmarks/portable_case.py            # starts itself again with the settings; prints one JSON document
    python benchmarks/portable_case.py --plain    # the same runs without the settings, for comparison

Four runs of a small policy from its warm start on, which between them use what the built-in studies use: the ScaleRL
recipe, a clipped loss normalised by prompt, bfloat16 weights, a mixture of experts. A digest covers the policy and the
optimiser at the end, every number of every step, and every answer of every evaluation. Started by `portable.py` on
emulated processors, and by tests/pipeline/test_portable.py, which holds the digests to those in
results/portable.json.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scalerl import portable
from scalerl.config import load_run

VERSIONS = ("torch", "transformers")
"""Other versions may compute other bits."""
SMALL = (
    "scale.model.layers=2",
    "scale.model.width=32",
    "scale.model.heads=2",
    "scale.model.feed_forward=96",
    "scale.warm_start.steps=60",
    "scale.warm_start.batch=8",
    "scale.warm_start.learning_rate=0.01",
    "scale.task.numbers=3",
    "scale.task.fewest_numbers=0",
    "scale.task.largest=4",
    "scale.task.held_out_share=0.3",
    "scale.task.train_problems=0",
    "scale.tokens.thinking=20",
    "scale.batch.prompts=8",
    "scale.batch.rollouts=8",
    "scale.generator.rows=64",
    "scale.evaluation.problems=8",
    "scale.evaluation.samples=2",
    "scale.evaluation.every=4",
    "scale.evaluation.downstream={}",
)
_MOE = (
    'source="moe", layers=1, width=32, heads=2, feed_forward=32, tied=false, dtype="float32", experts=4, '
    "experts_per_token=2"
)
CASES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "scalerl": ("scalerl", ("scale.budget.amount=4",)),
    "deepseek_grpo": ("deepseek_grpo", ("scale.budget.amount=2",)),
    "bfloat16": ("scalerl", ("scale.budget.amount=2", 'scale.model.dtype="bfloat16"')),
    "moe": ("scalerl", ("scale.budget.amount=2", f"scale.model={{{_MOE}}}")),
}
"""Name of the case -> its recipe, and what it changes on top of `SMALL`."""
UNUSED = "torch_rng"
"""torch's own random state, which nothing in a run draws from: every process begins with another."""
TIMES = ("wall_s", "ledger")
"""Keys of a step that hold times."""


def digests(folder: Path, *, is_portable: bool = True) -> dict[str, str]:
    """Train every case in a folder of its own."""
    from scalerl.pipeline.session import train

    found = {}
    for name, (recipe, changes) in CASES.items():
        run = load_run(recipe, "study", overrides=_overrides(changes, is_portable)).config
        train(run, folder / name, cache=folder / "cache")
        found[name] = digest(folder / name)
    return found


def digest(run: Path) -> str:
    """Of everything that a finished run has computed."""
    from safetensors import safe_open

    found = hashlib.sha256()
    (checkpoint,) = sorted((run / "checkpoints").glob("step-*"))[-1:]
    for file in (checkpoint / "model.safetensors", checkpoint / "parts" / "trainer.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in sorted(set(tensors.keys()) - {UNUSED}):
                found.update(name.encode())
                found.update(tensors.get_tensor(name).contiguous().flatten().view(_bytes()).numpy().tobytes())
    for line in (run / "metrics.jsonl").read_text().splitlines():
        values = {key: value for key, value in json.loads(line).items() if key not in TIMES and "memory" not in key}
        found.update(json.dumps(values, sort_keys=True).encode())
    for file in sorted((run / "evals").glob("*.json")):
        found.update(file.read_bytes())
    return found.hexdigest()


def _bytes() -> Any:
    import torch

    return torch.uint8


def _overrides(changes: tuple[str, ...], is_portable: bool) -> list[str]:
    """A table replaces the single keys in it."""
    given = [*SMALL, 'scale.budget.unit="steps"', f"{portable.KEY}={str(is_portable).lower()}", *changes]
    last = {text.partition("=")[0]: text for text in given}
    tables = tuple(f"{key}." for key, text in last.items() if text.partition("=")[2].startswith("{"))
    return [text for key, text in last.items() if not key.startswith(tables)]


def main() -> int:
    is_portable = "--plain" not in sys.argv[1:]
    if is_portable and not portable.in_force():
        portable.start_again()
    import torch

    with tempfile.TemporaryDirectory() as folder:
        found = digests(Path(folder), is_portable=is_portable)
    versions = {package: version(package) for package in VERSIONS}
    capability = torch.backends.cpu.get_cpu_capability()
    print(json.dumps({"digests": found, "versions": versions, "torch_uses": capability}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
