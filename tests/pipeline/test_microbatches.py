"""Packing: every rollout of the loss once, within the budget, with the right tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scalerl.pipeline.batch import make_batch
from scalerl.pipeline.microbatches import micro_batches, pack
from scalerl.pipeline.types import Group, GroupRequest, Rollout
from scalerl.recipe import Plan
from scalerl.tasks import Verdict


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(40, 400))
def test_every_sequence_once_and_within_the_budget(lengths: list[int], budget: int) -> None:
    pieces = pack(lengths, budget)
    assert sorted(i for piece in pieces for i in piece) == list(range(len(lengths)))
    assert all(len(piece) * max(lengths[i] for i in piece) <= budget for piece in pieces)


def test_like_lengths_go_together_longest_first() -> None:
    assert pack([3, 9, 4, 10, 2, 5], 20) == [[3, 1], [5, 2, 0, 4]]


def test_no_rollouts_no_pieces() -> None:
    assert pack([], 20) == []


def rollout(tokens: list[int], injected: tuple[int, ...] = ()) -> Rollout:
    own = np.array([i not in injected for i in range(len(tokens))])
    logprobs = np.where(own, -0.1 * np.arange(1, len(tokens) + 1), 0).astype(np.float32)
    return Rollout(np.array(tokens), logprobs, np.zeros(len(tokens), np.int32), own, truncated=False, interrupted=False)


@pytest.fixture
def group() -> Group:
    request = GroupRequest(0, "train", 0, "a", (7, 8), (0, 1, 2), (None,) * 3)
    rollouts = (rollout([3, 4, 5, 6, 1], injected=(1, 2)), rollout([9, 1]), rollout([4, 5, 6], injected=(1, 2)))
    return Group(request, rollouts, (Verdict("correct"), Verdict("wrong"), Verdict("wrong")))


def everything_in_loss() -> Plan:
    rows = torch.ones(3, dtype=torch.bool)
    return Plan(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.1, 0.2, 0.3]), rows, 1, 3)


def test_the_tensors_of_a_piece(group: Group) -> None:
    (piece,) = micro_batches(make_batch([group]), everything_in_loss(), 100, torch.device("cpu"))
    # the input ends before the last own token: 2 + 4, 2 + 1 and 2 + 0 tokens
    assert piece.input_rs.tolist() == [[7, 8, 3, 4, 5, 6], [7, 8, 9, 0, 0, 0], [7, 8, 0, 0, 0, 0]]
    assert piece.token_n.tolist() == [3, 6, 1, 9, 1, 4]
    # 3 is predicted at the end of the prompt, 6 after the injected 4 5, the end-of-text token after 6; rows are 6 long
    assert piece.source_n.tolist() == [1, 4, 5, 6 + 1, 6 + 2, 12 + 1]
    assert piece.mask_rt.tolist() == [[True] * 3, [True, True, False], [True, False, False]]
    expected = torch.tensor([[-0.1, -0.4, -0.5], [-0.1, -0.2, 0.0], [-0.1, 0.0, 0.0]])
    assert torch.allclose(piece.generator_logprob_rt, expected)
    assert piece.advantage_r.tolist() == [1.0, 2.0, 3.0]
    assert piece.num_tokens == 6 + 3 + 2
    assert piece.num_attended == 21 + 6 + 3


def test_rollouts_outside_the_loss_are_not_packed(group: Group) -> None:
    plan = everything_in_loss()
    plan.in_loss_r[0] = False
    pieces = list(micro_batches(make_batch([group]), plan, 3, torch.device("cpu")))
    assert [piece.token_n.tolist() for piece in pieces] == [[9, 1], [4]]
