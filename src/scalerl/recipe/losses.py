"""Surrogate objectives. Each is a pure function from a micro-batch to one objective value for each token.

Used through `build_loss`, which closes over the numbers of the config and returns the one `Loss` signature. No
surrogate knows how tokens are averaged (`aggregation`), where advantages come from (`advantages`), or what a batch is.

The ratio is always trainer now / generator at sampling time, token by token: it corrects the age of a rollout and the
mismatch between the two programs alike.

Shapes: r = rollouts of the micro-batch (rows), t = token positions of the response, padded on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from scalerl.config import recipe as axes
from scalerl.errors import InputError
from scalerl.recipe.inputs import Loss, LossInputs, LossOutputs, LossStats

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped here, far beyond any clip: exp would overflow float32 at 88 and turn the loss into NaN."""


@dataclass(frozen=True)
class Terms:
    """A surrogate, token by token."""

    objective_rt: Tensor
    """To be maximised."""
    ratio_rt: Tensor
    """The importance ratio that it used, without gradient; 1 for a surrogate that uses none."""
    clipped_rt: Tensor
    """True where the cap or the clip took hold."""


Surrogate = Callable[[LossInputs], Terms]


def cispo(inputs: LossInputs, cap: float) -> Terms:
    """CISPO: sg(min(ratio, cap)) x advantage x log-prob (MiniMax-M1, arXiv 2506.13585).

    REINFORCE with a truncated importance weight. Every token keeps its gradient, also beyond the cap; there is no lower
    clip. Zero where the advantage is zero.
    """
    ratio_rt = log_ratio(inputs).detach().exp()
    objective_rt = ratio_rt.clamp(max=cap) * inputs.advantage_r[:, None] * inputs.logprob_rt
    return Terms(objective_rt, ratio_rt, ratio_rt > cap)


def ppo_clip(inputs: LossInputs, clip_low: float, clip_high: float) -> Terms:
    """PPO's clip: min(ratio x A, clip(ratio, 1 - clip_low, 1 + clip_high) x A) (GRPO; asymmetric: DAPO).

    A token loses its gradient once its ratio has moved beyond the clip in the direction that the advantage asks for.
    """
    return _clipped(log_ratio(inputs).exp(), inputs.advantage_r[:, None], clip_low, clip_high)


def gspo(inputs: LossInputs, clip_low: float, clip_high: float) -> Terms:
    """GSPO: PPO's clip on one ratio for the rollout, exp(mean of its token log-ratios) (arXiv 2507.18071).

    Every token of the rollout gets the same term, so that the sample average gives the published objective; under the
    other averages a rollout counts in proportion to its tokens.
    """
    tokens_r = inputs.mask_rt.sum(dim=1).clamp(min=1)
    ratio_r = (log_ratio(inputs).sum(dim=1) / tokens_r).exp()
    ratio_rt = ratio_r[:, None].expand_as(inputs.logprob_rt)
    return _clipped(ratio_rt, inputs.advantage_r[:, None], clip_low, clip_high)


def reinforce(inputs: LossInputs) -> Terms:
    """REINFORCE: advantage x log-prob. Right only on fresh rollouts: nothing corrects their age."""
    objective_rt = inputs.advantage_r[:, None] * inputs.logprob_rt
    ratio_rt = torch.ones_like(inputs.logprob_rt, requires_grad=False)
    return Terms(objective_rt, ratio_rt, torch.zeros_like(ratio_rt, dtype=torch.bool))


def log_ratio(inputs: LossInputs) -> Tensor:
    """log(trainer now / generator at sampling time) for each token; zero outside the mask."""
    difference_rt = inputs.logprob_rt - inputs.generator_logprob_rt
    return difference_rt.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def kl_k3(logprob_rt: Tensor, reference_logprob_rt: Tensor) -> Tensor:
    """Schulman's k3 estimate of KL(policy || reference): exp(d) - d - 1 with d = reference - policy.

    Never negative, unbiased for fresh samples, zero where the two agree.
    """
    difference_rt = (reference_logprob_rt - logprob_rt).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return difference_rt.exp() - difference_rt - 1.0


