"""Forced interruption, for every engine: when the phrase is injected, how it is marked, thinking that ends in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from scalerl.pipeline.types import Engine, EngineSettings, GroupRequest, Rollout
from scalerl.policy.mark import Mark
from scalerl.recipe.logprobs import token_logprobs

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
OpenEngine = Callable[..., Engine]
Drain = Callable[[Engine], dict[tuple[int, int], Rollout]]
RunOne = Callable[..., Rollout]

PHRASE = (11, 12, 13)


@pytest.fixture
def run_one(open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain) -> RunOne:
    def run(interruption: int | None, **changes: Any) -> Rollout:
        engine = open_engine(settings(**{"phrase_ids": PHRASE, **changes}))
        engine.submit(request_of(0, interruptions=(interruption,)))
        return drain(engine)[0, 0]

    return run


def first_seen(tokens: list[int], start: int) -> int:
    """The first place from `start` on whose token stands nowhere before, nor in the phrase."""
    return next(at for at in range(start, 8) if tokens.index(tokens[at]) == at and tokens[at] not in PHRASE)


@pytest.mark.parametrize("at", [0, 1, 4, 8])
def test_the_phrase_follows_after_so_many_tokens(at: int, run_one: RunOne) -> None:
    rollout, free = run_one(at), run_one(None)
    assert rollout.interrupted
    assert rollout.tokens.tolist()[:at] == free.tokens.tolist()[:at]
    assert rollout.tokens.tolist()[at : at + 3] == list(PHRASE)
    assert np.flatnonzero(~rollout.own).tolist() == [at, at + 1, at + 2]
    assert (rollout.logprobs[~rollout.own] == 0).all()
    assert (rollout.logprobs[rollout.own] < 0).all()
    assert not free.interrupted
    assert free.own.all()


def test_what_follows_is_conditioned_on_the_phrase(
    policy: PreTrainedModel, run_one: RunOne, request_of: MakeRequest
) -> None:
    rollout, prompt = run_one(4), request_of(0).prompt_ids
    ids = torch.tensor([[*prompt, *rollout.tokens.tolist()]])
    with torch.no_grad():
        logits = policy(ids).logits[0, len(prompt) - 1 : -1]
    expected = token_logprobs(logits, ids[0, len(prompt) :]).numpy()
    assert rollout.logprobs[7:] == pytest.approx(expected[7:], abs=1e-4)


def mark(first: int, second: int) -> Mark:
    """Two tokens, one after the other."""
    words = {first: "a", second: "a" if first == second else "b"}
    return Mark(words[first] + words[second], tuple(words.items()))


def test_thinking_that_has_ended_is_not_interrupted(run_one: RunOne) -> None:
    free = run_one(None).tokens.tolist()
    at = first_seen(free, 2)
    end = mark(free[at], free[at + 1])
    for interruption in (at + 2, at + 3, 11):  # at + 2: it ends just in time
        rollout = run_one(interruption, end_thinking=end)
        assert rollout.tokens.tolist()[:interruption] == free[:interruption]  # what follows is another draw at vLLM
        assert rollout.own.all()
        assert len(rollout) == 12
        assert not rollout.interrupted
    rollout = run_one(at + 1, end_thinking=end)  # one token too early: only the first half of the marker is there
    assert rollout.interrupted
    assert rollout.tokens.tolist()[at + 1 : at + 4] == list(PHRASE)


def test_a_marker_longer_than_what_is_written_does_not_match(run_one: RunOne) -> None:
    free = run_one(None).tokens.tolist()
    # Were the missing tokens read as the first one, or as zeros, these would match after one token.
    for end in (mark(free[0], free[0]), mark(0, free[0])):
        assert run_one(1, end_thinking=end).interrupted


def test_the_budget_can_end_within_the_phrase(run_one: RunOne) -> None:
    rollout = run_one(10)  # two of three tokens fit into 12
    assert rollout.tokens.tolist()[10:] == list(PHRASE[:2])
    assert rollout.own.tolist() == [True] * 10 + [False] * 2
    assert rollout.interrupted
    assert rollout.truncated


def test_an_answer_that_ends_first_is_not_interrupted(run_one: RunOne) -> None:
    free = run_one(None).tokens.tolist()
    at = first_seen(free, 1)
    rollout = run_one(at + 1, eos_id=free[at])
    assert len(rollout) == at + 1
    assert not rollout.interrupted
    assert not rollout.truncated


def test_an_interruption_beyond_the_budget_never_comes(run_one: RunOne) -> None:
    assert not run_one(12).interrupted


def test_without_a_phrase_nothing_is_injected(run_one: RunOne) -> None:
    rollout = run_one(2, phrase_ids=())
    assert rollout.own.all()
    assert not rollout.interrupted


def test_the_phrase_comes_once(run_one: RunOne) -> None:
    rollout = run_one(0, phrase_ids=(11,))
    assert rollout.own.tolist() == [False] + [True] * 11


def test_neighbours_are_interrupted_each_at_their_own_time(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain, run_one: RunOne
) -> None:
    engine = open_engine(settings(phrase_ids=PHRASE, rows=2))
    points = (3, None, 0, 11, 5)
    engine.submit(request_of(0, 5, seeds=(0,) * 5, interruptions=points))
    rollouts = drain(engine)
    for position, at in enumerate(points):
        assert rollouts[0, position].tokens.tolist() == run_one(at).tokens.tolist()
    counted = [int((~rollouts[0, position].own).sum()) for position in range(5)]
    assert counted == [3, 0, 3, 1, 3]
