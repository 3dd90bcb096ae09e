"""TRL itself: its GRPO script takes the file that `export-config` writes, and our checkpoints are its models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from safetensors.torch import load_file

from scalerl.cli import main
from scalerl.config import load_run
from scalerl.interop.trl import VERSION
from scalerl.policy.load import load_policy

trl = pytest.importorskip("trl")
pytestmark = [  # TRL's own: it sets and reads names that transformers has renamed since
    pytest.mark.filterwarnings("ignore:`[a-z_]*gradient_checkpointing[a-z_]*` is deprecated:FutureWarning"),
]

SETS = (
    'scale.model={source="llama", layers=1, width=16, heads=2, feed_forward=32}', 'scale.warm_start={kind="none"}',
    "scale.task.numbers=2", "scale.task.largest=20", "scale.task.train_problems=0", "scale.batch.prompts=2",
    "scale.batch.rollouts=4", "scale.tokens.prompt=8", "scale.tokens.thinking=8", "scale.tokens.answer=6",
    "scale.evaluation.problems=4", "scale.evaluation.samples=1", "scale.evaluation.every=2",
    "scale.checkpoint_every=2", "scale.generator.rows=8", 'scale.budget={unit="steps", amount=2}',
    "recipe.asynchrony.k=1", "scale.optimiser.warmup_steps=0", "scale.optimiser.learning_rate=1e-4",
)  # fmt: skip
"""Steps of 2 x 4 rollouts of at most 14 tokens, with a policy of 3k parameters."""
REWARDS = """
def verify(completions, answer, **_):
    assert all(isinstance(text, str) for text in answer)
    return [1.0 if len(text) % 2 else -1.0 for text in completions]
"""
"""Not what was asked, so that a policy which knows nothing has both kinds."""


def scalerl(*words: str) -> None:
    assert main(list(words)) == 0


def options(*sets: str) -> list[str]:
    return [word for one in (*SETS, *sets) for word in ("--set", one)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run of ours, the file for TRL, and what the user brings."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("trl")
        patch.chdir(folder)
        patch.setenv("SCALERL_CACHE", str(folder / "cache"))
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "datasets")
        patch.setattr(sys, "path", [*sys.path])  # TRL puts the folder in front
        scalerl("train", *options(), "--no-live", "--out", "run")
        scalerl("export-config", "trl", *options(), "--out", "trl.yaml")
        (folder / "my_rewards_for_trl.py").write_text(REWARDS)
        rows = [{"prompt": f"{n}+{n}=", "answer": str(2 * n)} for n in range(10)]
        (folder / "problems").mkdir()
        (folder / "problems" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        yield folder


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Path:
    return folder / "run" / "checkpoints" / "step-000002"


def filled(folder: Path, **others: object) -> Path:
    """The file with the user's own in the place of the placeholders."""
    settings = yaml.safe_load((folder / "trl.yaml").read_text())
    placeholders = {"model_name_or_path": "YOUR-MODEL", "dataset_name": "YOUR-DATASET"}
    assert {key: settings[key] for key in placeholders} == placeholders
    path = folder / "filled.yaml"
    path.write_text(yaml.safe_dump(settings | others))
    return path


def test_two_steps_of_its_script_from_a_checkpoint_of_ours(folder: Path, checkpoint: Path) -> None:
    """And back: what it saves is a policy here."""
    assert trl.__version__ == VERSION
    path = filled(
        folder, model_name_or_path=str(checkpoint), dataset_name=str(folder / "problems"),
        reward_funcs=["my_rewards_for_trl.verify"], output_dir=str(folder / "out"), use_cpu=True, report_to="none",
        disable_tqdm=True,
    )  # fmt: skip
    script = import_module("trl.scripts.grpo")
    arguments = ["--config", str(path)]
    script.main(*script.make_parser().parse_args_and_config(arguments, fail_with_unknown_args=True))
    (state,) = (folder / "out").glob("checkpoint-*/trainer_state.json")
    history = json.loads(state.read_text())
    assert history["global_step"] == 2
    ours, theirs = (load_file(place / "model.safetensors") for place in (checkpoint, folder / "out"))
    assert ours.keys() == theirs.keys()
    moved = {name: float((theirs[name] - ours[name]).abs().max()) for name in ours}
    assert 0 < max(moved.values()) < 3e-4  # Adam's two steps at 1e-4, from our weights and from no others
    model = f"scale.model={{source='pretrained', name='{folder / 'out'}', dtype='float32'}}"
    run = load_run(overrides=[*SETS[1:], model]).config
    assert load_policy(run, folder / "cache").model.num_parameters() == sum(one.numel() for one in theirs.values())


def test_its_sft_trainer_takes_the_checkpoint(folder: Path, checkpoint: Path) -> None:
    datasets: Any = import_module("datasets")
    rows = [{"prompt": f"{n}+{n}=", "completion": str(2 * n)} for n in range(8)]
    settings = trl.SFTConfig(
        output_dir=str(folder / "sft"), max_steps=1, per_device_train_batch_size=4, use_cpu=True, report_to="none",
        save_strategy="no", disable_tqdm=True, bf16=False,
    )  # fmt: skip
    trainer = trl.SFTTrainer(str(checkpoint), args=settings, train_dataset=datasets.Dataset.from_list(rows))
    ours = load_file(checkpoint / "model.safetensors")
    found = trainer.model.state_dict()
    assert all((found[name] == weight).all() for name, weight in ours.items())
    assert trainer.train().global_step == 1
