"""Two gloo ranks and one rank are the same trainer: losses, weights, checkpoints, whatever the settings.

The second rank lives in a process that serves one test after the other, started by nobody that `run_rank` knows.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from scalerl.config import RunConfig
from scalerl.errors import InputError, ScaleRLError, StorageError, TrainingError
from scalerl.pipeline import checkpoint
from scalerl.pipeline.launch.meeting import Meeting
from scalerl.pipeline.launch.rank import run_rank
from scalerl.pipeline.shards import SHARDS
from scalerl.pipeline.trainer import Trainer
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.load import read_policy
from scalerl.policy.pretrained import read_tokenizer
from scalerl.policy.tiny import Shape, build_policy
from scalerl.recipe import recipe_of

MakeRun = Callable[..., RunConfig]
Opened = Callable[..., Any]
SHAPE = TinyLlama(width=16, layers=2, heads=2, feed_forward=24, context=32)
RATE = "scale.optimiser.learning_rate=0.0001"


@pytest.fixture(scope="module")
def batches() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        yield importlib.import_module("rank_batches")


@pytest.fixture(scope="module")
def second() -> Iterator[ProcessPoolExecutor]:
    """A process that is rank 1 as often as it is asked."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return build_policy(tmp_path / "policy", SHAPE)


@contextmanager
def opened(
    run: RunConfig, folder: Path, second: ProcessPoolExecutor | None, reference: Path | None = None
) -> Iterator[Trainer]:
    """A trainer of one rank, or with `second` of two."""
    dtype = run.scale.model.dtype
    frozen = None if reference is None else read_policy(reference, dtype)
    if second is None:
        yield Trainer(read_policy(folder, dtype), recipe_of(run), run, frozen)
        return
    meeting = Meeting(2)
    life = second.submit(run_rank, 1, 2, meeting.address, run, folder, reference)
    meeting.wait(lambda: _ended(life))
    ranks = meeting.join(torch.device("cpu"), lambda: None)
    try:
        yield Trainer(read_policy(folder, dtype), recipe_of(run), run, frozen, ranks)
    finally:
        ranks.close()
    assert life.result(timeout=300) is None


def _ended(life: Future[None]) -> ScaleRLError | None:
    return ScaleRLError(str(life.exception())) if life.done() else None


def steps(learner: Trainer, batches: Any, first: int, last: int) -> list[dict[str, Any]]:
    return [learner.step(batches.batch(step), step, 0).values for step in range(first, last)]


def copies(learner: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.weights().items()}


def assert_close(ones: dict[str, Tensor], twos: dict[str, Tensor], most: float) -> None:
    assert ones.keys() == twos.keys()
    worst = max((one - twos[name]).abs().max().item() for name, one in ones.items())
    assert worst <= most


def assert_alike(ones: list[dict[str, Any]], twos: list[dict[str, Any]], relative: float, absolute: float) -> None:
    """All values of all steps, but for how many pieces a batch was cut into."""
    for step, (one, two) in enumerate(zip(ones, twos, strict=True)):
        assert one.keys() == two.keys()
        for key in one.keys() - {"micro_batches"}:
            if one[key] is None:
                assert two[key] is None, (step, key)
            else:
                assert two[key] == pytest.approx(one[key], rel=relative, abs=absolute), (step, key)


@pytest.mark.parametrize("recipe", ["scalerl", "deepseek_grpo", "dr_grpo"])
def test_twenty_steps_of_two_ranks_equal_those_of_one(
    recipe: str, make_run: MakeRun, policy: Path, second: ProcessPoolExecutor, batches: Any
) -> None:
    """In many small pieces on two ranks, in one piece on one. The batches are uneven, and some are for one rank only
    or for none (`rank_batches`)."""
    whole = make_run(RATE, "scale.trainer.micro_batch_tokens=100000", recipe=recipe)
    pieces = make_run(RATE, "scale.trainer.micro_batch_tokens=48", recipe=recipe)
    with opened(whole, policy, None) as one:
        expected, weights = steps(one, batches, 0, 20), copies(one)
    with opened(pieces, policy, second) as two:
        found = steps(two, batches, 0, 20)
        assert_close(weights, copies(two), 1e-5)
    assert sum(values["micro_batches"] for values in found) > 3 * sum(values["micro_batches"] for values in expected)
    nothing = [values["loss"] is None for values in found].count(True)
    assert nothing == (2 if whole.recipe.zero_variance == "drop" else 0)
    moved = max((tensor - weights[name]).abs().max().item() for name, tensor in load_file(_weights(policy)).items())
    assert moved > 1e-3
    assert_alike(expected, found, 1e-5, 1e-5)


