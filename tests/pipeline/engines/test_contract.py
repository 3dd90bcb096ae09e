"""What every engine owes its callers: log-probs, seeds, lengths, refusals, and snapshots.

Interruptions are in test_interruption.py and changes of weights in test_updates.py, also for every engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.types import Engine, EngineSettings, GroupRequest, Rollout
from scalerl.recipe.logprobs import token_logprobs

Rollouts = dict[tuple[int, int], Rollout]
MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
OpenEngine = Callable[..., Engine]
Drain = Callable[[Engine], Rollouts]


def recomputed(model: PreTrainedModel, prompt: tuple[int, ...], rollout: Rollout, temperature: float) -> Any:
    """Log-probs of the response by one plain forward pass, which is what the trainer makes."""
    ids = torch.tensor([[*prompt, *rollout.tokens.tolist()]])
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    return token_logprobs(logits, ids[0, len(prompt) :], temperature).numpy()


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_logprobs_are_those_of_the_trainer(
    temperature: float, open_engine: OpenEngine, policy: PreTrainedModel, settings: MakeSettings,
    request_of: MakeRequest, drain: Drain,
) -> None:  # fmt: skip
    engine = open_engine(settings(temperature=temperature, eos_id=3, phrase_ids=(8, 9), rows=5, max_response=40))
    requests = [request_of(index, 4, interruptions=(None, 0, 2, 5)) for index in range(6)]
    for request in requests:
        engine.submit(request)
    assert engine.num_pending == 24
    rollouts = drain(engine)
    assert len(rollouts) == 24
    assert len({len(rollout) for rollout in rollouts.values()}) > 3  # they ended at different times
    for request in requests:
        for place in range(4):
            rollout = rollouts[request.index, place]
            expected = recomputed(policy, request.prompt_ids, rollout, temperature)
            assert rollout.logprobs[rollout.own] == pytest.approx(expected[rollout.own], abs=1e-4)
            assert (rollout.logprobs[~rollout.own] == 0).all()
            assert rollout.versions.tolist() == [0] * len(rollout)


def test_a_rollout_depends_on_its_seed_and_prompt_alone(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    requests = [request_of(index, 3) for index in range(4)]

    def tokens(order: list[GroupRequest]) -> dict[tuple[int, int], list[int]]:
        engine = open_engine(settings(eos_id=3))
        for group in order:
            engine.submit(group)
        return {key: rollout.tokens.tolist() for key, rollout in drain(engine).items()}

    first = tokens(requests)
    assert first == tokens(requests[::-1])
    assert first != tokens([replace(group, seeds=tuple(seed + 500 for seed in group.seeds)) for group in requests])
    assert len({tuple(first[0, place]) for place in range(3)}) == 3


def test_equal_seeds_write_equal_rollouts(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings())
    engine.submit(request_of(0, 4, seeds=(2**63 - 1, 2**63 - 1, 0, 0)))
    found = drain(engine)
    assert found[0, 0].tokens.tolist() == found[0, 1].tokens.tolist()
    assert found[0, 2].tokens.tolist() == found[0, 3].tokens.tolist()
    assert found[0, 0].tokens.tolist() != found[0, 2].tokens.tolist()


def test_end_of_text_and_the_token_budget(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings(eos_id=3, rows=16, max_response=30))
    engine.submit(request_of(0, 60))
    rollouts = drain(engine).values()
    assert len(rollouts) == 60
    cut = [rollout for rollout in rollouts if rollout.truncated]
    whole = [rollout for rollout in rollouts if not rollout.truncated]
    assert cut
    assert whole
    assert all(len(rollout) == 30 and 3 not in rollout.tokens for rollout in cut)
    assert all(rollout.tokens.tolist().index(3) == len(rollout) - 1 for rollout in whole)
    for rollout in rollouts:
        assert [len(array) for array in (rollout.logprobs, rollout.versions, rollout.own)] == [len(rollout)] * 3
        assert rollout.own.all()
        assert not rollout.interrupted


def test_work_is_counted(open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest) -> None:
    engine = open_engine(settings(max_response=8))
    engine.submit(request_of(0, 2, prompt_ids=(5, 6, 7, 8, 9)))
    steps = []
    while engine.num_pending:
        steps.append(engine.step())
    assert sum(step.sampled for step in steps) == 16
    # the prompt once or, where it is shorter than a block of the cache, for each; what the last step wrote is not read
    assert sum(step.tokens for step in steps) in {5 + 2 * 7, 2 * (5 + 7)}
    assert sum(step.attended for step in steps) in {15 + 2 * sum(range(6, 13)), 2 * sum(range(1, 13))}


def test_nothing_to_do(open_engine: OpenEngine, settings: MakeSettings) -> None:
    step = open_engine(settings()).step()
    assert (step.finished, step.tokens, step.attended, step.sampled) == ((), 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_ids": ()}, "request 0, problem p0: an empty prompt; allowed: at least one token"),
        ({"prompt_ids": (1,) * 11}, "request 0, problem p0: tokens of the prompt: got 11; allowed: at most 10"),
        ({"prompt_ids": (1, 5000)}, "a token of the prompt: got 5000; allowed: 0 to"),
        ({"seeds": (), "interruptions": ()}, "a request without seeds"),
        ({"interruptions": (None, 3)}, "interruptions: got 2; allowed: one for each of 1"),
        ({"interruptions": (-3,)}, "an interruption: got -3; allowed: 0 or more"),
    ],
)
def test_bad_requests(
    changes: dict[str, Any], message: str, open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest
) -> None:
    engine = open_engine(settings())
    with pytest.raises(InputError) as error:
        engine.submit(request_of(0, **changes))
    assert message in str(error.value)
    assert engine.num_pending == 0


def test_a_prompt_that_fills_the_context(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings(max_prompt=250, max_response=50))  # the context is 256
    engine.submit(request_of(0, prompt_ids=(1,) * 206))
    with pytest.raises(
        InputError, match="got 207; allowed: at most 206: the policy's context less 50 tokens of response"
    ):
        engine.submit(request_of(1, prompt_ids=(1,) * 207))
    assert len(drain(engine)[0, 0]) == 50


def test_a_request_twice(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    engine = open_engine(settings())
    engine.submit(request_of(4, 2))
    with pytest.raises(InputError, match="in flight already: got 4"):
        engine.submit(request_of(4, 2))
    assert engine.num_pending == 2
    drain(engine)
    engine.submit(request_of(4, 2))  # it has come back: the number is free
    assert len(drain(engine)) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "rows: got 0"),
        ({"temperature": 0.0}, "temperature: got 0.0; allowed: a finite number above 0"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"max_response": 256}, "the longest response: got 256; allowed: less than the policy's context of 256"),
        ({"eos_id": 3, "phrase_ids": (4, 3)}, "phrase_ids: got (4, 3); allowed: no end-of-text token"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str, open_engine: OpenEngine, settings: MakeSettings) -> None:
    with pytest.raises(InputError) as error:
        open_engine(settings(**changes))
    assert message in str(error.value)


def test_a_restored_engine_hands_out_everything_once(
    open_engine: OpenEngine, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    chosen = settings(rows=2, eos_id=3, max_response=60)

    def submitted(version: int) -> Engine:
        engine = open_engine(chosen, version)
        for index in range(5):
            engine.submit(request_of(index, 2))
        return engine

    whole = drain(submitted(2))
    engine = submitted(2)
    before: Rollouts = {}
    while not before:
        before = {(done.request, done.position): done.rollout for done in engine.step().finished}
    snapshot = engine.snapshot()
    restored = open_engine(chosen, 7)
    restored.submit(request_of(40))  # forgotten by the restore
    restored.restore(snapshot)
    assert restored.version == 2
    assert restored.num_pending == 10 - len(before)
    after = drain(restored)
    assert before.keys() | after.keys() == whole.keys()
    assert not before.keys() & after.keys()
    for key, rollout in (before | after).items():
        assert rollout.tokens.tolist() == whole[key].tokens.tolist()
        assert set(rollout.versions.tolist()) == {2}
        np.testing.assert_allclose(rollout.logprobs, whole[key].logprobs, atol=1e-4)
    with pytest.raises(InputError, match="rows in the snapshot of the engine: got 2; allowed: as in the settings, 4"):
        open_engine(settings(eos_id=3, max_response=60)).restore(snapshot)
