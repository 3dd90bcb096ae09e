"""Warm start: supervised training of a small policy on noisy solution traces, so that RL has something to improve.

Called by the command line (`scalerl sft`) and by the pipeline before step 0. Traces with wrong steps teach the skill
and unreliability at once: a policy that learnt a share w of wrong steps solves a chain of n steps with about (1 - w)^n,
and has the right step as its most likely one. RL then has room to grow and something to find.

The result is cached by a digest of all settings. A folder in the cache is complete or not there (see `folder`), and its
marker, written last, says how it was made.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from scalerl.errors import InputError
from scalerl.folder import check_writable, complete_folder
from scalerl.policy.tiny import Shape, TinyLlama, TinyMoe, new_policy, save_policy
from scalerl.policy.traces import TraceBatch, trace_batches
from scalerl.tasks import TracedTask, build_task, traced

MARKER = "warm_start.json"
FORMAT = 2
"""Raised when the code below gives other weights for the same settings, so that no old cache is taken for new."""

WARMUP_SHARE = 0.05
WEIGHT_DECAY = 0.01
GRADIENT_NORM = 1.0

_NO_EFFECT = ("held_out_problems",)
"""Settings of the task that do not change what is trained on."""


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Everything that decides the weights."""

    task: str | Mapping[str, Any] = "chained_sums"
    """What `scalerl.tasks.build_task` takes; the task must have solution traces."""
    model: Shape = field(default_factory=TinyLlama)
    """The policy to train."""
    steps: int = 800
    """Optimiser steps."""
    batch: int = 64
    """Traces in a step."""
    learning_rate: float = 5e-3
    """AdamW's rate at its highest: it rises linearly over the first 5 % of the steps and then falls to zero."""
    wrong_steps: float = 0.35
    """Share of the steps in the traces that are wrong on purpose: it sets the pass rate at step 0."""
    seed: int = 0
    """Seed of the problems, the traces and the initial weights."""
    portable: bool = False
    """Trained under the settings of portable runs (see `scalerl.portable`), which the caller has seen to."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"warm_start.{name}", value, "a whole number of at least 1")
        if not 0 < self.learning_rate < math.inf:
            raise InputError("warm_start.learning_rate", self.learning_rate, "a positive number")
        if not 0 <= self.wrong_steps < 1:
            raise InputError("warm_start.wrong_steps", self.wrong_steps, "0 or more and below 1")


@dataclass(frozen=True)
class Progress:
    """Where the training stands, after each step."""

    step: int
    steps: int
    loss: float
    num_tokens: int
    """Trained on so far, without padding."""
    wall_s: float


def warm_start(settings: WarmStart, cache: str | Path, progress: Callable[[Progress], None] | None = None) -> Path:
    """The folder of the warmed-up policy: from the cache, or trained now.

    The same settings give the same weights on the same kind of processor with the same number of threads, portable ones
    on every kind.
    """
    task = traced(build_task(settings.task, seed=settings.seed))
    described = _described(settings, task)
    folder = Path(cache) / _digest(described)
    if (folder / MARKER).is_file():
        return folder
    if folder.exists():
        raise InputError("a folder that is no warm start", allowed=f"one with {MARKER}, or none", where=str(folder))
    check_writable(folder)  # now, not after minutes of training
    model, tokenizer = new_policy(settings.model, settings.seed)
    last = _train(model, tokenizer, task, settings, progress or _silent)
    try:
        with complete_folder(folder) as partial:
            save_policy(partial, model, tokenizer)
            (partial / MARKER).write_text(json.dumps(_record(described, last), indent=2) + "\n")
    except FileExistsError:  # another process trained the same policy meanwhile
        pass
    return folder


def warm_start_digest(settings: WarmStart) -> str:
    """The name of the cached folder."""
    return _digest(_described(settings, traced(build_task(settings.task, seed=settings.seed))))


def _train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    task: TracedTask,
    settings: WarmStart,
    progress: Callable[[Progress], None],
) -> Progress:
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=WEIGHT_DECAY, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, settings.steps))
    batches = trace_batches(task, tokenizer, batch=settings.batch, wrong_steps=settings.wrong_steps, seed=settings.seed)
    model.train()
    started, num_tokens = time.monotonic(), 0
    last = Progress(0, settings.steps, math.nan, 0, 0.0)
    for step, batch in enumerate(islice(batches, settings.steps), 1):
        loss = _loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        num_tokens += batch.num_tokens
        last = Progress(step, settings.steps, loss.item(), num_tokens, time.monotonic() - started)
        if not math.isfinite(last.loss):
            what = f"the warm start diverged at step {step}; warm_start.learning_rate"
            raise InputError(what, settings.learning_rate, "a smaller one")
        progress(last)
    return last


def _loss(model: PreTrainedModel, batch: TraceBatch) -> torch.Tensor:
    """Mean cross-entropy of the completions; for a mixture of experts with its load-balancing term."""
    extra = {"output_router_logits": True} if model.config.model_type == "mixtral" else {}
    loss: torch.Tensor = model(input_ids=batch.tokens_bt, labels=batch.labels_bt, use_cache=False, **extra).loss
    return loss


def _rate(step: int, steps: int) -> float:
    """The share of the learning rate that the update after `step` steps uses."""
    warmup = max(1, round(WARMUP_SHARE * steps))
    return min((step + 1) / warmup, (steps - step) / max(1, steps - warmup + 1))


def _described(settings: WarmStart, task: TracedTask) -> dict[str, Any]:
    """The settings in full, as JSON can hold them: a task by name and the same task by its options are one."""
    kind = {TinyLlama: "llama", TinyMoe: "moe"}[type(settings.model)]
    options = {name: value for name, value in task.settings.items() if name not in _NO_EFFECT}
    described = asdict(settings) | {
        "task": options,
        "model": {"kind": kind, **asdict(settings.model)},
        "format": FORMAT,
    }
    if not settings.portable:  # came later: the names of all other folders stay
        del described["portable"]
    return described


def _digest(described: Mapping[str, Any]) -> str:
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _record(described: Mapping[str, Any], last: Progress) -> dict[str, Any]:
    versions = {package: version(package) for package in ("torch", "transformers", "tokenizers")}
    measured = {"last_loss": last.loss, "num_tokens": last.num_tokens, "wall_s": round(last.wall_s, 3)}
    return {"settings": described, "measured": measured, "threads": torch.get_num_threads(), "versions": versions}


def _silent(_: Progress) -> None:
    """Nobody is watching."""
