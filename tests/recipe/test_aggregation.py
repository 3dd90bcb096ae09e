"""Averages: by hand, their identities, and that rollouts which are left out are in no denominator."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from scalerl.recipe.aggregation import Aggregation, rollout_weights

ALL: tuple[Aggregation, ...] = get_args(Aggregation)
EVERY = pytest.mark.parametrize("kind", ALL)

TOKENS = torch.tensor([1, 2, 3, 4])
GROUPS = torch.tensor([0, 0, 1, 1])


def test_by_hand() -> None:
    # two prompts with 1 + 2 and 3 + 4 tokens
    # prompt: 1 / (2 x 3) and 1 / (2 x 7); sample: 1 / (4 x own tokens); token: 1 / 10
    assert rollout_weights("prompt", TOKENS, GROUPS).tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 14, 1 / 14])
    assert rollout_weights("sample", TOKENS, GROUPS).tolist() == pytest.approx([1 / 4, 1 / 8, 1 / 12, 1 / 16])
    assert rollout_weights("token", TOKENS, GROUPS).tolist() == pytest.approx([1 / 10] * 4)


def test_what_each_average_means() -> None:
    """The mean of token terms, written out as the paper describes it."""
    terms = [torch.tensor([1.0]), torch.tensor([2.0, 4.0]), torch.tensor([3.0, 5.0, 7.0]), torch.tensor([1.0] * 4)]
    by_prompt = (torch.cat(terms[:2]).mean() + torch.cat(terms[2:]).mean()) / 2
    by_sample = torch.stack([term.mean() for term in terms]).mean()
    by_token = torch.cat(terms).mean()
    wanted = dict(zip(ALL, (by_prompt, by_sample, by_token), strict=True))
    sums = torch.stack([term.sum() for term in terms])
    for kind in ALL:
        assert (rollout_weights(kind, TOKENS, GROUPS) * sums).sum().item() == pytest.approx(wanted[kind].item())


BATCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.sampled_from(ALL))
def test_the_weights_of_all_tokens_sum_to_one(batch: list[tuple[int, int]], kind: Aggregation) -> None:
    group_r, tokens_r = (torch.tensor(column) for column in zip(*batch, strict=True))
    total = (rollout_weights(kind, tokens_r, group_r) * tokens_r).sum().item()
    assert total == pytest.approx(1.0 if tokens_r.sum() else 0.0, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 30))
def test_equal_lengths_make_all_three_agree(prompts: int, rollouts: int, length: int) -> None:
    tokens_r = torch.full((prompts * rollouts,), length)
    group_r = torch.arange(prompts).repeat_interleave(rollouts)
    first, *others = (rollout_weights(kind, tokens_r, group_r) for kind in ALL)
    for other in others:
        torch.testing.assert_close(first, other)


def test_one_rollout_per_prompt_makes_prompt_and_sample_agree() -> None:
    prompt, sample = (rollout_weights(kind, TOKENS, torch.arange(4)) for kind in ("prompt", "sample"))
    torch.testing.assert_close(prompt, sample)


def test_one_prompt_makes_prompt_and_token_agree() -> None:
    prompt, token = (rollout_weights(kind, TOKENS, torch.zeros(4, dtype=torch.long)) for kind in ("prompt", "token"))
    torch.testing.assert_close(prompt, token)


@EVERY
def test_order_and_names_of_groups_do_not_matter(kind: Aggregation) -> None:
    order = torch.tensor([2, 0, 3, 1])
    shuffled = rollout_weights(kind, TOKENS[order], (GROUPS * 1000 - 7)[order])
    torch.testing.assert_close(shuffled, rollout_weights(kind, TOKENS, GROUPS)[order])


@EVERY
def test_a_rollout_without_tokens_changes_nothing_for_the_others(kind: Aggregation) -> None:
    extended = rollout_weights(kind, torch.cat([TOKENS, torch.zeros(2)]), torch.cat([GROUPS, torch.tensor([1, 9])]))
    torch.testing.assert_close(extended[:4], rollout_weights(kind, TOKENS, GROUPS))
    assert extended[4:].tolist() == [0.0, 0.0]


@EVERY
def test_a_batch_without_any_token_has_no_weights(kind: Aggregation) -> None:
    weights: Tensor = rollout_weights(kind, torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.long))
    assert weights.tolist() == [0.0, 0.0, 0.0]
