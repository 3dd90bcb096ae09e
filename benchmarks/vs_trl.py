"""Rollouts per second of a whole training step, ours and TRL's, side by side in one run, beside the limit of GEMM.

    sh benchmarks/install_trl.sh /tmp/trl
    python benchmarks/vs_trl.py --trl-python /tmp/trl/bin/python

Both sides train the same policy (a Llama of 1.06M parameters, warmed up for a minute so that some answers are right) on
the same task (sums of two numbers) with the same batch: 8 prompts x 8 rollouts of at most 16 tokens, temperature 1,
CISPO, rewards normalised by the batch, FP32 head, float32, AdamW (fused), clipping, one update for each batch, every
rollout in the loss. TRL is 1.16's GRPOTrainer on the CPU in an environment of its own (trl_side.py has its settings).

A time covers everything from the end of a step to the end of the next: drawing problems, generation, verifying, loss,
backward, clip, AdamW, handing over the weights. Neither side evaluates, saves or logs. The sides take turns, chunk by
chunk; the first steps of each chunk are not counted; figures are medians over all chunks. One thread and two threads
are measured on both sides. Ours runs in one process in turn (`inline`, `sync`: what TRL does), and with two threads
also as generator and trainer process of one thread each (`local`, `pipeline` with k = 1).

The GEMM limit is the time of a step's matrix multiplications alone, at the measured lengths (`Gemm` in trl_case.py); it
counts every token of every rollout. Our trainer computes what rollouts of a group have in common once, so its gain
depends on how alike they are: the last line says so, and --untrained measures rollouts of random weights, which share
little more than their prompt.
Prints a table and writes benchmarks/results/vs_trl.json; exits with 1 when ours is below the limit of 2.5 times TRL.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import torch

from scalerl.policy.load import default_cache
from trl_case import MAX_TOKENS, PROMPTS, ROLLOUTS, Chunk, Gemm, Ours, mean_prompt, problems, run_config, start_policy

RESULTS = Path(__file__).parent / "results" / "vs_trl.json"
LEAST_RATIO, WANTED_SHARE = 2.5, 0.5
WARM_UP_STEPS = 3
"""Not counted, at the start of each chunk: caches are cold, and `local` has a batch in stock."""

KINDS = ("TRL", "ours", "GEMM")

Sides = dict[str, Callable[[], Chunk]]


class Theirs:
    """The process of TRL."""

    def __init__(
        self, python: str, policy: Path, folder: Path, asked: list[dict[str, str]], settings: dict[str, Any]
    ) -> None:
        """`settings`: of GRPOConfig, in the place of those in trl_side.py."""
        (folder / "problems.json").write_text(json.dumps(asked))
        script = str(Path(__file__).with_name("trl_side.py"))
        command = [python, script, str(policy), str(folder / "problems.json"), "--set", json.dumps(settings)]
        offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "WANDB_DISABLED": "true"}
        with (folder / "trl.log").open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | offline
            )
        self._log = folder / "trl.log"

    def steps(self, threads: int, num_steps: int) -> Chunk:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{threads} {num_steps}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"error: TRL's side ended\n{self._log.read_text()[-2000:]}")
        return Chunk(**json.loads(answer))

    def close(self) -> None:
        self._process.communicate()  # the end of the orders is the end of its training


def measure(sides: Sides, repeats: int) -> dict[str, list[Chunk]]:
    """Turn by turn, so that a busy minute of the machine meets every side."""
    chunks: dict[str, list[Chunk]] = {name: [] for name in sides}
    for repeat in range(repeats):
        for name, steps in sides.items():
            chunks[name].append(steps())
        print(f"  turn {repeat + 1} of {repeats}, load {os.getloadavg()[0]:.1f}", flush=True)
    return chunks


def summary(chunks: list[Chunk]) -> dict[str, float]:
    counted = [step_s for chunk in chunks for step_s in chunk.step_s[WARM_UP_STEPS:]]
    by_chunk = [statistics.median(chunk.step_s[WARM_UP_STEPS:]) for chunk in chunks]
    median = statistics.median(counted)
    return {
        "rollouts_per_s": PROMPTS * ROLLOUTS / median, "step_s": median, "steps": len(counted),
        "fastest_chunk_s": min(by_chunk), "slowest_chunk_s": max(by_chunk),
        "cpu_s": statistics.median(chunk.cpu_s for chunk in chunks),
        "mean_length": statistics.mean(chunk.mean_length for chunk in chunks),
        "reward": statistics.mean(chunk.reward for chunk in chunks),
        "truncation_rate": statistics.mean(chunk.truncation_rate for chunk in chunks),
    }  # fmt: skip


def on_threads(threads: int, steps: Callable[[int], Chunk], num_steps: int) -> Callable[[], Chunk]:
    def chunk() -> Chunk:
        torch.set_num_threads(threads)
        return steps(num_steps)

    return chunk


def compare(options: argparse.Namespace) -> tuple[dict[str, dict[str, float]], float]:
    """Rollouts per second and the like, for each side and number of threads; and the share of distinct tokens."""
    torch.set_num_threads(1)
    start = start_policy(options.cache, untrained=options.untrained)
    num_steps: int = options.steps
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        theirs = stack.enter_context(closing(Theirs(options.trl_python, start.folder, Path(scratch), problems(), {})))
        inline = stack.enter_context(closing(Ours(run_config("inline"), start)))
        local = stack.enter_context(closing(Ours(run_config("local"), start)))
        gemm = Gemm(start.model, mean_prompt(start), round(inline.steps(num_steps).mean_length))
        theirs.steps(1, num_steps)
        local.steps(num_steps)
        sides: Sides = {}
        for threads in options.threads:
            sides[f"TRL, {threads}"] = partial(theirs.steps, threads, num_steps)
            sides[f"ours inline, {threads}"] = on_threads(threads, inline.steps, num_steps)
            sides[f"GEMM, {threads}"] = on_threads(threads, gemm.steps, num_steps)
        sides["ours local, 1+1"] = on_threads(1, local.steps, num_steps)
        chunks = measure(sides, options.repeats)
        return {name: summary(of_side) for name, of_side in chunks.items()}, inline.distinct_share


def judge(sides: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """At equal threads and best against best: how many times TRL, and which share of the limit."""
    rates = {name: side["rollouts_per_s"] for name, side in sides.items()}
    best = {kind: max((name for name in rates if name.startswith(kind)), key=rates.__getitem__) for kind in KINDS}
    local = "ours local, 1+1"
    pairs = {"one process, 1 thread": ("ours inline, 1", "TRL, 1", "GEMM, 1")}
    if "TRL, 2" in rates:
        pairs["one process, 2 threads"] = ("ours inline, 2", "TRL, 2", "GEMM, 2")
        pairs["two processes / 2 threads"] = (local, "TRL, 2", "GEMM, 2")
    pairs["best of each"] = (best["ours"], best["TRL"], best["GEMM"])
    return {
        name: {"ours": ours, "trl": trl, "ratio": rates[ours] / rates[trl], "share_of_gemm": rates[ours] / rates[gemm]}
        for name, (ours, trl, gemm) in pairs.items()
    }


def show(sides: dict[str, dict[str, float]], verdicts: dict[str, dict[str, Any]], distinct: float) -> None:
    head = f"{'rollouts/s':>11}{'ms a step':>11}{'chunks, ms':>13}{'CPU ms':>8}{'tokens':>8}{'reward':>8}"
    print(f"\n{'side, threads':<18}{head}")
    for name, side in sides.items():
        spread = f"{1e3 * side['fastest_chunk_s']:.0f}-{1e3 * side['slowest_chunk_s']:.0f}"
        cpu = f"{1e3 * side['cpu_s']:.0f}" if name.endswith(", 1") else ""
        reward = "" if name.startswith("GEMM") else f"{side['reward']:.2f}"
        figures = f"{side['rollouts_per_s']:>11.0f}{1e3 * side['step_s']:>11.0f}{spread:>13}{cpu:>8}"
        print(f"{name:<18}{figures}{side['mean_length']:>8.1f}{reward:>8}")
    print(f"\n{'compared':<28}{'ours / TRL':>11} (limit {LEAST_RATIO}){'share of GEMM':>15} (aim {WANTED_SHARE})")
    for name, verdict in verdicts.items():
        print(f"{name:<28}{verdict['ratio']:>11.2f}{'':>12}{verdict['share_of_gemm']:>15.2f}")
    print(f"\nTokens of a batch that no other rollout has after the same tokens: {distinct:.2f} of all.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trl-python", required=True, help="interpreter of an environment from install_trl.sh")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where the warmed-up policy is kept")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], choices=[1, 2], help="numbers of threads")
    parser.add_argument("--repeats", type=int, default=10, help="turns of each side")
    parser.add_argument("--steps", type=int, default=12, help=f"steps of a turn, {WARM_UP_STEPS} of them not counted")
    parser.add_argument("--untrained", action="store_true", help="random weights: rollouts have little in common")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are kept")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    sides, distinct = compare(options)
    verdicts = judge(sides)
    show(sides, verdicts, distinct)
    figures = {
        "policy": "untrained" if options.untrained else "warmed up", "distinct_tokens": distinct,
        "batch": {"prompts": PROMPTS, "rollouts": ROLLOUTS, "max_tokens": MAX_TOKENS},
        "sides": sides, "compared": verdicts, "least_ratio": LEAST_RATIO, "wanted_share": WANTED_SHARE,
        "machine": {"cores": os.cpu_count(), "load_at_the_end": os.getloadavg()[0], "torch": torch.__version__},
    }  # fmt: skip
    options.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if verdicts["best of each"]["ratio"] >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