def _weights(folder: Path) -> Path:
    return folder / "model.safetensors"


def save(root: Path, step: int, learner: Trainer, policy: Path) -> checkpoint.Checkpoint:
    parts = {"trainer": learner.snapshot()}
    tokenizer = read_tokenizer(policy)
    checkpoint.save(root, step, parts, model=learner.model, tokenizer=tokenizer, write_parts=learner.write_parts)
    found = checkpoint.load_newest(root)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("before", [1, 2], ids=["1 to 2", "2 to 1"])
def test_a_checkpoint_goes_on_with_another_number_of_ranks(
    before: int,
    dtype: str,
    make_run: MakeRun,
    policy: Path,
    second: ProcessPoolExecutor,
    batches: Any,
    tmp_path: Path,
) -> None:
    run = make_run(RATE, f'scale.model.dtype="{dtype}"')
    pools = [None, second] if before == 1 else [second, None]
    with opened(run, policy, pools[0]) as learner:
        steps(learner, batches, 0, 4)
        saved = save(tmp_path / "first", 4, learner, policy)
        at_save = copies(learner)
        expected, weights = steps(learner, batches, 4, 8), copies(learner)
        end = save(tmp_path / "first", 8, learner, policy)
    assert (saved.policy / SHARDS).is_dir() == (before == 2)
    with opened(run, saved.policy, pools[1]) as learner:
        learner.restore(saved.parts["trainer"], saved.policy)
        assert_close(at_save, copies(learner), 0.0)
        found = steps(learner, batches, 4, 8)
        assert_close(weights, copies(learner), 1e-5 if dtype == "float32" else 4e-3)
        other = save(tmp_path / "second", 8, learner, policy)
    assert_alike(expected, found, *((1e-4, 1e-5) if dtype == "float32" else (0.1, 0.02)))
    assert (other.policy / SHARDS).is_dir() == (before == 1)
    # the optimiser too, whichever way it was written
    with opened(run, end.policy, None) as one, opened(run, other.policy, None) as two:
        one.restore(end.parts["trainer"], end.policy)
        two.restore(other.parts["trainer"], other.policy)
        states = [dict(learner.snapshot().tensors) for learner in (one, two)]
    assert {name.partition("/")[0] for name in states[0]} >= {"step", "exp_avg", "exp_avg_sq"}
    assert float(states[0]["step/lm_head.weight"]) == 7  # of eight steps one had nothing in the loss
    for state in states:
        del state["torch_rng"]
    assert_close(states[0], states[1], 1e-5 if dtype == "float32" else 4e-3)


SHAPES: dict[str, Shape] = {
    "llama": SHAPE,
    "tied": TinyLlama(width=16, layers=1, heads=2, feed_forward=24, context=32, tied=True),
    "moe": TinyMoe(width=16, layers=1, heads=2, feed_forward=24, context=32),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sharded_checkpoint_is_a_plain_model(
    shape: str, make_run: MakeRun, second: ProcessPoolExecutor, batches: Any, tmp_path: Path
) -> None:
    folder = build_policy(tmp_path / "policy", SHAPES[shape])
    with opened(make_run(RATE), folder, None) as one:
        steps(one, batches, 0, 2)
        expected = copies(one)
    with opened(make_run(RATE), folder, second) as two:
        steps(two, batches, 0, 2)
        saved, weights = save(tmp_path / "run", 2, two, folder), copies(two)
    assert_close(expected, weights, 1e-5)
    files = [file.relative_to(saved.policy).as_posix() for file in saved.policy.rglob("*") if file.is_file()]
    assert {file.rpartition(".")[2] for file in files} == {"json", "safetensors"}  # no pickle
    assert sum(file.startswith(f"{SHARDS}/") for file in files) == 2
    loaded = AutoModelForCausalLM.from_pretrained(saved.policy)
    assert type(loaded) is type(read_policy(folder, "float32"))
    assert_close(dict(loaded.named_parameters()), weights, 0.0)


def test_a_damaged_shard_is_found(
    make_run: MakeRun, policy: Path, second: ProcessPoolExecutor, batches: Any, tmp_path: Path
) -> None:
    with opened(make_run(RATE), policy, second) as two:
        steps(two, batches, 0, 1)
        saved = save(tmp_path / "run", 1, two, policy)
    shard = min((saved.policy / SHARDS).iterdir())
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match=r"shards/.*damaged"):
        checkpoint.load(saved.policy)


