"""Where policies are put. There is no GPU here: `meta`, a device without numbers, stands for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scalerl.config import RunConfig
from scalerl.errors import InputError
from scalerl.pipeline.devices import generator_device, trainer_device
from scalerl.pipeline.engines import EmbeddedEngine
from scalerl.pipeline.launch import trainers
from scalerl.pipeline.launch.trainers import open_trainer
from scalerl.pipeline.session import train
from scalerl.pipeline.settings import engine_settings
from scalerl.policy import TinyLlama
from scalerl.policy.chat import Dialogue
from scalerl.policy.load import load_policy
from scalerl.policy.tiny import new_policy
from scalerl.recipe import recipe_of

MakeRun = Callable[..., RunConfig]
CUDA = "scale.launcher.device=cuda"
RAY = ('scale.launcher.kind="ray"', CUDA, "scale.launcher.trainer_gpus=1")


def test_without_a_gpu_it_is_said_before_anything_is_made(make_run: MakeRun, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r"scale\.launcher\.device: got 'cuda'; allowed: cpu: torch sees no GPU here"):
        train(make_run(CUDA), tmp_path / "run", cache=tmp_path / "cache")
    assert not list(tmp_path.iterdir())


def test_who_gets_which_gpu(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    cpu = make_run()
    assert trainer_device(cpu).type == generator_device(cpu).type == "cpu"
    one = make_run(CUDA)
    assert [str(trainer_device(one, rank)) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert str(generator_device(one)) == "cuda:1"
    assert generator_device(make_run(*RAY)).type == "cpu"
    assert generator_device(make_run(*RAY, "scale.launcher.generator_gpus=1")).type == "cuda"


def test_the_trainer_and_its_reference_move_there(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make_run("recipe.kl_coefficient=0.01")
    start = load_policy(run, tmp_path)
    monkeypatch.setattr(trainers, "trainer_device", lambda _: torch.device("meta"))
    with open_trainer(run, recipe_of(run), start.model, start.folder, start.folder) as trainer:
        learner = trainer._learner
        for model in (learner.model, learner._reference):
            assert model is not None
            assert model.device.type == "meta"


def test_the_engine_moves_its_own_copy_only(make_run: MakeRun) -> None:
    model, tokenizer = new_policy(TinyLlama(width=16, layers=1, heads=2, feed_forward=16, context=64), seed=1)
    settings = engine_settings(make_run(), Dialogue(tokenizer, make_run().scale.chat), temperature=1.0, fp32=False)
    engine = EmbeddedEngine(model, settings, device=torch.device("meta"))
    assert engine._forward.model.device.type == engine._forward.device.type == "meta"
    assert model.device.type == "cpu"
