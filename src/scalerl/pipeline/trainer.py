"""The trainer: a batch of groups becomes one optimiser step.

Called by the session, in the process that owns the run: rank 0 of the ranks that train. It decides what is learnt and
says what happened; the arithmetic is the learner's, here and on every other rank. It knows no task and no engine.

One step: check ages -> plan (rewards, filters, advantages, weights; over the whole batch) -> deal to the ranks -> learn
-> describe. A batch with nothing in the loss (every group all right or all wrong) counts as a step, but leaves weights
and optimiser as they are; so does one whose loss or gradient is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from scalerl.config import RunConfig
from scalerl.config.scale import Optimiser
from scalerl.pipeline import routers, shards
from scalerl.pipeline.adapters import ADAPTER, write_adapters
from scalerl.pipeline.batch import Batch, Values, describe_batch, make_batch, token_ages
from scalerl.pipeline.deal import deal
from scalerl.pipeline.learner import POLICY, Gradient, Learner
from scalerl.pipeline.ranks import Alone, Collect, Learn, Ranks, Read, Write
from scalerl.pipeline.types import Group, Snapshot
from scalerl.recipe import Plan, Recipe

_RNG = "torch_rng"


@dataclass(frozen=True)
class StepResult:
    """What a step did."""

    values: Values
    """For metrics.jsonl."""
    flops: float
    """Forward and backward, on all ranks; padding and recomputed activations are not counted."""
    tokens: int
    """That went through the model, prompts included."""
    skipped: str | None = None
    """Loss or gradient was not finite, with the figures: weights and optimiser are as they were before the step."""


class Trainer:
    """Trains one policy, alone or together with other ranks."""

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        run: RunConfig,
        reference: PreTrainedModel | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """`reference`: the starting policy, for a recipe with a KL term; it is never changed. With several ranks both
        are spread over them from now on, in place."""
        self._ranks: Ranks = Alone() if ranks is None else ranks
        self._learner = Learner(model, recipe, run, reference, self._ranks)
        self._recipe = recipe
        self._optimiser = run.scale.optimiser
        self._adapted = run.scale.lora.rank > 0
        self._start = getattr(run.scale.model, "name", "")

    @property
    def model(self) -> PreTrainedModel:
        """The policy in training."""
        return self._learner.model

    @property
    def num_ranks(self) -> int:
        """Devices that train."""
        return self._ranks.size

    def step(self, groups: Sequence[Group], version: int, max_age: int, slowed: float = 1.0) -> StepResult:
        """One step from this version to the next; `TrainingError` before anything is changed.

        `slowed`: what the learning rate is multiplied with.
        """
        batch = make_batch(groups)
        ages = token_ages(batch, version, max_age)
        plan = self._recipe.plan(batch.rollouts)
        rate = slowed * learning_rate(self._optimiser, version)
        gradient, norm = self._learn(batch, plan, rate)
        values = describe_batch(batch, plan, ages) | _describe(gradient)
        values |= {"grad_norm": norm, "learning_rate": rate}
        return StepResult(values, gradient.flops, gradient.tokens, _not_finite(gradient, norm, rate))

    def accumulate(self, batch: Batch, plan: Plan) -> Gradient:
        """Gradients of a batch on this rank alone. No step is made."""
        return self._learner.accumulate(batch, plan)

    def weights(self) -> Mapping[str, Tensor]:
        """The policy by parameter name, for `Engine.load_weights`; to be copied before the next step."""
        with self._ranks.guarded():
            self._ranks.tell([Collect()] * self._ranks.size)
            return self._learner.weights()

    def snapshot(self) -> Snapshot:
        """The random state, and on one rank the optimiser by parameter name. The weights are the policy's own folder;
        the state of several ranks is written by themselves (`write_parts`)."""
        tensors = self._learner.state() if self._ranks.size == 1 else {}
        return Snapshot({}, tensors | {_RNG: torch.get_rng_state()})

    def write_parts(self, folder: Path) -> Mapping[str, Tensor] | None:
        """What a checkpoint holds besides the policy: the weights and the state of several ranks, each its part, or
        adapters. Returns the whole policy; None where it is the model in memory."""
        if self._ranks.size > 1:
            return self._write_shards(folder / shards.SHARDS)
        if not self._adapted:
            return None
        write_adapters(self.model, self._start, folder / ADAPTER)
        return self._learner.weights()

    def _write_shards(self, folder: Path) -> Mapping[str, Tensor]:
        with self._ranks.guarded():
            self._ranks.tell([Write(folder)] * self._ranks.size)
            self._learner.write(folder)
        return shards.read_whole(folder, POLICY) | _buffers(self.model)

    def restore(self, snapshot: Snapshot, folder: Path | None = None) -> None:
        """Go on from a snapshot; the policy must already have the weights that belong to it.

        `folder`: the checkpoint. Its state is read from there where several ranks wrote it or are to share it.
        """
        tensors = dict(snapshot.tensors)
        torch.set_rng_state(tensors.pop(_RNG))
        if folder is None or (self._ranks.size == 1 and not shards.is_sharded(folder)):
            self._learner.restore(tensors)
            return
        source = shards.shards_of(folder)
        with self._ranks.guarded():
            self._ranks.tell([Read(source)] * self._ranks.size)
            self._learner.read(source)

    def _learn(self, batch: Batch, plan: Plan, rate: float) -> tuple[Gradient, float | None]:
        shares = deal(batch, plan, self._ranks.size)
        with self._ranks.guarded():
            self._ranks.tell([Learn(share.batch.groups, share.plan, rate) for share in shares])
            return self._learner.learn(shares[0].batch, shares[0].plan, rate)


def learning_rate(settings: Optimiser, version: int) -> float:
    """Of the step from this version: it rises linearly over the warm-up and is constant after it."""
    return settings.learning_rate * min(1.0, (version + 1) / max(1, settings.warmup_steps))


def _not_finite(gradient: Gradient, norm: float | None, rate: float) -> str | None:
    if norm is None or (math.isfinite(gradient.loss) and math.isfinite(norm)):
        return None
    return f"loss {gradient.loss:g}, gradient norm {norm:g}, learning rate {rate:g}"


def _buffers(model: PreTrainedModel) -> dict[str, Tensor]:
    """What is saved of a policy besides its parameters; the same on every rank."""
    named = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in named}


def _describe(gradient: Gradient) -> Values:
    stats = {} if gradient.stats is None else gradient.stats.to_dict()
    return {
        "loss": gradient.loss if gradient.stats is not None else None,
        "entropy": stats.get("entropy"),
        "ratio_mean": stats.get("ratio_mean"),
        "ratio_max": stats.get("ratio_max"),
        "clipped_fraction": stats.get("clipped_fraction"),
        "kl": stats.get("kl"),
        "loss_tokens": int(stats.get("tokens") or 0),
        "micro_batches": gradient.num_micro_batches,
        **({} if gradient.experts is None else routers.describe(gradient.experts)),
    }
