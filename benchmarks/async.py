"""Does it pay to generate and to train at the same time? The `local` pipeline against `sync`, on two cores.

    python benchmarks/async.py                     # about ten minutes on an idle machine; exit code 1 below the limit
    python benchmarks/async.py --steps 60 --repeats 1

Three variants of the `laptop` run, the same policy, task and batch; each in a fresh process, in turn:
  pipeline   launcher `local`: a generator and a trainer process with one thread each, `pipeline` with k = 8
  sync 2     one process with two threads, generation and training alternate
  sync 1     the same with one thread, for information
The figure is rollouts trained on per second of wall time, after a run-in and without evaluations and checkpoints. The
ratio is taken within each repeat, so that both sides see the same load. benchmarks/results/async.json keeps everything.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "async.json"
LIMIT = 1.3
RUN_IN_STEPS = 20
"""More than two rounds of the pipeline: nothing that was written before the clock started is left."""
ALL_STEPS = ["scale.evaluation.every=1000000", "scale.evaluation.problems=8", "scale.checkpoint_every=1000000"]
VARIANTS = {
    "pipeline": ['scale.launcher.kind="local"', "scale.launcher.threads=1",
                 'recipe.asynchrony.kind="pipeline"', "recipe.asynchrony.k=8"],
    "sync 2": ['scale.launcher.kind="inline"', "scale.launcher.threads=2", 'recipe.asynchrony.kind="sync"'],
    "sync 1": ['scale.launcher.kind="inline"', "scale.launcher.threads=1", 'recipe.asynchrony.kind="sync"'],
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """One run of one variant."""

    rollouts_per_s: float
    generator_idle: float
    """Share of its time; of one process that does both in turn, the share in virtual time."""
    trainer_idle: float
    memory_bytes: dict[str, int]
    """Peak of each process; 0 where there is no such process."""
    mean_length: float
    """Tokens of a rollout: the variants must do the same work."""
    load: float
    """Of the machine, over the last minute."""


def measure(variant: str, steps: int) -> Figures:
    """In this process."""
    from scalerl.config import load_run
    from scalerl.pipeline.launch.memory import peak_memory_bytes
    from scalerl.pipeline.session import train

    overrides = [*ALL_STEPS, *VARIANTS[variant], f"scale.budget.amount={RUN_IN_STEPS + steps}"]
    run = load_run("scalerl", "laptop", overrides=overrides).config
    with tempfile.TemporaryDirectory() as folder:
        train(run, Path(folder) / "run")
        lines = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    measured = lines[RUN_IN_STEPS:]
    wall_s = measured[-1]["wall_s"] - lines[RUN_IN_STEPS - 1]["wall_s"]
    generator_peak = max(line["generator_memory_bytes"] or 0 for line in lines)
    return Figures(
        rollouts_per_s=len(measured) * run.scale.batch.prompts * run.scale.batch.rollouts / wall_s,
        generator_idle=idle_share(lines, "generator_idle", lambda line: line["ledger"]["generation"]["device_s"]),
        trainer_idle=idle_share(lines, "trainer_idle", lambda line: line["wall_s"]),
        memory_bytes={"trainer": peak_memory_bytes(), "generator": generator_peak},
        mean_length=statistics.fmean(line["mean_length"] for line in measured),
        load=os.getloadavg()[0],
    )


def idle_share(lines: list[dict[str, Any]], key: str, clock: Callable[[dict[str, Any]], float]) -> float:
    """Over all measured steps: each step's share counts by its time. A step without news has no time either."""
    pairs = [(after[key], clock(after) - clock(before)) for before, after in pairwise(lines[RUN_IN_STEPS - 1 :])]
    idle_s = sum(share * passed_s for share, passed_s in pairs if share is not None)
    return float(idle_s / sum(passed_s for _, passed_s in pairs))


def measure_elsewhere(variant: str, steps: int) -> Figures:
    """In a fresh process, which sets its own number of threads."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, __file__, "--variant", variant, "--steps", str(steps)]
    done = subprocess.run(command, env=kept, stdout=subprocess.PIPE, text=True, check=True)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def prepare() -> None:
    """The warm start is trained before anything is measured, and then lies in the cache."""
    from scalerl.config import load_run
    from scalerl.policy.load import load_policy

    load_policy(load_run("scalerl", "laptop").config)


def show(runs: dict[str, list[Figures]], ratios: list[float]) -> None:
    columns = ("rollouts/s", "tokens each", "generator idle", "trainer idle")
    print(f"{'variant':<10} {columns[0]:>11} {columns[1]:>12} {columns[2]:>15} {columns[3]:>13}  peak memory")
    for name, figures in runs.items():
        speed = statistics.median(each.rollouts_per_s for each in figures)
        last = figures[-1]
        idle = [f"{share:.0%}" for share in (last.generator_idle, last.trainer_idle)]
        memory = ", ".join(f"{who} {peak / 1e6:,.0f} MB" for who, peak in last.memory_bytes.items() if peak)
        print(f"{name:<10} {speed:>11,.0f} {last.mean_length:>12.1f} {idle[0]:>15} {idle[1]:>13}  {memory}")
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    met = "" if statistics.median(ratios) >= LIMIT else "  MISSED"
    print(f"pipeline over sync 2: {statistics.median(ratios):.2f}x ({each}), limit >= {LIMIT}{met}")


def save(runs: dict[str, list[Figures]], ratios: list[float], steps: int) -> None:
    machine = {
        "python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count(),
        "torch": version("torch"), "transformers": version("transformers"),
    }  # fmt: skip
    document: dict[str, Any] = {
        "machine": machine,
        "run_in_steps": RUN_IN_STEPS,
        "steps": steps,
        "variants": VARIANTS,
        "runs": {name: [asdict(each) for each in figures] for name, figures in runs.items()},
        "pipeline_over_sync_2": ratios,
        "median_ratio": statistics.median(ratios),
        "limit": LIMIT,
        "met": statistics.median(ratios) >= LIMIT,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="pipeline against sync")
    parser.add_argument("--steps", type=int, default=120, help="measured steps of each run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--variant", choices=VARIANTS, help="measure one run in this process and print JSON")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(asdict(measure(options.variant, options.steps))))
        return 0
    prepare()
    runs: dict[str, list[Figures]] = {name: [] for name in VARIANTS}
    for _ in range(options.repeats):
        for name, figures in runs.items():
            figures.append(measure_elsewhere(name, options.steps))
    pairs = zip(runs["pipeline"], runs["sync 2"], strict=True)
    ratios = [ours.rollouts_per_s / theirs.rollouts_per_s for ours, theirs in pairs]
    show(runs, ratios)
    save(runs, ratios, options.steps)
    return 0 if statistics.median(ratios) >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
