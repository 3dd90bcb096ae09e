"""Rows that have written the same tokens go through the model once, and part when they write different ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.engines.rows import Rows
from scalerl.pipeline.types import EngineSettings, GroupRequest, Rollout

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
Drain = Callable[..., dict[tuple[int, int], Rollout]]


def counted(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each decode step puts through the model, as it goes."""
    sizes: list[int] = []
    decode = engine._forward.decode

    def count(token_n: NDArray[np.int64], position_n: NDArray[np.int64]) -> Tensor:
        sizes.append(len(token_n))
        return decode(token_n, position_n)

    monkeypatch.setattr(engine._forward, "decode", count)
    return sizes


def test_every_different_text_is_read_once(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    engine = EmbeddedEngine(llama, settings(rows=24))
    sizes = counted(engine, monkeypatch)
    for index in range(3):
        engine.submit(request_of(index, 8))
    rollouts = drain(engine)
    # a token that is followed by another one was read, once for all rollouts of the group that begin with it
    read = {
        (index, *rollout.tokens[:end]) for (index, _), rollout in rollouts.items() for end in range(1, len(rollout))
    }
    assert sum(sizes) == len(read)
    assert len(read) < sum(len(rollout) - 1 for rollout in rollouts.values())


def test_equal_seeds_never_part(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    engine = EmbeddedEngine(llama, settings(rows=4))
    sizes = counted(engine, monkeypatch)
    engine.submit(request_of(0, 4, seeds=(5,) * 4))
    rollouts = drain(engine)
    assert set(sizes) == {1}
    assert len({rollout.tokens.tobytes() for rollout in rollouts.values()}) == 1


def test_sharing_changes_no_rollout(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, drain: Drain
) -> None:
    """A group against its rollouts one by one; few rows, so that slots are refilled while others are in use."""
    together, alone = EmbeddedEngine(llama, settings(rows=5)), EmbeddedEngine(llama, settings(rows=1))
    for index in range(4):
        together.submit(request_of(index, 6))
    found = drain(together)
    for index in range(4):
        for place, seed in enumerate(request_of(index, 6).seeds):
            alone.submit(request_of(index, 1, seeds=(seed,)))
            rollout = drain(alone)[index, 0]
            assert found[index, place].tokens.tolist() == rollout.tokens.tolist()
            np.testing.assert_allclose(found[index, place].logprobs, rollout.logprobs, atol=1e-4)


def test_slots_stay_dense_and_follow_their_texts(settings: MakeSettings, request_of: MakeRequest) -> None:
    """A stand-in cache of strings, random tokens: what a row finds in its slot is what it has written."""
    rng = np.random.default_rng(0)
    rows = Rows(settings(rows=12, max_response=30, eos_id=3))
    slots: list[Any] = [None] * 12
    index = 0
    for _ in range(200):
        for slot, row in enumerate(rows.leader_m):  # read the last token
            slots[slot] = (*slots[slot], int(rows.last_token_n[row]))
        while rows.num_free >= 4:
            slots[rows.num_slots] = (f"group {index}",)
            rows.admit(request_of(index, 4), 0, 4, rows.num_slots)
            index += 1
        num = rows.num_rows
        rows.advance(rng.choice([3, 7, 8], num, p=[0.1, 0.6, 0.3]), np.zeros(num, np.float32), np.zeros(num, np.int32))
        rows.retire()
        source, target = rows.part()
        assert not set(source.tolist()) & set(target.tolist())
        for here, there in zip(source, target, strict=True):
            slots[there] = slots[here]
        assert sorted(set(rows.slot_r[: rows.num_rows].tolist())) == list(range(rows.num_slots))
        for row in range(rows.num_rows):
            written = rows.tokens_rt[row, : rows.written_r[row] - 1].tolist()
            assert slots[rows.slot_r[row]] == (f"group {rows.request_r[row]}", *written)
