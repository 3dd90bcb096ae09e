"""Rewards and advantages: by hand, with nothing to divide by, and with rollouts that were not scored."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from scalerl.recipe.advantages import _exact_sqrt, advantages, rewards

REWARD = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0])
GROUP = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
ALL = torch.ones(8, dtype=torch.bool)


def values(
    normalisation: str, reward: Tensor = REWARD, scored: Tensor = ALL, spread: Tensor = ALL, group: Tensor = GROUP
) -> list[float]:
    found = advantages(
        normalisation,  # type: ignore[arg-type]  # parametrised by name
        reward_r=reward, scored_r=scored, group_r=group, spread_r=spread,
    )  # fmt: skip
    return [float(value) for value in found]


def test_by_hand() -> None:
    # group 0: mean 0, centred 1 1 -1 -1; group 1: mean -1/2, centred 3/2 -1/2 -1/2 -1/2
    centred = [1, 1, -1, -1, 1.5, -0.5, -0.5, -0.5]
    assert values("none") == pytest.approx(centred)
    # squares: 4 x 1, 9/4 + 3 x 1/4 = 3; batch std = sqrt((4 + 3) / 8)
    assert values("batch") == pytest.approx([value / (7 / 8) ** 0.5 for value in centred])
    # group stds: sqrt(4/4) = 1 and sqrt(3/4)
    assert values("prompt") == pytest.approx([1, 1, -1, -1, *(value / 0.75**0.5 for value in centred[4:])])


def test_batch_deviation_over_a_part_of_the_batch() -> None:
    # only group 1: mean 0, squares 9/4 + 3/4 = 3, std sqrt(3/4); all advantages are divided by it
    spread = GROUP == 1
    assert values("batch", spread=spread)[0] == pytest.approx(1 / 0.75**0.5)


@pytest.mark.parametrize("normalisation", ["batch", "prompt", "none"])
def test_equal_rewards_give_zero_and_not_nan(normalisation: str) -> None:
    assert values(normalisation, reward=torch.full((8,), 0.1)) == [0.0] * 8
    # one equal group beside one with a spread
    mixed = values(normalisation, reward=torch.tensor([0.3] * 4 + [1.0, -1.0, 0.0, 0.0]))
    assert mixed[:4] == [0.0] * 4
    assert mixed[4] > 0


@pytest.mark.parametrize("normalisation", ["batch", "prompt", "none"])
def test_rounding_error_is_not_a_spread(normalisation: str) -> None:
    reward = torch.tensor([0.1, 0.1 + 1e-8, 0.1, 0.1, 0.7, 0.7, 0.7, 0.7])
    assert max(map(abs, values(normalisation, reward=reward))) < 1e-6


@pytest.mark.parametrize("normalisation", ["batch", "prompt", "none"])
def test_an_unscored_rollout_has_no_say(normalisation: str) -> None:
    scored = ALL.clone()
    scored[3] = False
    with_noise = REWARD.clone()
    with_noise[3] = 1e6
    found = values(normalisation, reward=with_noise, scored=scored)
    assert found[3] == 0.0
    without = values(normalisation, reward=REWARD[scored], scored=ALL[:7], spread=ALL[:7], group=GROUP[scored])
    assert found[:3] + found[4:] == pytest.approx(without)


@pytest.mark.parametrize("normalisation", ["batch", "prompt", "none"])
def test_order_does_not_matter(normalisation: str) -> None:
    order = torch.tensor([5, 0, 7, 2, 1, 6, 3, 4])
    shuffled = values(normalisation, reward=REWARD[order], group=GROUP[order])
    assert shuffled == pytest.approx([values(normalisation)[index] for index in order])


@pytest.mark.parametrize("normalisation", ["batch", "prompt", "none"])
def test_advantages_of_a_group_sum_to_zero(normalisation: str) -> None:
    found = values(normalisation, reward=torch.tensor([1.0, 0.2, -1.0, -0.3, 1.0, 1.0, -1.0, -1.0]))
    assert sum(found[:4]) == pytest.approx(0, abs=1e-6)
    assert sum(found[4:]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("normalisation", ["batch", "prompt"])
def test_normalised_advantages_do_not_depend_on_the_size_of_rewards(normalisation: str) -> None:
    assert values(normalisation, reward=REWARD * 50 + 3) == pytest.approx(values(normalisation), rel=1e-5)
    assert values("none", reward=REWARD * 50) == pytest.approx([50 * value for value in values("none")])


def test_the_length_penalty_goes_to_correct_rollouts_only() -> None:
    correct_r = torch.tensor([True, False, True])
    penalty_r = torch.tensor([-0.5, -0.5, 0.0])
    assert rewards(correct_r, 1.0, -1.0, penalty_r).tolist() == [0.5, -1.0, 1.0]
    assert rewards(correct_r, 2.0, 0.0).tolist() == [2.0, 0.0, 2.0]


def test_a_deviation_is_the_nearest_number_on_every_processor() -> None:
    """The root that torch takes from MKL is not, and differs between processors."""
    squares = [index / 4096 for index in range(1, 20_000)]
    roots = _exact_sqrt(torch.tensor(squares, dtype=torch.float64)).tolist()
    assert roots == [math.sqrt(value) for value in squares]
