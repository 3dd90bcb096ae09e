"""The trainer: a batch of groups becomes one optimiser step.

Called by the session, in the process that owns the weights. It runs whatever loss the recipe has and knows no
algorithm, no task, no engine and no file.

One step: check ages -> plan (rewards, filters, advantages, weights; over the whole batch) -> micro-batches, whose
gradients add up to those of the batch -> clip -> AdamW. A batch with nothing in the loss (every group all right or all
wrong) counts as a step, but leaves weights and optimiser as they are.

The policy is in eval mode, also while it learns: with dropout the trainer would disagree with the generator about
every token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from scalerl.config import RunConfig
from scalerl.config.scale import Optimiser
from scalerl.config.scale import Trainer as TrainerSettings
from scalerl.errors import InputError, TrainingError
from scalerl.pipeline.batch import Batch, Values, describe_batch, make_batch, token_ages
from scalerl.pipeline.flat import is_flat
from scalerl.pipeline.flops import forward_cost
from scalerl.pipeline.masters import Masters
from scalerl.pipeline.microbatches import MicroBatch, micro_batches
from scalerl.pipeline.optimiser_state import restore_optimiser, save_optimiser
from scalerl.pipeline.scoring import Scoring, score, spread
from scalerl.pipeline.types import Group, Snapshot
from scalerl.recipe import LossInputs, LossStats, Plan, Recipe

_RNG = "torch_rng"


@dataclass(frozen=True)
class StepResult:
    """What a step did."""

    values: Values
    """For metrics.jsonl."""
    flops: float
    """Forward and backward; padding and recomputed activations are not counted."""
    tokens: int
    """That went through the model, prompts included."""


@dataclass(frozen=True)
class Gradient:
    """What the micro-batches of one batch added up to; the gradients themselves are in the parameters."""

    loss: float
    stats: LossStats | None
    """None: there was no micro-batch."""
    num_micro_batches: int
    flops: float
    tokens: int


class Trainer:
    """Owns the weights in training and the state of AdamW."""

    def __init__(
        self, model: PreTrainedModel, recipe: Recipe, run: RunConfig, reference: PreTrainedModel | None = None
    ) -> None:
        """`reference`: the starting policy, for a recipe with a KL term; it is never changed."""
        if (reference is None) != (recipe.config.kl_coefficient == 0):
            allowed = "one with recipe.kl_coefficient above 0, none without"
            raise InputError("a reference policy", "none" if reference is None else "one", allowed)
        model.eval()
        self._model: PreTrainedModel = model
        self._parameters = dict(model.named_parameters())  # a walk over all modules: not at each step
        self._recipe = recipe
        self._scale = run.scale
        self._reference = None if reference is None else reference.eval().requires_grad_(requires_grad=False)
        self._cost = forward_cost(model)
        self._scoring = Scoring(
            temperature=run.scale.sampling.temperature,
            fp32_head=recipe.config.precision.fp32_head_trainer,
            mixed_precision=run.scale.trainer.mixed_precision,
            flat=_is_plain(run.scale.trainer) and is_flat(model, run.scale.tokens.context),
        )
        self._masters = Masters(self._parameters)
        self._optimiser = build_optimiser(self._masters.tensors.values(), run.scale.optimiser)
        if run.scale.trainer.gradient_checkpointing:
            checkpoint_gradients(model)

    @property
    def model(self) -> PreTrainedModel:
        """The policy in training."""
        return self._model

    def step(self, groups: Sequence[Group], version: int, max_age: int) -> StepResult:
        """One step from this version to the next; `TrainingError` before anything is changed."""
        batch = make_batch(groups)
        ages = token_ages(batch, version, max_age)
        plan = self._recipe.plan(batch.rollouts)
        rate = learning_rate(self._scale.optimiser, version)
        gradient = self.accumulate(batch, plan)
        norm = self._update(gradient, version, rate)
        values = describe_batch(batch, plan, ages) | _describe(gradient)
        values |= {"grad_norm": norm, "learning_rate": rate}
        return StepResult(values, gradient.flops, gradient.tokens)

    def accumulate(self, batch: Batch, plan: Plan) -> Gradient:
        """Gradients of the whole batch, one micro-batch after the other. No step is made."""
        self._clear_gradients()
        loss, flops, tokens = 0.0, 0.0, 0
        stats: list[LossStats] = []
        for micro in micro_batches(batch, plan, self._scale.trainer.micro_batch_tokens, self._model.device):
            outputs = self._recipe.loss(self._loss_inputs(micro))
            outputs.loss.backward()
            loss += outputs.loss.item()
            stats.append(outputs.stats)
            flops += self._flops(micro)
            tokens += micro.num_tokens
        return Gradient(loss, reduce(LossStats.merge, stats) if stats else None, len(stats), flops, tokens)

    def weights(self) -> dict[str, Tensor]:
        """The policy by parameter name, for `Engine.load_weights`: views, to be copied before the next step."""
        return {name: parameter.detach() for name, parameter in self._parameters.items()}

    def snapshot(self) -> Snapshot:
        """The optimiser by parameter name and the random state. The weights are the policy's own folder."""
        tensors = save_optimiser(self._masters.tensors, self._optimiser) | self._masters.save()
        return Snapshot({}, tensors | {_RNG: torch.get_rng_state()})

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot; the policy must already have the weights that belong to it."""
        tensors = dict(snapshot.tensors)
        torch.set_rng_state(tensors.pop(_RNG))
        self._masters.restore(tensors)
        restore_optimiser(self._masters.tensors, self._optimiser, tensors)

    def _loss_inputs(self, micro: MicroBatch) -> LossInputs:
        logprob_n, entropy_n = score(self._model, micro, self._scoring)
        reference_rt = None
        if self._reference is not None:
            with torch.no_grad():
                reference_rt = spread(score(self._reference, micro, self._scoring)[0], micro.mask_rt)
        return LossInputs(
            logprob_rt=spread(logprob_n, micro.mask_rt),
            generator_logprob_rt=micro.generator_logprob_rt,
            mask_rt=micro.mask_rt,
            advantage_r=micro.advantage_r,
            weight_r=micro.weight_r,
            reference_logprob_rt=reference_rt,
            entropy_rt=spread(entropy_n, micro.mask_rt),
        )

    def _update(self, gradient: Gradient, version: int, rate: float) -> float | None:
        """Clip and step; the norm of the gradient before clipping, None where there was nothing to learn."""
        if gradient.stats is None:
            return None
        parameters = self._masters.take_gradients()
        norm = torch.nn.utils.get_total_norm([grad for p in parameters if (grad := p.grad) is not None])
        if not (math.isfinite(gradient.loss) and bool(norm.isfinite())):
            self._clear_gradients()
            numbers = f"loss {gradient.loss:g}, gradient norm {norm:g}, learning rate {rate:g}"
            raise TrainingError(f"step {version + 1}: loss or gradient is not finite ({numbers})")
        torch.nn.utils.clip_grads_with_norm_(parameters, self._scale.optimiser.grad_clip, norm)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._masters.give_weights()
        return norm.item()

    def _clear_gradients(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None

    def _flops(self, micro: MicroBatch) -> float:
        flops = self._cost.training_flops(micro.num_tokens, micro.num_attended)
        if self._reference is not None:
            flops += self._cost.flops(micro.num_tokens, micro.num_attended)
        return flops


def build_optimiser(parameters: Iterable[Tensor], settings: Optimiser) -> torch.optim.AdamW:
    """AdamW on every parameter, in one fused pass."""
    return torch.optim.AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def learning_rate(settings: Optimiser, version: int) -> float:
    """Of the step from this version: it rises linearly over the warm-up and is constant after it."""
    return settings.learning_rate * min(1.0, (version + 1) / max(1, settings.warmup_steps))


def checkpoint_gradients(model: PreTrainedModel) -> None:
    """Activations are recomputed in the backward pass."""
    if not model.supports_gradient_checkpointing:
        what = f"scale.trainer.gradient_checkpointing with a policy of type {model.config.model_type}"
        raise InputError(what, "true", "false: this kind of model has none")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True  # recomputes in no other mode; its parts stay in eval mode, without dropout


def _is_plain(settings: TrainerSettings) -> bool:
    """Float32 throughout, activations kept."""
    return not (settings.mixed_precision or settings.gradient_checkpointing)


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
    }
