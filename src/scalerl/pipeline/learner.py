"""The learner: what every rank does in a step. Its share of a batch becomes gradients, and all shares one update.

Used by the trainer on rank 0 and by `launch.rank` on the others; with one rank it is the whole trainer's arithmetic. It
runs whatever loss the recipe has and knows no algorithm, no task, no engine and no launcher.

One step: micro-batches, whose gradients add up to those of the share, and over the ranks to those of the batch -> clip
-> AdamW. Ranks must take part in every pass of one another, so a rank with fewer micro-batches makes empty passes.

The policy is in eval mode, also while it learns: with dropout the trainer would disagree with the generator about
every token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import reduce
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from scalerl.config import RunConfig
from scalerl.config.scale import Optimiser
from scalerl.config.scale import Trainer as TrainerSettings
from scalerl.errors import InputError
from scalerl.pipeline import shards
from scalerl.pipeline.adapters import add_adapters, merged, trained
from scalerl.pipeline.batch import Batch
from scalerl.pipeline.flat import is_flat
from scalerl.pipeline.flops import forward_cost
from scalerl.pipeline.masters import Masters
from scalerl.pipeline.microbatches import MicroBatch, micro_batches, no_tokens
from scalerl.pipeline.optimiser_state import restore_optimiser, save_optimiser, state_slot
from scalerl.pipeline.ranks import Alone, Ranks
from scalerl.pipeline.routers import Routers
from scalerl.pipeline.scoring import Scoring, score, spread
from scalerl.recipe import LossInputs, LossStats, Plan, Recipe

POLICY = "policy/"
"""In front of the names of the policy's own weights in a sharded checkpoint."""


@dataclass(frozen=True)
class Gradient:
    """What micro-batches added up to; the gradients themselves are in the parameters."""

    loss: float = 0.0
    stats: LossStats | None = None
    """None: there was no micro-batch."""
    num_micro_batches: int = 0
    flops: float = 0.0
    tokens: int = 0
    experts: Tensor | None = None
    """How often each expert was chosen, layer by layer; None: the policy has none."""

    def merge(self, other: Gradient) -> Gradient:
        """Of both together."""
        known = [stats for stats in (self.stats, other.stats) if stats is not None]
        return Gradient(
            self.loss + other.loss,
            reduce(LossStats.merge, known) if known else None,
            self.num_micro_batches + other.num_micro_batches,
            self.flops + other.flops,
            self.tokens + other.tokens,
            _sum(self.experts, other.experts),
        )


