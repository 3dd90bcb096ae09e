"""A snapshot, through safetensors and JSON, and an engine that goes on from it bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from scalerl.errors import InputError
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.types import EngineSettings, GroupRequest, Rollout, Snapshot
from scalerl.policy.mark import Mark

MakeSettings = Callable[..., EngineSettings]
MakeRequest = Callable[..., GroupRequest]
Record = list[tuple[object, ...]]


def stored(snapshot: Snapshot, folder: Path) -> Snapshot:
    """To disk and back, as a checkpoint does it."""
    save_file(dict(snapshot.tensors), folder / "engine.safetensors")
    (folder / "state.json").write_text(json.dumps(snapshot.values))
    return Snapshot(json.loads((folder / "state.json").read_text()), load_file(folder / "engine.safetensors"))


def arrays(rollout: Rollout) -> list[bytes]:
    return [getattr(rollout, name).tobytes() for name in ("tokens", "logprobs", "versions", "own")]


def record(engine: EmbeddedEngine, num_steps: int | None = None) -> Record:
    """Everything that the steps do, to the bit."""
    seen: Record = []
    while engine.num_pending and (num_steps is None or len(seen) < num_steps):
        step = engine.step()
        finished = [
            (done.request, done.position, done.rollout.truncated, done.rollout.interrupted, *arrays(done.rollout))
            for done in step.finished
        ]
        seen.append((step.tokens, step.attended, step.sampled, *finished))
    return seen


@pytest.mark.parametrize("name", ["llama", "moe"])
@pytest.mark.parametrize("num_steps", [0, 1, 3, 9, 20, 500])
def test_a_restored_engine_goes_on_bit_for_bit(
    name: str, num_steps: int, request: pytest.FixtureRequest, settings: MakeSettings, request_of: MakeRequest,
    tmp_path: Path,
) -> None:  # fmt: skip
    model: PreTrainedModel = request.getfixturevalue(name)
    chosen = settings(rows=5, eos_id=3, phrase_ids=(8, 9), end_thinking=Mark("end", ((4, "end"),)))

    def submit(engine: EmbeddedEngine, start: int, stop: int) -> None:
        for index in range(start, stop):
            engine.submit(request_of(index, 4, interruptions=(None, 2, 5, 9), seeds=(2**64 - 1 - index, -7, index, 3)))

    engine = EmbeddedEngine(model, chosen)
    submit(engine, 0, 6)
    record(engine, num_steps)  # 500: until nothing is left
    engine.load_weights(model.state_dict(), version=3)
    snapshot = engine.snapshot()
    restored = EmbeddedEngine(model, chosen)
    submit(restored, 40, 43)  # forgotten by the restore
    restored.step()
    restored.restore(stored(snapshot, tmp_path))
    assert restored.version == 3
    assert restored.num_pending == engine.num_pending
    submit(engine, 6, 8)
    submit(restored, 6, 8)
    assert record(engine) == record(restored)


def test_the_cases_above_include_a_group_that_has_started_in_part(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest
) -> None:
    engine = EmbeddedEngine(llama, settings(rows=5))
    engine.submit(request_of(0, 4))
    engine.submit(request_of(1, 4))
    assert "prompt.logits" not in engine.snapshot().tensors
    engine.step()
    assert "prompt.logits" in engine.snapshot().tensors


def test_a_snapshot_is_a_copy(llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest) -> None:
    engine = EmbeddedEngine(llama, settings(rows=3, eos_id=3))
    engine.submit(request_of(0, 8))
    record(engine, 4)
    snapshot = engine.snapshot()
    before = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    values = json.dumps(snapshot.values)
    record(engine)
    assert all(torch.equal(tensor, before[name]) for name, tensor in snapshot.tensors.items())
    assert json.dumps(snapshot.values) == values


def test_other_settings_are_refused(
    llama: PreTrainedModel, settings: MakeSettings, request_of: MakeRequest, tmp_path: Path
) -> None:
    engine = EmbeddedEngine(llama, settings(rows=3))
    engine.submit(request_of(0, 2))
    engine.step()
    snapshot = stored(engine.snapshot(), tmp_path)
    other = EmbeddedEngine(llama, settings(rows=4))
    other.submit(request_of(5))
    with pytest.raises(InputError, match="rows in the snapshot of the engine: got 3; allowed: as in the settings, 4"):
        other.restore(snapshot)
    assert other.num_pending == 1