def test_shards_that_cannot_be_written_are_one_error_and_no_rank_is_lost(
    make_run: MakeRun, policy: Path, second: ProcessPoolExecutor, batches: Any, tmp_path: Path
) -> None:
    taken = tmp_path / "shards"
    taken.write_text("a file")
    with opened(make_run(RATE), policy, second) as two:
        steps(two, batches, 0, 1)
        with pytest.raises(StorageError, match=r"shards: cannot be written"):
            two.write_parts(tmp_path)
        assert steps(two, batches, 1, 2)[0]["loss"] is not None


SETTINGS = {
    "activation checkpointing": (["scale.trainer.gradient_checkpointing=true"], 1e-4),
    "kl": (["recipe.kl_coefficient=0.5"], 1e-4),
    "mixed precision": (["scale.trainer.mixed_precision=true"], 0.02),
    "all": (
        [
            "scale.trainer.gradient_checkpointing=true",
            "scale.trainer.mixed_precision=true",
            "recipe.kl_coefficient=1.0",
        ],
        0.02,
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_mean_the_same_on_two_ranks(
    name: str,
    make_run: MakeRun,
    policy: Path,
    second: ProcessPoolExecutor,
    batches: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides, relative = SETTINGS[name]
    run = make_run(RATE, *overrides)
    reference = build_policy(tmp_path / "reference", SHAPE, seed=1) if run.recipe.kl_coefficient else None
    with opened(run, policy, None, reference) as one:
        expected = steps(one, batches, 0, 6)
    calls = []
    layer = type(read_policy(policy, "float32").model.layers[0])
    forward = layer.forward

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return forward(*arguments, **options)

    with opened(run, policy, second, reference) as two:
        monkeypatch.setattr(layer, "forward", counted)
        found = steps(two, batches, 0, 6)
        monkeypatch.undo()
        assert all(tensor.dtype == torch.float32 for tensor in two.weights().values())
    recomputed = run.scale.trainer.gradient_checkpointing
    passes = len(calls) / (SHAPE.layers * (1 + recomputed + (reference is not None)))
    assert passes == int(passes)  # each layer once more where activations are recomputed
    assert_alike(expected, found, relative, relative / 10)


def test_the_fp32_head_is_a_switch_on_two_ranks(
    make_run: MakeRun, policy: Path, second: ProcessPoolExecutor, batches: Any
) -> None:
    losses = []
    for on in ("true", "false"):
        run = make_run("scale.trainer.mixed_precision=true", f"recipe.precision.fp32_head_trainer={on}")
        with opened(run, policy, second) as two:
            losses.append(steps(two, batches, 0, 1)[0]["loss"])
    assert losses[0] != losses[1]


def test_a_step_that_is_refused_leaves_all_ranks_as_they_were(
    make_run: MakeRun, policy: Path, second: ProcessPoolExecutor, batches: Any
) -> None:
    run = make_run(RATE)
    broken = batches.batch(0)
    for one in broken:
        one.rollouts[0].logprobs[:] = float("nan")
    with opened(run, policy, None) as learner:
        expected, weights = steps(learner, batches, 0, 3), copies(learner)
    with opened(run, policy, second) as learner:
        assert learner.step(broken, 0, 0).skipped is not None
        with pytest.raises(TrainingError, match="a token of age 5"):
            learner.step(batches.batch(0), 5, 2)
        assert_alike(expected, steps(learner, batches, 0, 3), 1e-4, 1e-5)
        assert_close(weights, copies(learner), 1e-5)


def test_nothing_listens_beyond_this_machine(make_run: MakeRun, policy: Path, second: ProcessPoolExecutor) -> None:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("needs /proc")
    rank = second.submit(os.getpid).result()
    with opened(make_run(), policy, second):
        listening = [address for pid in (os.getpid(), rank) for address in _listening(pid)]
    assert len(listening) >= 3  # the meeting, and gloo on both sides
    assert set(listening) == {"0100007F"}


def _listening(pid: int) -> list[str]:
    """Addresses on which a process listens, as /proc writes them; 0100007F is 127.0.0.1."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


def test_a_process_is_one_rank_at_a_time(make_run: MakeRun, policy: Path, second: ProcessPoolExecutor) -> None:
    with (
        opened(make_run(), policy, second),
        pytest.raises(InputError, match=r"torch\.distributed is in use in this process already"),
    ):
        Meeting(1).join(torch.device("cpu"), lambda: None)
