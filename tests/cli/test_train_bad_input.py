"""Every bad input of `scalerl train`: one line that says what, which value and where; nothing is written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scalerl.policy import build_tiny_llama

from .conftest import Ran, Run
from .tiny import tiny_options

PRETRAINED = 'scale.model={source="pretrained", name="%s", dtype="float32"}'
FILE_TASK = 'scale.task={kind="file", path="%s", held_out_share=0.3, thinking=true}'


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SCALERL_CACHE", str(folder))
    return folder


def _refused(ran: Ran, words: list[str], folder: Path, before: list[Path]) -> None:
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert ran.err.startswith("scalerl: error: ")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err
    assert sorted(folder.rglob("*")) == before


OPTIONS = {
    "recipe": (["--recipe", "qwen_dappo"], ["recipe preset", "qwen_dappo", "did you mean qwen_dapo?", "magistral"]),
    "recipe file": (["--recipe", "nowhere.toml"], ["nowhere.toml", "cannot be read"]),
    "scale": (["--scale", "cluster"], ["scale preset", "cluster", "laptop", "paper_8b"]),
    "config": (["--config", "nowhere.toml"], ["nowhere.toml", "cannot be read"]),
    "config that is no TOML": (["--config", "bad.toml"], ["bad.toml", "not TOML"]),
    "key": (["--set", "recipe.loss.capp=8"], ["--set recipe.loss.capp=8", "did you mean recipe.loss.cap?"]),
    "key of another variant": (["--set", "recipe.loss.clip_high=0.28"], ["clip_high", "surrogate = ppo_clip, gspo"]),
    "type": (["--set", "scale.batch.prompts=many"], ["scale.batch.prompts", "many", "whole number"]),
    "no value": (["--set", "recipe.loss.cap"], ["--set", "recipe.loss.cap", "dotted.key=value"]),
    "range": (["--set", "scale.batch.rollouts=1"], ["scale.batch.rollouts", "1", "at least 2"]),
    "impossible": (["--set", "scale.model.heads=3"], ["scale.model.heads", "3", "width is 64"]),
    "two keys": (
        ["--set", 'scale.task={kind="file", path="a.jsonl"}'],
        ["warm_start.kind", "solution traces"],
    ),
    "seed": (["--seed", "-1"], ["--seed -1", "seed", "-1"]),
    "seed text": (["--seed", "first"], ["--seed", "first", "whole number"]),
    "budget": (["--budget", "5 hours"], ["--budget", "5 hours", "device-hours"]),
    "budget twice": (["--budget", "5", "--set", "scale.budget.amount=6"], ["scale.budget.amount is given twice"]),
    "launcher": (["--launcher", "slurm"], ["--launcher", "slurm", "inline", "local", "ray"]),
    "option": (["--steps", "5"], ["--steps"]),
    "device": (["--set", "scale.launcher.device=gpu"], ["scale.launcher.device", "gpu", "cpu", "cuda"]),
}


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("case", OPTIONS)
def test_options(case: str, dry: bool, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("recipe = [")
    before = sorted(tmp_path.rglob("*"))
    options, words = OPTIONS[case]
    _refused(run("train", *options, *(["--dry-run"] if dry else [])), words, tmp_path, before)


def _problems(count: int = 60) -> str:
    return "".join(json.dumps({"prompt": f"{i}+1=", "answer": str(i + 1)}) + "\n" for i in range(count))


TASKS: dict[str, tuple[str, str, list[str]]] = {
    "corrupt line": (_problems() + '{"prompt": "1+1=", "answ\n', "", ["task.jsonl, line 61"]),
    "no object": (_problems(3) + "[1, 2]\n", "", ["task.jsonl, line 4"]),
    "empty": ("", "", ["task.jsonl", "empty"]),
    "answer column": (_problems(), ', answer_key="solution"', ["task.jsonl", "answer_key", "solution", "prompt"]),
    "prompt column": (_problems(), ', prompt_key="question"', ["task.jsonl", "prompt_key", "question", "answer"]),
    "too few": (_problems(5), "", ["task.jsonl", "too few held-out problems", "8"]),
    "long prompt": (_problems() + json.dumps({"prompt": "1+" * 20 + "1=", "answer": "21"}) + "\n", "",
                    ["scale.tokens.prompt", "8", "42"]),
    "unknown characters": (_problems().replace("+1=", " plus 1"), "", ["characters that the policy cannot", "plus"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TASKS)
def test_task_files(case: str, run: Run, tmp_path: Path) -> None:
    content, more, words = TASKS[case]
    (tmp_path / "task.jsonl").write_text(content)
    before = sorted(tmp_path.rglob("*"))
    task = (FILE_TASK % "task.jsonl").replace("}", more + "}")
    options = tiny_options(task)
    _refused(run("train", *_without_sums(options), "--budget", 2, "--out", "new"), words, tmp_path, before)


def _without_sums(options: list[str]) -> list[str]:
    """Without the keys of the task that the file task does not have."""
    pairs = zip(options[::2], options[1::2], strict=True)
    return [word for pair in pairs if not pair[1].startswith("scale.task.") for word in pair]


def test_a_missing_task_file(run: Run, tmp_path: Path) -> None:
    options = _without_sums(tiny_options(FILE_TASK % "nowhere.jsonl"))
    _refused(run("train", *options, "--budget", 2, "--out", "new"), ["nowhere.jsonl", "no such file"], tmp_path, [])


def _no_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()


def _broken_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"not weights")


def _no_folder(folder: Path) -> None:
    folder.rename(folder.with_name("other"))


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


MODELS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "no tokenizer": (_no_tokenizer, ["policy", "tokenizer"]),
    "no config": (_no_config, ["policy", "config.json"]),
    "broken weights": (_broken_weights, ["policy"]),
    "no folder": (_no_folder, ["policy"]),
}


@pytest.mark.parametrize("case", MODELS)
def test_model_folders(case: str, run: Run, tmp_path: Path) -> None:
    spoil, words = MODELS[case]
    spoil(build_tiny_llama(tmp_path / "policy", width=16, layers=1, heads=2, feed_forward=32, context=64))
    before = sorted(tmp_path.rglob("*"))
    _refused(
        run("train", *tiny_options(PRETRAINED % "./policy"), "--budget", 2, "--out", "new"), words, tmp_path, before
    )


def test_a_context_that_is_too_short(run: Run, tmp_path: Path) -> None:
    build_tiny_llama(tmp_path / "policy", width=16, layers=1, heads=2, feed_forward=32, context=20)
    before = sorted(tmp_path.rglob("*"))
    words = ["scale.tokens: prompt + thinking + answer", "22", "at most the context of the policy, 20"]
    _refused(
        run("train", *tiny_options(PRETRAINED % "./policy"), "--budget", 2, "--out", "new"), words, tmp_path, before
    )


def test_an_evaluation_larger_than_the_pool(run: Run, tmp_path: Path) -> None:
    options = tiny_options("scale.evaluation.problems=4000")
    _refused(run("train", *options, "--budget", 2, "--out", "new"), ["4000", "held-out problems"], tmp_path, [])


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_with_other_things(resume: bool, run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    options = ["--resume"] if resume else tiny_options()
    words = ["mine", "no run directory"] if resume else ["mine", "thesis.tex", "nothing is overwritten"]
    _refused(run("train", *options, "--out", "mine"), words, tmp_path, before)


def test_a_file_in_the_place_of_the_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a file")
    before = sorted(tmp_path.rglob("*"))
    _refused(run("train", *tiny_options(), "--out", "mine"), ["mine", "a file, not a folder"], tmp_path, before)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_place_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    before = sorted(tmp_path.rglob("*"))
    _refused(run("train", *tiny_options(), "--out", "closed/new"), ["closed/new"], tmp_path, before)


def test_a_full_disk_stops_the_run_and_keeps_the_last_checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up while the checkpoint of step 4 is written."""
    from scalerl import folder

    flush = folder._flush_all

    def full(file: Path) -> None:
        if "step-000004" in str(file):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    with monkeypatch.context() as patched:
        patched.setattr(folder, "_flush_all", full)
        ran = run("train", *tiny_options(), "--budget", 4, "--out", "one")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("scalerl: error: ")
    assert "No space left on device" in ran.err.splitlines()[-1]
    assert sorted(path.name for path in Path("one/checkpoints").iterdir()) == ["step-000002"]
    again = run("train", "--resume", "--out", "one")
    assert again.code == 0, again.err
    assert "training from step 2" in again.err
