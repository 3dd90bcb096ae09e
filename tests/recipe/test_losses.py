"""Surrogates: three-token cases computed by hand, gradients against the written formula, and what the clip removes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from scalerl.config import recipe as axes
from scalerl.errors import InputError
from scalerl.recipe import LossInputs
from scalerl.recipe.losses import build_loss

Row = Callable[..., LossInputs]

CISPO = axes.Cispo(surrogate="cispo", cap=5.0)
DAPO = axes.PpoClip(surrogate="ppo_clip", clip_low=0.2, clip_high=0.28)
GSPO = axes.Gspo(surrogate="gspo", clip_low=0.2, clip_high=0.28)
REINFORCE = axes.Reinforce(surrogate="reinforce")
EVERY = pytest.mark.parametrize("config", [CISPO, DAPO, GSPO, REINFORCE], ids=lambda config: config.surrogate)


def gradient(config: axes.Loss, inputs: LossInputs) -> Tensor:
    (found,) = torch.autograd.grad(build_loss(config)(inputs).loss, inputs.logprob_rt)
    return found


def test_cispo_by_hand(three_tokens: Row) -> None:
    # min(ratio, 5) = 0.5, 2, 5; log-probs ln .25 = -1.386294, ln .5 = -.693147, ln .8 = -.223144; advantage 2
    # objective = 1/3 x 2 x (.5 x -1.386294 + 2 x -.693147 + 5 x -.223144) = 2/3 x -3.195159 = -2.130106
    outputs = build_loss(CISPO)(three_tokens())
    assert outputs.loss.item() == pytest.approx(2.130106, abs=1e-5)
    assert outputs.stats.clipped_fraction == pytest.approx(1 / 3)  # only the ratio 8 is above the cap
    # the gradient of every token stays: -1/3 x 2 x min(ratio, 5)
    assert gradient(CISPO, three_tokens()).tolist()[0] == pytest.approx([-1 / 3, -4 / 3, -10 / 3], abs=1e-5)


def test_ppo_clip_by_hand(three_tokens: Row) -> None:
    # advantage 2: min(1, 1.6) + min(4, 2.56) + min(16, 2.56) = 1 + 2.56 + 2.56 = 6.12; / 3 = 2.04
    outputs = build_loss(DAPO)(three_tokens())
    assert outputs.loss.item() == pytest.approx(-2.04, abs=1e-5)
    assert outputs.stats.clipped_fraction == pytest.approx(2 / 3)
    # d(ratio x 2)/dlogprob = ratio x 2 where the clip does not bind: 1/3 x 2 x .5, then nothing
    assert gradient(DAPO, three_tokens()).tolist()[0] == pytest.approx([-1 / 3, 0, 0], abs=1e-5)


def test_ppo_clip_by_hand_with_a_negative_advantage(three_tokens: Row) -> None:
    # advantage -2: min(-1, -1.6) + min(-4, -2.56) + min(-16, -2.56) = -1.6 - 4 - 16 = -21.6; / 3 = -7.2
    outputs = build_loss(DAPO)(three_tokens(-2.0))
    assert outputs.loss.item() == pytest.approx(7.2, abs=1e-5)
    assert outputs.stats.clipped_fraction == pytest.approx(1 / 3)  # the ratio 1/2, below 1 - clip_low
    assert gradient(DAPO, three_tokens(-2.0)).tolist()[0] == pytest.approx([0, 4 / 3, 16 / 3], abs=1e-5)


def test_symmetric_and_asymmetric_clip_differ_only_above(three_tokens: Row) -> None:
    # symmetric .2: min(1, 1.6) + min(4, 2.4) + min(16, 2.4) = 5.8; / 3
    grpo = axes.PpoClip(surrogate="ppo_clip", clip_low=0.2, clip_high=0.2)
    assert build_loss(grpo)(three_tokens()).loss.item() == pytest.approx(-5.8 / 3, abs=1e-5)
    same = build_loss(grpo)(three_tokens(-2.0)).loss - build_loss(DAPO)(three_tokens(-2.0)).loss
    assert same.item() == 0.0


def test_gspo_by_hand(three_tokens: Row) -> None:
    # one ratio: (1/2 x 2 x 8)^(1/3) = 2; advantage 2: min(4, 1.28 x 2) = 2.56 for each token, x 3 x 1/3
    outputs = build_loss(GSPO)(three_tokens())
    assert outputs.loss.item() == pytest.approx(-2.56, abs=1e-5)
    assert outputs.stats.ratio_mean == pytest.approx(2.0, abs=1e-5)
    assert outputs.stats.clipped_fraction == 1.0  # the whole rollout, or nothing
    assert gradient(GSPO, three_tokens()).abs().max() == 0
    # advantage -2: min(-4, -2.56) = -4, and each token's gradient is ratio x advantage / tokens = 2 x 2 / 3
    assert build_loss(GSPO)(three_tokens(-2.0)).loss.item() == pytest.approx(4.0, abs=1e-5)
    assert gradient(GSPO, three_tokens(-2.0)).tolist()[0] == pytest.approx([4 / 3] * 3, abs=1e-5)


def test_reinforce_by_hand(three_tokens: Row) -> None:
    # 1/3 x 2 x ln(.25 x .5 x .8) = 2/3 x ln .1 = -1.535057; the generator's log-probs do not matter
    outputs = build_loss(REINFORCE)(three_tokens())
    assert outputs.loss.item() == pytest.approx(1.535057, abs=1e-5)
    assert outputs.stats.clipped_fraction == 0.0
    assert outputs.stats.ratio_mean == 1.0


def test_kl_by_hand(three_tokens: Row) -> None:
    # d = ln(reference / trainer) = ln 2, 0, 0; exp(d) - d - 1 = 2 - .693147 - 1 = .306853, 0, 0; mean .102284
    reference = [0.5, 0.5, 0.8]
    without = build_loss(REINFORCE)(three_tokens()).loss
    outputs = build_loss(REINFORCE, kl_coefficient=0.3)(three_tokens(reference=reference))
    assert (outputs.loss - without).item() == pytest.approx(0.3 * 0.102284, abs=1e-5)
    assert outputs.stats.kl == pytest.approx(0.102284, abs=1e-5)
    # a reference alone is only reported
    assert build_loss(REINFORCE)(three_tokens(reference=reference)).loss.item() == pytest.approx(without.item())


def test_kl_without_a_reference_is_an_error(three_tokens: Row) -> None:
    with pytest.raises(InputError, match=r"recipe\.kl_coefficient"):
        build_loss(CISPO, kl_coefficient=0.1)(three_tokens())


def written(config: axes.Loss, inputs: LossInputs) -> Tensor:
    """The formulas as they stand in the papers, rollout by rollout and token by token."""
    total = torch.zeros(())
    for row in range(len(inputs.advantage_r)):
        chosen = inputs.mask_rt[row]
        new, old = inputs.logprob_rt[row][chosen], inputs.generator_logprob_rt[row][chosen]
        advantage, weight = inputs.advantage_r[row], inputs.weight_r[row]
        ratio = torch.exp(new - old)
        if isinstance(config, axes.Cispo):
            total = total + weight * (torch.clamp(ratio, max=config.cap).detach() * advantage * new).sum()
        elif isinstance(config, axes.Reinforce):
            total = total + weight * (advantage * new).sum()
        else:
            if isinstance(config, axes.Gspo):
                ratio = (new - old).mean().exp().expand(len(new))
            for value in ratio:
                clipped = torch.clamp(value, 1 - config.clip_low, 1 + config.clip_high)
                total = total + weight * torch.minimum(value * advantage, clipped * advantage)
    return -total


@EVERY
def test_loss_and_gradient_are_those_of_the_written_formula(config: axes.Loss) -> None:
    generator = torch.Generator().manual_seed(3)
    shape = (5, 7)
    mask_rt = torch.rand(shape, generator=generator) < 0.7
    mask_rt[:, 0] = True
    inputs = LossInputs(
        logprob_rt=(-torch.rand(shape, generator=generator) * 3).requires_grad_(),
        generator_logprob_rt=-torch.rand(shape, generator=generator) * 3,
        mask_rt=mask_rt,
        advantage_r=torch.randn(5, generator=generator),
        weight_r=torch.rand(5, generator=generator),
    )
    loss, expected = build_loss(config)(inputs).loss, written(config, inputs)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    (wanted,) = torch.autograd.grad(expected, inputs.logprob_rt)
    torch.testing.assert_close(gradient(config, inputs), wanted, rtol=1e-5, atol=1e-6)
    assert wanted.abs().max() > 0.01


@EVERY
def test_tokens_outside_the_mask_have_no_part_in_it(config: axes.Loss) -> None:
    """Injected interruption tokens and padding: any value there, even NaN, changes neither loss nor gradient."""
    own = [0, 2, 3]
    logprob = torch.tensor([[-0.5, torch.nan, -1.0, -0.2, -torch.inf]], requires_grad=True)
    sampled = torch.tensor([[-0.4, torch.nan, -1.1, -0.1, 3.0]])
    mask_rt = torch.tensor([[True, False, True, True, False]])
    vectors = torch.tensor([1.5]), torch.tensor([0.25])
    padded = LossInputs(logprob, sampled, mask_rt, *vectors)
    alone_logprob = logprob.detach()[:, own].requires_grad_()
    alone = LossInputs(alone_logprob, sampled[:, own], torch.ones(1, 3, dtype=torch.bool), *vectors)
    outputs = build_loss(config)(padded)
    assert outputs.loss.item() == pytest.approx(build_loss(config)(alone).loss.item())
    assert outputs.stats.tokens == 3
    slope = gradient(config, padded)[0]
    assert slope[[1, 4]].tolist() == [0.0, 0.0]
    torch.testing.assert_close(slope[own], gradient(config, alone)[0])
    assert slope[own].abs().min() > 0


@EVERY
def test_a_rollout_of_weight_or_advantage_zero_teaches_nothing(config: axes.Loss, three_tokens: Row) -> None:
    outputs = build_loss(config)(three_tokens(0.0))
    assert outputs.loss.item() == 0.0
    assert (int(outputs.stats.tokens), int(outputs.stats.effective_tokens)) == (3, 0)
    row = three_tokens()
    left_out = LossInputs(row.logprob_rt, row.generator_logprob_rt, row.mask_rt, row.advantage_r, torch.zeros(1))
    stats = build_loss(config)(left_out).stats
    assert stats.tokens == 0
    assert stats.to_dict()["ratio_max"] is None  # nothing was seen, which is not a ratio of zero
    assert stats.ratio_mean is None


@EVERY
def test_a_huge_ratio_stays_finite(config: axes.Loss) -> None:
    inputs = LossInputs(
        logprob_rt=torch.tensor([[-0.1, -200.0]], requires_grad=True),
        generator_logprob_rt=torch.tensor([[-200.0, -0.1]]),
        mask_rt=torch.ones(1, 2, dtype=torch.bool),
        advantage_r=torch.tensor([-1.0]),
        weight_r=torch.tensor([0.5]),
    )
    assert math.isfinite(build_loss(config)(inputs).loss.item())
    assert gradient(config, inputs).isfinite().all()


def test_half_precision_log_probs_are_treated_in_float32(three_tokens: Row) -> None:
    row = three_tokens()
    half = row.logprob_rt.detach().bfloat16().requires_grad_()
    inputs = LossInputs(half, row.generator_logprob_rt, row.mask_rt, row.advantage_r, row.weight_r)
    assert build_loss(CISPO)(inputs).loss.dtype == torch.float32


def test_stats_count_and_merge_as_one_batch(three_tokens: Row) -> None:
    row = three_tokens()
    inputs = LossInputs(
        row.logprob_rt, row.generator_logprob_rt, row.mask_rt, row.advantage_r, row.weight_r,
        entropy_rt=torch.tensor([[0.1, 0.2, 0.6]]),
    )  # fmt: skip
    stats = build_loss(CISPO)(inputs).stats
    # ratios .5, 2, 8
    assert stats.to_dict() == pytest.approx(
        {"tokens": 3, "effective_tokens": 3, "ratio_mean": 3.5, "ratio_max": 8.0, "clipped_fraction": 1 / 3,
         "entropy": 0.3, "kl": None}
    )  # fmt: skip
    calm = build_loss(REINFORCE)(inputs).stats
    both = stats.merge(calm).merge(calm)
    # 3 tokens of mean 3.5 and 6 of mean 1: (10.5 + 6) / 9
    assert both.ratio_mean == pytest.approx(16.5 / 9)
    assert float(both.ratio_max) == pytest.approx(8.0)
    assert both.clipped_fraction == pytest.approx(1 / 9)
    assert both.entropy == pytest.approx(0.3)
