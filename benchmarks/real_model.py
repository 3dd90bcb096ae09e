"""A real language model on a CPU: SmolLM2-135M, tokens per second of a whole RL step beside TRL's, and peak memory.

    (the model and smollm2/problems.jsonl: docs/models.md)
    sh benchmarks/install_trl.sh /tmp/trl
    python benchmarks/real_model.py --trl-python /tmp/trl/bin/python       # half an hour on an idle machine
    python benchmarks/real_model.py --memory-of runs/smollm2               # memory only: the other figures stay

Both sides train SmolLM2-135M in float32 on the word problems of examples/smollm2, in its own chat template: the same
prompts, 8 of them with 8 rollouts of at most 42 tokens, temperature 1, CISPO, one update for each batch, every rollout
in the loss. As in vs_trl.py, whose sides these are: turn by turn, two threads each, the first step of a turn not
counted. Tokens are those that were written. TRL has no forced interruption, so neither side has one here.
Peak memory is that of a run of examples/smollm2/scale.toml, generator and trainer together: three steps of one, or
with `--memory-of RUN` one that has been trained. Weights that both see in shared memory are counted twice.
benchmarks/results/real_model.json keeps the figures; exit code 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch

from scalerl.config import RunConfig, load_run
from scalerl.policy.chat import Dialogue
from scalerl.policy.load import LoadedPolicy, load_policy
from scalerl.runs import RunDirectory
from scalerl.tasks import build_task
from trl_case import Chunk, Ours
from vs_trl import Theirs

RESULTS = Path(__file__).parent / "results" / "real_model.json"
LEAST_RATIO, MOST_GB = 2.0, 8.0
PROMPTS, ROLLOUTS, MAX_TOKENS = 8, 8, 42
THREADS = 2
SCALE = Path(__file__).parents[1] / "examples" / "smollm2" / "scale.toml"
OWN = (
    f"scale.batch.prompts={PROMPTS}", f"scale.batch.rollouts={ROLLOUTS}", f"scale.generator.rows={PROMPTS * ROLLOUTS}",
    "scale.tokens.thinking=32", f"scale.tokens.answer={MAX_TOKENS - 32}", "scale.optimiser.learning_rate=1e-8",
    "scale.optimiser.warmup_steps=0", "scale.launcher.kind=inline", f"scale.launcher.threads={THREADS}",
    "recipe.asynchrony.kind=sync", "recipe.aggregation=token", "recipe.zero_variance=keep", "recipe.truncated=keep",
    "recipe.curriculum.kind=uniform", "recipe.length.kind=none",
)  # fmt: skip
"""ScaleRL's recipe where TRL has the same. So small a rate leaves the lengths of rollouts as they are."""
THEIRS: dict[str, Any] = {
    "per_device_train_batch_size": ROLLOUTS, "gradient_accumulation_steps": PROMPTS, "num_generations": ROLLOUTS,
    "max_completion_length": MAX_TOKENS, "learning_rate": 1e-8,
}  # fmt: skip
"""One prompt's rollouts at a time, generated together: all 64 at once took TRL 10.7 GB and two minutes a step."""


def config(model: Path) -> RunConfig:
    return load_run("scalerl", str(SCALE), overrides=[f"scale.model.name='{model}'", *OWN]).config


def problems(run: RunConfig, start: LoadedPolicy) -> list[dict[str, str]]:
    """Prompts as our policy reads them, template and all: TRL takes them as plain texts."""
    dialogue = Dialogue(start.tokenizer, run.scale.chat)
    pool = build_task(run.scale.task_settings, seed=0).problems("train")
    return [{"prompt": dialogue.prompt(one.prompt), "answer": one.answer} for one in pool[:500]]


def speed(chunks: list[Chunk]) -> dict[str, float]:
    """Of the steps after the first of each turn."""
    step_s = statistics.median(time_s for chunk in chunks for time_s in chunk.step_s[1:])
    length = statistics.mean(chunk.mean_length for chunk in chunks)
    return {
        "step_s": step_s, "mean_length": length, "tokens_per_s": PROMPTS * ROLLOUTS * length / step_s,
        "reward": statistics.mean(chunk.reward for chunk in chunks),
    }  # fmt: skip


