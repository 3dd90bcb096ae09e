"""The case that vs_trl.py measures: policy, task and batch, our side of it, and the limit that GEMM sets.

Our side is the real thing: the launcher's feed (source, engine, verifier, buffer), the trainer and the publication of
weights, called as the training loop of `scalerl.pipeline.session` calls them. Left out, as on TRL's side: evaluation,
checkpoints, and writing metrics to a file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from scalerl.config import RunConfig
from scalerl.config.load import load_run, patch
from scalerl.pipeline.assemble import ground
from scalerl.pipeline.launch.open import OnThisMachine
from scalerl.pipeline.schedule import schedule_of
from scalerl.pipeline.trainer import Trainer
from scalerl.pipeline.types import Group
from scalerl.policy.load import LoadedPolicy, load_policy, read_policy
from scalerl.policy.text import encode_prompt
from scalerl.tasks import build_task

PROMPTS, ROLLOUTS, MAX_TOKENS = 8, 8, 16
NUM_PROBLEMS = 4000
OVERRIDES = (
    "scale.model.layers=4", "scale.model.width=128", "scale.model.heads=4", "scale.model.feed_forward=512",
    "scale.warm_start.steps=300", "scale.warm_start.batch=64",
    "scale.task.numbers=2", "scale.task.largest=99", f"scale.task.train_problems={NUM_PROBLEMS}",
    f"scale.batch.prompts={PROMPTS}", f"scale.batch.rollouts={ROLLOUTS}", f"scale.generator.rows={PROMPTS * ROLLOUTS}",
    "scale.tokens.prompt=8", "scale.tokens.thinking=12", f"scale.tokens.answer={MAX_TOKENS - 12}",
    "scale.optimiser.learning_rate=1e-6", "scale.optimiser.warmup_steps=0",
    "recipe.aggregation=token", "recipe.zero_variance=keep", "recipe.truncated=keep",
    "recipe.curriculum.kind=uniform", "recipe.length.kind=none",
)  # fmt: skip
"""ScaleRL's recipe where TRL has the same, TRL's choice elsewhere: every rollout is trained on, averaged over tokens.
So small a rate leaves the policy, and with it the lengths of rollouts, as they are."""
LAUNCHERS = {
    "inline": ("scale.launcher.kind=inline", "recipe.asynchrony.kind=sync"),
    "local": ("scale.launcher.kind=local", "recipe.asynchrony.kind=pipeline", "recipe.asynchrony.k=1"),
}
"""One process that generates and trains in turn, as TRL does; or one process for each, which overlap."""


@dataclass(frozen=True)
class Chunk:
    """Some optimiser steps, one after the other."""

    step_s: list[float]
    cpu_s: float
    """CPU time of the process for each step: on one thread it hardly depends on what else the machine does."""
    mean_length: float
    reward: float
    truncation_rate: float


def run_config(launcher: str) -> RunConfig:
    return load_run(overrides=[*OVERRIDES, *LAUNCHERS[launcher]]).config


def start_policy(cache: Path, *, untrained: bool) -> LoadedPolicy:
    """The policy that both sides begin with; it is warmed up once, which takes about a minute."""
    run = run_config("inline")
    return load_policy(patch(run, {"scale.warm_start.kind": "none"}) if untrained else run, cache)


def problems() -> list[dict[str, str]]:
    """The task for TRL: the same prompts."""
    task = build_task(run_config("inline").scale.task_settings, seed=0)
    return [{"prompt": one.prompt, "answer": one.answer} for one in task.problems("train")[:NUM_PROBLEMS]]


def mean_prompt(start: LoadedPolicy) -> int:
    """Tokens."""
    prompts = [one["prompt"] for one in problems()]
    return round(sum(len(encode_prompt(start.tokenizer, prompt)) for prompt in prompts) / len(prompts))


class Ours:
    """A run of ours that makes steps when it is told to."""

    def __init__(self, run: RunConfig, start: LoadedPolicy) -> None:
        base = ground(run, start.tokenizer)
        model = read_policy(start.folder, run.scale.model.dtype)
        self._max_age = schedule_of(run.recipe.asynchrony).max_age
        self._trainer = Trainer(model, base.recipe, run)
        self._feed = OnThisMachine().open_feed(base, model, start.folder, 0)
        self._version = 0
        self._groups: tuple[Group, ...] = ()

    @property
    def distinct_share(self) -> float:
        """Of the tokens in the last batch, those that no other rollout has after the same tokens: the trainer computes
        only these."""
        texts = [
            (*group.request.prompt_ids, *rollout.tokens[:-1].tolist())
            for group in self._groups
            for rollout in group.rollouts
        ]
        distinct = {text[:end] for text in texts for end in range(1, len(text) + 1)}
        return len(distinct) / sum(map(len, texts))

    def steps(self, num_steps: int) -> Chunk:
        times, values = [], []
        began = time.process_time()
        for _ in range(num_steps):
            started = time.perf_counter()
            groups = self._feed.batch(self._version)
            if groups is None:
                raise RuntimeError("the problems ran out")
            result = self._trainer.step(groups, self._version, self._max_age)
            self._version += 1
            self._feed.publish(self._trainer.weights(), self._version, result.flops)
            self._feed.report()
            times.append(time.perf_counter() - started)
            values.append(result.values)
            self._groups = groups
        means = {
            name: sum(float(value[name] or 0) for value in values) / num_steps
            for name in ("mean_length", "reward", "truncation_rate")
        }
        return Chunk(times, (time.process_time() - began) / num_steps, **means)

    def close(self) -> None:
        self._feed.close()


@dataclass(frozen=True)
class Gemm:
    """The matrix multiplications of one step and nothing else: torch.mm at the shapes of the policy's matrices.

    Prompts are read once for each group, a response of t tokens takes t - 1 decode steps of all rows (its first token
    comes from the prompt), and training runs over prompt and response but for the last token: forward, gradient of the
    input, gradient of the weights. The LM head works only where a token is predicted.
    """

    model: PreTrainedModel
    prompt_tokens: int
    response_tokens: int
    buffers: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def steps(self, num_steps: int) -> Chunk:
        began = time.process_time()
        times = [self._seconds() for _ in range(num_steps)]
        return Chunk(times, (time.process_time() - began) / num_steps, self.response_tokens, 0.0, 0.0)

    def _seconds(self) -> float:
        started = time.perf_counter()
        rows = PROMPTS * ROLLOUTS
        self._forward(PROMPTS * self.prompt_tokens, PROMPTS)
        for _ in range(self.response_tokens - 1):
            self._forward(rows, rows)
        inputs, predicted = rows * (self.prompt_tokens + self.response_tokens - 1), rows * self.response_tokens
        self._forward(inputs, predicted)
        self._backward(inputs, predicted)
        return time.perf_counter() - started

    def _forward(self, tokens: int, predicted: int) -> None:
        for weight_oi, num in self._matrices(tokens, predicted):
            torch.mm(self._buffer(num, weight_oi.shape[1]), weight_oi.t())

    def _backward(self, tokens: int, predicted: int) -> None:
        for weight_oi, num in self._matrices(tokens, predicted):
            grad_no, input_ni = self._buffer(num, weight_oi.shape[0]), self._buffer(num, weight_oi.shape[1])
            torch.mm(grad_no, weight_oi)
            torch.mm(grad_no.t(), input_ni)

    def _matrices(self, tokens: int, predicted: int) -> list[tuple[Tensor, int]]:
        head = self.model.get_output_embeddings()
        linear = [module for module in self.model.modules() if isinstance(module, nn.Linear)]
        return [(module.weight.detach(), predicted if module is head else tokens) for module in linear]

    def _buffer(self, rows: int, columns: int) -> Tensor:
        if (rows, columns) not in self.buffers:
            self.buffers[rows, columns] = torch.randn(rows, columns)
        return self.buffers[rows, columns]