def build_loss(config: axes.Loss, kl_coefficient: float = 0.0) -> Loss:
    """The loss of a recipe, in the one signature that the trainer knows."""
    return partial(_evaluate, _surrogate(config), kl_coefficient)


def _surrogate(config: axes.Loss) -> Surrogate:
    match config:
        case axes.Cispo(cap=cap):
            return partial(cispo, cap=cap)
        case axes.PpoClip(clip_low=low, clip_high=high):
            return partial(ppo_clip, clip_low=low, clip_high=high)
        case axes.Gspo(clip_low=low, clip_high=high):
            return partial(gspo, clip_low=low, clip_high=high)
        case axes.Reinforce():
            return reinforce


def _evaluate(surrogate: Surrogate, kl_coefficient: float, inputs: LossInputs) -> LossOutputs:
    """loss = - sum over tokens of weight x (objective - kl_coefficient x KL)."""
    inputs = _blank_outside_mask(inputs)
    terms = surrogate(inputs)
    objective_rt = terms.objective_rt
    kl_rt = None
    if inputs.reference_logprob_rt is not None:
        kl_rt = kl_k3(inputs.logprob_rt, inputs.reference_logprob_rt)
        objective_rt = objective_rt - kl_coefficient * kl_rt
    elif kl_coefficient > 0:
        raise InputError("no log-probs of a reference policy", allowed="some, because recipe.kl_coefficient is not 0")
    loss = -(objective_rt * inputs.weight_r[:, None] * inputs.mask_rt).sum()
    return LossOutputs(loss, _stats(inputs, terms, kl_rt))


def _blank_outside_mask(inputs: LossInputs) -> LossInputs:
    """Zero log-probs outside the mask, in float32: what stands there may be NaN, and 0 x NaN is NaN."""

    def blank(values_rt: Tensor | None) -> Tensor | None:
        return None if values_rt is None else torch.where(inputs.mask_rt, values_rt.float(), 0.0)

    return LossInputs(
        logprob_rt=torch.where(inputs.mask_rt, inputs.logprob_rt.float(), 0.0),
        generator_logprob_rt=torch.where(inputs.mask_rt, inputs.generator_logprob_rt.float(), 0.0),
        mask_rt=inputs.mask_rt,
        advantage_r=inputs.advantage_r.float(),
        weight_r=inputs.weight_r.float(),
        reference_logprob_rt=blank(inputs.reference_logprob_rt),
        entropy_rt=blank(inputs.entropy_rt),
    )


def _clipped(ratio_rt: Tensor, advantage_r1: Tensor, clip_low: float, clip_high: float) -> Terms:
    low, high = 1.0 - clip_low, 1.0 + clip_high
    objective_rt = torch.minimum(ratio_rt * advantage_r1, ratio_rt.clamp(low, high) * advantage_r1)
    detached_rt = ratio_rt.detach()
    binding_rt = ((advantage_r1 > 0) & (detached_rt > high)) | ((advantage_r1 < 0) & (detached_rt < low))
    return Terms(objective_rt, detached_rt, binding_rt)


@torch.no_grad()
def _stats(inputs: LossInputs, terms: Terms, kl_rt: Tensor | None) -> LossStats:
    counted_rt = inputs.mask_rt & (inputs.weight_r > 0)[:, None]

    def total(values_rt: Tensor) -> Tensor:
        return torch.where(counted_rt, values_rt.detach().float(), 0.0).sum()

    taught_rt = (inputs.advantage_r != 0)[:, None].expand_as(counted_rt)
    lowest = terms.ratio_rt.new_full((), -torch.inf)
    return LossStats(
        tokens=counted_rt.sum(),
        effective_tokens=total(taught_rt),
        ratio_sum=total(terms.ratio_rt),
        ratio_max=torch.where(counted_rt, terms.ratio_rt, lowest).amax() if counted_rt.numel() else lowest,
        clipped_tokens=total(terms.clipped_rt),
        entropy_sum=None if inputs.entropy_rt is None else total(inputs.entropy_rt),
        kl_sum=None if kl_rt is None else total(kl_rt),
    )
