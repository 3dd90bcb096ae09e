"""Requests of evaluations beside those that are trained on, in one engine. Part of the contract.

Each has its own temperature and length; exams are first in the queue, and counted apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalerl.errors import InputError
from scalerl.pipeline.engines.embedded import EmbeddedEngine
from scalerl.pipeline.types import Engine, EngineSettings, Exam, GroupRequest, Rollout, Snapshot

from .test_contract import recomputed

OpenEngine = Callable[..., Engine]
Settings = Callable[..., EngineSettings]
RequestOf = Callable[..., GroupRequest]
Rollouts = dict[tuple[int, int], Rollout]
COOL = Exam(None, temperature=0.5)


def test_temperature_and_length_are_those_of_each_request(
    open_engine: OpenEngine, policy: Any, settings: Settings, request_of: RequestOf, drain: Callable[[Engine], Rollouts]
) -> None:
    """In the same steps, side by side; the log-prob of each token tells the temperature that it was sampled at."""
    engine = open_engine(settings(rows=8, max_response=20))
    requests = [
        (1.0, request_of(1, rollouts=3, max_response=12)),
        (0.4, request_of(-3, rollouts=3, prompt_ids=(3, 1, 4), exam=Exam(None, 0.4))),
        (1.8, request_of(-2, rollouts=2, prompt_ids=(5, 2), exam=Exam("hot", 1.8), max_response=5)),
    ]
    for _, request in requests:
        engine.submit(request)
    found = drain(engine)
    for (temperature, request), length in zip(requests, (12, 20, 5), strict=True):
        for place in range(len(request.seeds)):
            rollout = found[request.index, place]
            assert len(rollout) == length
            expected = recomputed(policy, request.prompt_ids, rollout, temperature)
            assert rollout.logprobs == pytest.approx(expected, abs=1e-4)
    assert len({tuple(found[1, place].tokens) for place in range(3)}) == 3


def test_what_is_written_beside_an_exam_is_written_without_it_too(
    open_engine: OpenEngine, settings: Settings, request_of: RequestOf, drain: Callable[[Engine], Rollouts]
) -> None:
    chosen = settings(rows=8, max_response=20, phrase_ids=(11, 12))
    requests = [request_of(index, rollouts=2, interruptions=(4, None), max_response=9 + index) for index in range(2)]
    alone = open_engine(chosen)
    for request in requests:
        alone.submit(request)
    expected = drain(alone)
    beside = open_engine(chosen)
    beside.submit(request_of(-1, rollouts=2, exam=Exam("longer", 0.7), interruptions=(6, 6)))
    for request in requests:
        beside.submit(request)
    found = drain(beside)
    for key, rollout in expected.items():
        assert found[key].tokens.tolist() == rollout.tokens.tolist()
        np.testing.assert_allclose(found[key].logprobs, rollout.logprobs, atol=1e-4)
    assert [found[-1, place].own.tolist() for place in range(2)] == [[True] * 6 + [False] * 2 + [True] * 12] * 2


def test_exams_come_first(open_engine: OpenEngine, settings: Settings, request_of: RequestOf) -> None:
    """What has begun goes on, with vLLM at most what its rows hold; what only waits is overtaken."""
    engine = open_engine(settings(rows=16, max_response=12))
    for index in range(6):
        engine.submit(request_of(index, rollouts=8))
    for index in (-2, -1):
        engine.submit(request_of(index, rollouts=8, exam=COOL))
    order: list[int] = []
    while engine.num_pending:
        order.extend(finished.request for finished in engine.step().finished)
    assert len(order) == 64
    exams = [place for place, index in enumerate(order) if index < 0]
    overtaken = [place for place, index in enumerate(order) if index >= 2]
    assert max(exams) < min(overtaken)


def test_their_work_is_counted_apart(open_engine: OpenEngine, settings: Settings, request_of: RequestOf) -> None:
    def counts(*requests: GroupRequest) -> np.ndarray[Any, Any]:
        engine = open_engine(settings(rows=8))
        for request in requests:
            engine.submit(request)
        sums = np.zeros(4, dtype=np.int64)
        while engine.num_pending:
            step = engine.step()
            sums += [step.tokens, step.attended, step.exam_tokens, step.exam_attended]
        return sums

    exam = request_of(-5, rollouts=2, prompt_ids=(7, 8, 9), exam=COOL, max_response=7)
    plain = request_of(2, rollouts=3)
    alone, other, both = counts(exam), counts(plain), counts(plain, exam)
    assert alone[:2].tolist() == alone[2:].tolist()
    assert other[2:].tolist() == [0, 0]
    assert both[2:].tolist() == alone[2:].tolist()
    assert both[:2].tolist() == (alone + other)[:2].tolist()


@pytest.mark.parametrize("room", [0, 13])
def test_a_length_that_the_engine_has_no_room_for(
    room: int, open_engine: OpenEngine, settings: Settings, request_of: RequestOf
) -> None:
    engine = open_engine(settings(max_response=12))
    with pytest.raises(InputError, match=rf"tokens of the longest rollout: got {room}; allowed: 1 to 12"):
        engine.submit(request_of(0, max_response=room))
    assert engine.num_pending == 0


@pytest.mark.parametrize("steps", [0, 3, 9])
def test_a_restored_engine_goes_on_with_them(
    steps: int, llama: Any, settings: Settings, request_of: RequestOf, drain: Callable[[Engine], Rollouts]
) -> None:
    """The one of which a part has rows, exams that wait behind it, and the rest."""

    def begun() -> EmbeddedEngine:
        engine = EmbeddedEngine(llama, settings(rows=3, max_response=16))
        engine.submit(request_of(0, rollouts=5, max_response=9))
        for _ in range(steps):
            engine.step()
        engine.submit(request_of(1, rollouts=2))
        engine.submit(request_of(-1, rollouts=4, exam=COOL, max_response=6))
        return engine

    saved = begun().snapshot()
    restored = EmbeddedEngine(llama, settings(rows=3, max_response=16))
    restored.restore(Snapshot(json.loads(json.dumps(saved.values)), saved.tensors))
    whole = begun()
    pairs = []
    while whole.num_pending:
        pairs.append((whole.step(), restored.step()))
    assert not restored.num_pending
    for one, other in pairs:
        assert (one.exam_tokens, one.tokens) == (other.exam_tokens, other.tokens)
        assert [done.request for done in one.finished] == [done.request for done in other.finished]
        for mine, theirs in zip(one.finished, other.finished, strict=True):
            assert mine.rollout.tokens.tolist() == theirs.rollout.tokens.tolist()


def test_a_checkpoint_from_before_there_were_exams(
    llama: Any, settings: Settings, request_of: RequestOf, drain: Callable[[Engine], Rollouts]
) -> None:
    def begun() -> EmbeddedEngine:
        engine = EmbeddedEngine(llama, settings(rows=3, temperature=0.8))
        engine.submit(request_of(0, rollouts=5))
        engine.step()
        return engine

    saved = begun().snapshot()
    tensors = {
        key: value for key, value in saved.tensors.items() if key[5:] not in {"room_r", "temperature_r", "exam_r"}
    }
    assert len(tensors) == len(saved.tensors) - 3
    values = json.loads(json.dumps(saved.values))
    for request in values["waiting"]:
        del request["exam"], request["max_response"]
    restored = EmbeddedEngine(llama, settings(rows=3, temperature=0.8))
    restored.restore(Snapshot(values, tensors))
    expected, found = drain(begun()), drain(restored)
    assert {key: rollout.tokens.tolist() for key, rollout in found.items()} == {
        key: rollout.tokens.tolist() for key, rollout in expected.items()
    }
