"""Which rollouts stay in the loss."""

from __future__ import annotations

import torch
from torch import Tensor

from scalerl.recipe import Rollouts
from scalerl.recipe.filters import in_loss, mixed_groups


def kept(batch: Rollouts, zero_variance: str, truncated: str) -> list[int]:
    stays: Tensor = in_loss(
        zero_variance, truncated,  # type: ignore[arg-type]  # given by name
        correct_r=batch.correct_r, scored_r=batch.scored_r, truncated_r=batch.truncated_r, group_r=batch.group_r,
    )  # fmt: skip
    return [int(index) for index in stays.nonzero()]


def test_zero_variance_groups_and_truncated_rollouts(rollouts: Rollouts) -> None:
    # rollouts 0-7 are mixed groups, 8-11 all wrong, 12-15 all correct; 1 and 11 are truncated; 7 was not scored
    scored = [*range(7), *range(8, 16)]
    assert kept(rollouts, "keep", "keep") == scored
    assert kept(rollouts, "drop", "keep") == [0, 1, 2, 3, 4, 5, 6]
    assert kept(rollouts, "keep", "mask") == [index for index in scored if index not in {1, 11}]
    assert kept(rollouts, "drop", "mask") == [0, 2, 3, 4, 5, 6]


def test_an_unscored_rollout_does_not_make_a_group_mixed() -> None:
    group_r = torch.zeros(3, dtype=torch.long)
    correct_r = torch.tensor([True, True, False])
    unscored = torch.tensor([True, True, False])
    assert mixed_groups(correct_r, unscored, group_r).tolist() == [False] * 3
    assert mixed_groups(correct_r, torch.ones(3, dtype=torch.bool), group_r).tolist() == [True] * 3


def test_a_group_without_any_score_is_not_mixed() -> None:
    nothing = torch.zeros(2, dtype=torch.bool)
    assert mixed_groups(~nothing, nothing, torch.tensor([4, 4])).tolist() == [False, False]


def test_a_group_that_is_mixed_only_through_a_truncated_rollout_stays() -> None:
    # the truncated rollout is an outcome of the policy: it counts for the group, though it is not trained on
    batch = Rollouts(
        group_r=torch.tensor([0, 0]),
        correct_r=torch.tensor([True, False]),
        scored_r=torch.tensor([True, True]),
        truncated_r=torch.tensor([False, True]),
        length_r=torch.tensor([3, 9]),
        own_tokens_r=torch.tensor([3, 9]),
    )
    assert kept(batch, "drop", "mask") == [0]
