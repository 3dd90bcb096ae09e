"""How much generator and trainer disagree about the probability of a token, with and without the FP32 head.

    python benchmarks/fp32_head.py          # about a minute, after the warm start of the laptop scale (cached)

The laptop policy with bfloat16 weights. The embedded engine writes rollouts (one token at a time, with a KV cache) and
records its log-probs; the trainer computes the log-probs of the same tokens (whole sequences at once), with the same
weights. On paper the two are equal and every ratio is 1. The table shows what rounding makes of it for the four
combinations of FP32 head on either side; benchmarks/results/fp32_head.json keeps them.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: its threads read it when they start

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scalerl.config import RunConfig, load_run
from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.microbatches import micro_batches
from scalerl.pipeline.scoring import Scoring, score
from scalerl.pipeline.settings import engine_settings
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.policy.chat import Dialogue
from scalerl.policy.load import LoadedPolicy, load_policy
from scalerl.policy.text import encode_prompt
from scalerl.recipe import Plan
from scalerl.tasks import Verdict, build_task

RESULTS = Path(__file__).parent / "results" / "fp32_head.json"
PROMPTS, ROLLOUTS = 64, 8
COMBINATIONS = ((False, False), (True, False), (False, True), (True, True))
"""FP32 head on the generator, on the trainer."""


@dataclass(frozen=True)
class Mismatch:
    """One line of the table. All over tokens that the policy chose."""

    dtype: str
    generator_fp32: bool
    trainer_fp32: bool
    num_tokens: int
    mean_abs_logprob_difference: float
    ratio_std: float
    ratio_off_by_1_percent: float
    """Share of tokens whose ratio is further than .01 from 1."""
    largest_ratio: float


def generate(run: RunConfig, policy: LoadedPolicy, *, fp32: bool) -> list[Group]:
    """Rollouts with the engine's own log-probs. Nothing is judged here."""
    settings = engine_settings(run, Dialogue(policy.tokenizer, run.scale.chat), temperature=1.0, fp32=fp32)
    engine = EmbeddedEngine(policy.model, settings)
    problems = build_task(run.scale.task_settings, seed=run.seed).problems("train")[:PROMPTS]
    requests = [
        GroupRequest(
            index=index,
            split="train",
            problem=problem.index,
            problem_id=problem.id,
            prompt_ids=encode_prompt(policy.tokenizer, problem.prompt),
            seeds=tuple(index * ROLLOUTS + i for i in range(ROLLOUTS)),
            interruptions=(None,) * ROLLOUTS,
        )
        for index, problem in enumerate(problems)
    ]
    for request in requests:
        engine.submit(request)
    found: dict[tuple[int, int], Rollout] = {}
    while engine.num_pending:
        found |= {(done.request, done.position): done.rollout for done in engine.step().finished}
    unjudged = tuple(Verdict("wrong") for _ in range(ROLLOUTS))
    return [Group(r, tuple(found[r.index, i] for i in range(ROLLOUTS)), unjudged) for r in requests]


def log_ratios(policy: LoadedPolicy, groups: list[Group], *, fp32: bool) -> NDArray[np.float64]:
    """Trainer minus generator, for every token that the policy chose."""
    batch = make_batch(groups)
    ones_r = torch.ones(len(batch.rollout_r))
    everything = Plan(ones_r, ones_r, ones_r, ones_r.bool(), len(groups), len(ones_r))
    scoring = Scoring(temperature=1.0, fp32_head=fp32, mixed_precision=False)
    pieces = []
    with torch.no_grad():
        for micro in micro_batches(batch, everything, 8192, policy.model.device):
            logprob_n, _ = score(policy.model, micro, scoring)
            pieces.append(logprob_n - micro.generator_logprob_rt[micro.mask_rt])
    return torch.cat(pieces).double().numpy()


def measure(dtype: str) -> list[Mismatch]:
    run = load_run(overrides=[f'scale.model.dtype="{dtype}"']).config
    policy = load_policy(run)
    policy.model.eval()
    rows = []
    rollouts = {fp32: generate(run, policy, fp32=fp32) for fp32 in (False, True)}
    for generator, trainer in COMBINATIONS:
        difference = log_ratios(policy, rollouts[generator], fp32=trainer)
        ratio = np.exp(difference)
        rows.append(
            Mismatch(
                dtype,
                generator,
                trainer,
                difference.size,
                mean_abs_logprob_difference=float(np.abs(difference).mean()),
                ratio_std=float(ratio.std()),
                ratio_off_by_1_percent=float((np.abs(ratio - 1) > 0.01).mean()),
                largest_ratio=float(ratio.max()),
            )
        )
    return rows


def show(rows: list[Mismatch]) -> None:
    print(f"{'weights':<10}{'FP32 head':<18}{'mean |dlogp|':>14}{'ratio std':>12}{'off by >1 %':>13}{'largest':>10}")
    names = {(False, False): "none", (True, False): "generator", (False, True): "trainer", (True, True): "both"}
    for row in rows:
        print(
            f"{row.dtype:<10}{names[row.generator_fp32, row.trainer_fp32]:<18}{row.mean_abs_logprob_difference:>14.2e}"
            f"{row.ratio_std:>12.2e}{row.ratio_off_by_1_percent:>12.1%} {row.largest_ratio:>10.4f}"
        )


def main() -> None:
    torch.set_num_threads(1)
    rows = [row for dtype in ("bfloat16", "float32") for row in measure(dtype)]
    show(rows)
    machine = {"python": platform.python_version(), "torch": version("torch"), "transformers": version("transformers")}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