def compare(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    run = config(options.model)
    torch.set_num_threads(THREADS)
    start = load_policy(run)
    sides: dict[str, list[Chunk]] = {"ours": [], "TRL": []}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        asked = problems(run, start)
        theirs = stack.enter_context(closing(Theirs(options.trl_python, start.folder, Path(scratch), asked, THEIRS)))
        ours = stack.enter_context(closing(Ours(run, start)))
        for turn in range(options.repeats):
            sides["TRL"].append(theirs.steps(THREADS, options.steps))
            sides["ours"].append(ours.steps(options.steps))
            steps = ", ".join(f"{name} {statistics.median(found[-1].step_s):.1f} s" for name, found in sides.items())
            print(f"  turn {turn + 1} of {options.repeats}: {steps}, load {os.getloadavg()[0]:.1f}", flush=True)
    return {name: speed(chunks) for name, chunks in sides.items()}


def short_run_gb(model: Path) -> float:
    """Of `scalerl train` with that scale, three steps and a short evaluation."""
    with tempfile.TemporaryDirectory() as scratch:
        sets = [
            f"scale.model.name='{model}'", "scale.budget.amount=3", "scale.evaluation.problems=4",
            "scale.evaluation.samples=1", "scale.evaluation.every=100",
        ]  # fmt: skip
        command = [sys.executable, "-m", "scalerl", "train", "--scale", str(SCALE), "--out", f"{scratch}/run"]
        subprocess.run([*command, "--no-live", *(part for one in sets for part in ("--set", one))], check=True)
        return peak_gb(Path(scratch) / "run")


def peak_gb(run: Path) -> float:
    """Of both processes together, over all steps: the sum of their peaks, which need not be at the same time."""
    lines = RunDirectory.open(run).metrics.read()
    parts = ("trainer_memory_bytes", "generator_memory_bytes")
    return sum(max(line[part] or 0 for line in lines) for part in parts) / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--trl-python", help="interpreter of an environment from install_trl.sh; without it: memory only"
    )
    parser.add_argument("--model", type=Path, default=Path("smollm2/sft"), help="folder of the policy")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each side")
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn, the first of them not counted")
    parser.add_argument("--memory-of", type=Path, help="run directory whose peak memory is meant")
    options = parser.parse_args()
    figures = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    figures |= memory(options)
    if options.trl_python is not None:
        figures |= speeds(options)
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    slow = figures.get("ratio", 0.0) < LEAST_RATIO
    return 1 if slow or figures["peak_gb"] > MOST_GB else 0


def memory(options: argparse.Namespace) -> dict[str, Any]:
    run: Path | None = options.memory_of
    found = short_run_gb(options.model) if run is None else peak_gb(run)
    print(f"peak memory {found:.2f} GB (limit {MOST_GB})")
    if run is None:
        return {"peak_gb": found, "most_gb": MOST_GB, "peak_gb_of": "three steps"}
    directory = RunDirectory.open(run)
    sets = len(directory.config.scale.evaluation.downstream)
    steps = len(directory.metrics.read())
    return {"peak_gb": found, "most_gb": MOST_GB, "peak_gb_of": f"a run of {steps} steps with {sets} downstream sets"}


def speeds(options: argparse.Namespace) -> dict[str, Any]:
    sides = compare(options)
    ratio = sides["ours"]["tokens_per_s"] / sides["TRL"]["tokens_per_s"]
    for name, side in sides.items():
        words = f"{side['tokens_per_s']:8.1f} tokens/s {side['step_s']:8.2f} s a step {side['mean_length']:6.1f} tokens"
        print(f"{name:<6}{words}   reward {side['reward']:.2f}")
    print(f"ours / TRL {ratio:.2f} (limit {LEAST_RATIO})")
    return {
        "sides": sides, "ratio": ratio, "least_ratio": LEAST_RATIO,
        "batch": {"prompts": PROMPTS, "rollouts": ROLLOUTS, "max_tokens": MAX_TOKENS, "threads": THREADS},
        "machine": {"cores": os.cpu_count(), "load_at_the_end": os.getloadavg()[0], "torch": torch.__version__},
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