class Learner:
    """Owns the weights in training and the state of AdamW, or this rank's part of both."""

    def __init__(
        self,
        model: PreTrainedModel,
        recipe: Recipe,
        run: RunConfig,
        reference: PreTrainedModel | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """`reference`: the starting policy, for a recipe with a KL term; it is never changed."""
        if (reference is None) != (recipe.config.kl_coefficient == 0):
            allowed = "one with recipe.kl_coefficient above 0, none without"
            raise InputError("a reference policy", "none" if reference is None else "one", allowed)
        self._ranks: Ranks = Alone() if ranks is None else ranks
        self._recipe = recipe
        self._scale = run.scale
        self._cost = forward_cost(model)
        self._adapted = run.scale.lora.rank > 0
        self._scoring = Scoring(
            temperature=run.scale.sampling.temperature,
            fp32_head=recipe.config.precision.fp32_head_trainer,
            mixed_precision=run.scale.trainer.mixed_precision,
            flat=not self._adapted
            and _is_plain(run.scale.trainer, self._ranks)
            and is_flat(model, run.scale.tokens.context),
        )
        self.model: PreTrainedModel = model
        model.eval()
        if self._adapted:
            add_adapters(model, run.scale.lora, run.seed)
        self._routers = Routers(model)
        self._reference = None if reference is None else reference.eval().requires_grad_(requires_grad=False)
        if run.scale.trainer.gradient_checkpointing:
            checkpoint_gradients(model)
        for policy in (model, reference):
            if policy is not None:
                self._ranks.shard(policy)
        self._parameters = trained(model)  # a walk over all modules: not at each step
        self._masters = Masters(self._parameters, self._ranks.local, saved=not self._adapted)
        self._optimiser = build_optimiser(self._masters.tensors.values(), run.scale.optimiser)

    def learn(self, batch: Batch, plan: Plan, rate: float) -> tuple[Gradient, float | None]:
        """One update from everybody's share; what they added up to, and the norm of the gradient before clipping (None:
        there was nothing to learn). Where loss or norm is not finite nothing is changed, on any rank."""
        own = self.accumulate(batch, plan)
        total = reduce(Gradient.merge, self._ranks.gather(own))
        norm = self._update(total, rate)
        self._clear_gradients()  # as large as the policy: an evaluation or a checkpoint needs the memory
        return total, norm

    def accumulate(self, batch: Batch, plan: Plan) -> Gradient:
        """Gradients of the whole share, one micro-batch after the other. No update is made."""
        self._clear_gradients()
        device = self.model.device
        pieces = micro_batches(batch, plan, self._scale.trainer.micro_batch_tokens, device)
        passes = self._ranks.most(len(pieces))
        loss, flops, tokens = 0.0, 0.0, 0
        stats: list[LossStats] = []
        for micro in pieces:
            with self._routers.listening(_no_padding(micro) if self._routers.found else None):
                inputs = self._loss_inputs(micro)
            outputs = self._recipe.loss(inputs)
            outputs.loss.backward()
            loss += outputs.loss.item()
            stats.append(_on_cpu(outputs.stats))
            flops += self._flops(micro)
            tokens += micro.num_tokens
        for _ in range(passes - len(pieces)):
            self._empty_pass(device)
        total = reduce(LossStats.merge, stats) if stats else None
        return Gradient(loss, total, len(stats), flops, tokens, self._routers.take())

    def weights(self) -> dict[str, Tensor]:
        """The policy by parameter name: on one rank views, to be copied before the next step."""
        if self._adapted:
            return merged(self.model)
        return {name: self._ranks.whole(parameter.detach()) for name, parameter in self._parameters.items()}

    def state(self) -> dict[str, Tensor]:
        """AdamW and float32 masters by parameter name: copies of this rank's part."""
        return save_optimiser(self._masters.tensors, self._optimiser) | self._masters.save()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state; the policy must already have the weights that belong to it."""
        rest = dict(tensors)
        self._masters.restore(rest)
        restore_optimiser(self._masters.tensors, self._optimiser, rest)

    def write(self, folder: Path) -> None:
        """Weights and state into a sharded checkpoint; all ranks together."""
        tensors: dict[str, Tensor] = {f"{POLICY}{name}": tensor.detach() for name, tensor in self._parameters.items()}
        shards.write(folder, tensors | self._as_spread(self.state()), self._ranks.group)

    def read(self, folder: Path) -> None:
        """The state that ranks have written, however many they were; all ranks together."""
        parts: dict[str, Tensor] = {}
        for key, shape in shards.shapes(folder).items():
            if (slot := state_slot(key)) is None:
                continue
            parameter = self._parameters.get(slot.parameter)
            if parameter is None or slot.shape(parameter.shape) != shape:
                allowed = "those of the policy, in their shapes"
                raise InputError("saved optimiser state of another policy: parameter", slot.parameter, allowed)
            master = self._masters.tensors[slot.parameter]
            parts[key] = torch.zeros(slot.shape(master.shape), device=master.device if slot.shaped else "cpu")
        shards.read(folder, self._as_spread(parts), self._ranks.group)
        self.restore(parts)

    def _as_spread(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        """As tensors of all ranks, in the memory of the parts."""
        found = {}
        for key, part in parts.items():
            slot = state_slot(key)
            assert slot is not None
            found[key] = self._ranks.spread(part, self._parameters[slot.parameter]) if slot.shaped else part
        return found

    def _loss_inputs(self, micro: MicroBatch) -> LossInputs:
        logprob_n, entropy_n = score(self.model, micro, self._scoring)
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

    def _empty_pass(self, device: torch.device) -> None:
        """Gradients of zero: the other ranks wait for this one in every layer, forward and backward."""
        inputs = self._loss_inputs(no_tokens(device))
        (inputs.logprob_rt.sum() * 0.0).backward()

    def _update(self, gradient: Gradient, rate: float) -> float | None:
        """Clip and step; the norm of the gradient before clipping."""
        if gradient.stats is None:
            return None
        parameters = self._masters.take_gradients()
        norm = self._ranks.norm([grad for p in parameters if (grad := p.grad) is not None])
        if not (math.isfinite(gradient.loss) and bool(norm.isfinite())):
            return norm.item()
        torch.nn.utils.clip_grads_with_norm_(parameters, self._scale.optimiser.grad_clip, norm)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        self._masters.give_weights()
        return norm.item()

    def _clear_gradients(self) -> None:
        for tensors in (self._parameters, self._masters.tensors):
            for tensor in tensors.values():
                tensor.grad = None

    def _flops(self, micro: MicroBatch) -> float:
        flops = self._cost.training_flops(micro.num_tokens, micro.num_attended, frozen=self._adapted)
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


def checkpoint_gradients(model: PreTrainedModel) -> None:
    """Activations are recomputed in the backward pass."""
    if not model.supports_gradient_checkpointing:
        what = f"scale.trainer.gradient_checkpointing with a policy of type {model.config.model_type}"
        raise InputError(what, "true", "false: this kind of model has none")
    enable = getattr(model, "activation_checkpointing_enable", None)  # its name since transformers 5.23
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True  # recomputes in no other mode; its parts stay in eval mode, without dropout


def _is_plain(settings: TrainerSettings, ranks: Ranks) -> bool:
    """Float32 throughout, activations kept, on one rank: layers of several are put together by their own forward."""
    return not (settings.mixed_precision or settings.gradient_checkpointing or ranks.size > 1)


def _no_padding(micro: MicroBatch) -> Tensor:
    """Which positions of the flattened input are tokens."""
    place_s = torch.arange(micro.input_rs.shape[1])
    return (place_s < torch.from_numpy(micro.length_r).unsqueeze(1)).flatten().to(micro.input_rs.device)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first + second


def _on_cpu(stats: LossStats) -> LossStats:
    found: dict[str, Tensor | None] = {item.name: getattr(stats, item.name) for item in fields(stats)}
    return replace(stats, **{name: value.cpu() for name, value in found.items() if value is not None})
