"""TRL's half of vs_trl.py: a GRPOTrainer that makes optimiser steps when it is told to, and says how long they took.

    PYTHON_OF_TRL benchmarks/trl_side.py POLICY PROBLEMS.json      # started by vs_trl.py, in TRL's own environment

Each line on standard input is `THREADS STEPS`; each answer is one line of JSON. A time covers everything from the end
of one step to the end of the next: data, generation, reward, loss, backward, clip, AdamW. Must not import scalerl: it
is not installed there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

PROMPTS, ROLLOUTS, MAX_TOKENS = 8, 8, 16
END_THINK = "</think>"


def reward(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """As scalerl scores a chained sum: +1 where what follows the thinking is the sum, else -1."""
    scores = []
    for completion, wanted in zip(completions, answer, strict=True):
        _before, marker, rest = completion.rpartition(END_THINK)
        scores.append(1.0 if marker and rest.strip() == wanted else -1.0)
    return scores


class Chunks(TrainerCallback):
    """Waits for an order after each chunk of steps, so that the two sides can take turns."""

    def __init__(self) -> None:
        self._left = 0
        self._began = self._last = 0.0
        self._times: list[float] = []
        self._trainer: Any = None

    def watch(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._next(None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - not ours
        now = time.perf_counter()
        self._times.append(now - self._last)
        self._left -= 1
        if not self._left:
            self._next(control)
            now = time.perf_counter()
        self._last = now

    def _next(self, control: Any) -> None:
        if control is not None:
            cpu_s = (time.process_time() - self._began) / len(self._times)
            print(json.dumps({"step_s": self._times, "cpu_s": cpu_s, **self._measured()}), flush=True)
        order = sys.stdin.readline().split()
        if not order:
            if control is None:
                raise SystemExit("no order came")
            control.should_training_stop = True
            self._left = -1
            return
        threads, self._left = map(int, order)
        torch.set_num_threads(threads)
        self._times = []
        self._began = time.process_time()
        self._last = time.perf_counter()

    def _measured(self) -> dict[str, float]:
        """Means over the chunk, to show that both sides do the same work."""
        metrics = self._trainer._metrics["train"]  # with logging off they are nowhere else
        names = {
            "mean_length": "completions/mean_length",
            "reward": "reward",
            "truncation_rate": "completions/clipped_ratio",
        }
        means = {ours: sum(metrics[theirs]) / max(1, len(metrics[theirs])) for ours, theirs in names.items()}
        metrics.clear()
        return means


def trainer(policy: str, problems: Path, scratch: str, extra: dict[str, Any]) -> Any:
    """The fastest reasonable settings on a CPU: float32, the whole batch at once, nothing recomputed or logged."""
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    transformers: Any = importlib.import_module("transformers")
    settings = trl.GRPOConfig(**({
        "output_dir": scratch, "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch", "cast_lm_head_to_fp32": True,
        "beta": 0.0, "num_iterations": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
        "per_device_train_batch_size": PROMPTS * ROLLOUTS, "gradient_accumulation_steps": 1,
        "num_generations": ROLLOUTS, "max_completion_length": MAX_TOKENS,
        "learning_rate": 1e-6, "lr_scheduler_type": "constant", "max_grad_norm": 1.0, "optim": "adamw_torch_fused",
        "adam_epsilon": 1e-15, "weight_decay": 0.01,
        "max_steps": 10**6, "dataloader_num_workers": 0, "dataloader_pin_memory": False,
        "logging_strategy": "no", "save_strategy": "no", "eval_strategy": "no", "report_to": "none",
        "disable_tqdm": True, "seed": 0, "model_init_kwargs": {"dtype": "float32"},
    } | extra))  # fmt: skip
    chunks = Chunks()
    made = trl.GRPOTrainer(
        model=policy,
        reward_funcs=reward,
        args=settings,
        train_dataset=datasets.Dataset.from_list(json.loads(problems.read_text())),
        processing_class=transformers.AutoTokenizer.from_pretrained(policy),
        callbacks=[chunks],
    )
    chunks.watch(made)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policy", help="folder of the policy")
    parser.add_argument("problems", type=Path, help='JSON: a list of {"prompt", "answer"}')
    parser.add_argument("--set", default="{}", help="JSON: other settings of GRPOConfig")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trainer(options.policy, options.problems, scratch, json.loads(options.set)).train()


if __name__ == "__main__":
    main()
