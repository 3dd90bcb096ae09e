"""The warm start: what has a loss, that it learns, that a seed means its weights, and what the cache holds."""

import json
import os
from dataclasses import replace
from importlib import reload
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import scalerl.policy
from scalerl.errors import InputError, MissingDependencyError
from scalerl.policy import Progress, TinyLlama, TinyMoe, WarmStart, sft, warm_start, warm_start_digest
from scalerl.policy.tokenizer import character_tokenizer
from scalerl.policy.traces import IGNORED, encode, trace_batches
from scalerl.tasks import build_task, traced

SMALL = WarmStart(
    task={"kind": "chained_sums", "numbers": 2, "largest": 9, "held_out_problems": 1},
    model=TinyLlama(width=16, layers=1, heads=2, feed_forward=32),
    steps=12,
    batch=8,
    learning_rate=1e-2,
)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_only_completions_have_a_loss() -> None:
    tokenizer = character_tokenizer()
    batch = encode(tokenizer, ["1+2=", "10+2="], ["<think>1+2=3</think>3", "<think></think>"])
    assert tokenizer.batch_decode(batch.tokens_bt) == [
        "1+2=<think>1+2=3</think>3<eos>",
        "10+2=<think></think><eos>" + "<pad>" * 5,
    ]
    learnt = [row[row != IGNORED] for row in batch.labels_bt]
    assert tokenizer.batch_decode(learnt) == ["<think>1+2=3</think>3<eos>", "<think></think><eos>"]
    assert batch.num_tokens == 13 + 8


def test_padding_changes_nothing() -> None:
    """Right padding needs no attention mask: a trace has the same loss alone and beside a longer one."""
    model, tokenizer = scalerl.policy.tiny.new_policy(SMALL.model, 0)
    prompts, completions = ["1+2=", "10+2="], ["<think>1+2=3</think>3", "<think></think>"]
    together = encode(tokenizer, prompts, completions)
    alone = encode(tokenizer, prompts[1:], completions[1:])
    with torch.no_grad():
        whole = model(input_ids=together.tokens_bt[1:], labels=together.labels_bt[1:]).loss
        assert torch.allclose(whole, model(input_ids=alone.tokens_bt, labels=alone.labels_bt).loss, atol=1e-6)


def test_traces_are_of_training_problems_and_noisy() -> None:
    task, tokenizer = traced(build_task("chained_sums")), character_tokenizer()
    batches = list(islice(trace_batches(task, tokenizer, batch=64, wrong_steps=0.5, seed=0), 4))
    texts = [text for batch in batches for text in tokenizer.batch_decode(batch.tokens_bt, skip_special_tokens=True)]
    by_prompt = {problem.prompt: problem for problem in task.problems("train")[:256]}
    verdicts = []
    for text in texts:
        prompt, _, completion = text.partition("<think>")
        verdicts.append(task.verify(by_prompt[prompt], completion).correct)
    assert 0.05 < sum(verdicts) / len(verdicts) < 0.25  # .5^3


def test_a_task_that_the_policy_cannot_write_is_refused(tmp_path: Path) -> None:
    digits = replace(SMALL, model=replace(SMALL.model, characters="0123456789=;"))
    with pytest.raises(InputError, match=r"characters that the policy cannot write: got '\+'"):
        warm_start(digits, tmp_path)


def test_a_trace_beyond_the_context_is_refused() -> None:
    with pytest.raises(InputError, match="tokens of a prompt with its trace: got 11; allowed: at most the context of"):
        encode(character_tokenizer(context=10), ["1+2=3+4="], ["12"])


@pytest.mark.parametrize(
    "model", [SMALL.model, TinyMoe(width=16, layers=1, heads=2, feed_forward=16)], ids=["llama", "moe"]
)
def test_it_learns(tmp_path: Path, model: Any) -> None:
    seen: list[Progress] = []
    folder = warm_start(replace(SMALL, model=model, steps=60, batch=16), tmp_path, seen.append)
    assert [progress.step for progress in seen] == list(range(1, 61))
    assert seen[-1].loss < 0.6 * seen[0].loss
    assert seen[-1].num_tokens > seen[0].num_tokens > 0
    assert AutoModelForCausalLM.from_pretrained(folder).config.vocab_size == len(AutoTokenizer.from_pretrained(folder))


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    one, same = warm_start(SMALL, tmp_path / "a"), warm_start(SMALL, tmp_path / "b")
    assert one.name == same.name
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(same)[name])
    other = warm_start(replace(SMALL, seed=1), tmp_path / "a")
    assert not torch.equal(weights(one)["lm_head.weight"], weights(other)["lm_head.weight"])


def test_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = warm_start(SMALL, tmp_path)
    monkeypatch.setattr(sft, "_train", lambda *_: pytest.fail("trained again"))
    assert warm_start(SMALL, tmp_path) == folder
    record = json.loads((folder / sft.MARKER).read_text())
    assert record["settings"]["task"]["largest"] == 9
    assert record["settings"]["wrong_steps"] == 0.35
    assert record["measured"]["num_tokens"] > 0
    assert record["versions"]["torch"] == torch.__version__


CHANGES: dict[str, Any] = {
    "steps": 13,
    "batch": 9,
    "learning_rate": 2e-2,
    "wrong_steps": 0.1,
    "seed": 1,
    "task": {"kind": "chained_sums", "numbers": 2, "largest": 8, "held_out_problems": 1},
    "model": TinyLlama(width=32, layers=1, heads=2, feed_forward=32),
    "portable": True,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_setting_has_a_cache_of_its_own(name: str) -> None:
    assert warm_start_digest(replace(SMALL, **{name: CHANGES[name]})) != warm_start_digest(SMALL)


def test_the_same_task_in_other_words_shares_the_cache() -> None:
    by_name = WarmStart(task="chained_sums")
    assert warm_start_digest(by_name) == warm_start_digest(WarmStart(task={"kind": "chained_sums", "numbers": 4}))
    evaluated_on_less = WarmStart(task={"kind": "chained_sums", "held_out_problems": 7})
    assert warm_start_digest(by_name) == warm_start_digest(evaluated_on_less)


@pytest.mark.parametrize("moment", ["training", "saving"])
def test_an_interrupted_run_leaves_no_half_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "saving":
            patch.setattr(sft, "_record", interrupt)  # the weights are written by then, the marker is not
        with pytest.raises(KeyboardInterrupt):
            warm_start(SMALL, tmp_path, interrupt if moment == "training" else None)
    assert list(tmp_path.iterdir()) == []
    assert (warm_start(SMALL, tmp_path) / sft.MARKER).is_file()


def test_a_process_that_was_killed_while_saving_does_no_harm(tmp_path: Path) -> None:
    dead = tmp_path / f"{warm_start_digest(SMALL)}.abc.partial"
    dead.mkdir()
    (dead / "model.safetensors").write_bytes(b"half")
    folder = warm_start(SMALL, tmp_path)
    assert weights(folder)
    assert dead.exists()  # it may belong to a process that is alive


def test_a_faster_process_wins(tmp_path: Path) -> None:
    """Both train, the second finds the folder there when it wants to rename its own, and takes it."""
    elsewhere = warm_start(SMALL, tmp_path / "other")

    def meanwhile(progress: Progress) -> None:
        if progress.step == progress.steps:
            elsewhere.rename(tmp_path / "cache" / elsewhere.name)

    folder = warm_start(SMALL, tmp_path / "cache", meanwhile)
    assert list((tmp_path / "cache").iterdir()) == [folder]
    assert (folder / sft.MARKER).is_file()


def test_a_strange_folder_is_not_overwritten(tmp_path: Path) -> None:
    strange = tmp_path / warm_start_digest(SMALL)
    strange.mkdir()
    (strange / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"a folder that is no warm start; allowed: one with warm_start.json, or none"):
        warm_start(SMALL, tmp_path)
    assert (strange / "notes.txt").read_text() == "mine"


def test_a_cache_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the folder cannot be made"):
        warm_start(SMALL, tmp_path / "file" / "cache", lambda _: pytest.fail("trained first"))


def test_a_run_that_diverges_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"diverged at step \d+; warm_start.learning_rate: got 1e\+30"):
        warm_start(replace(SMALL, learning_rate=1e30), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        assert warm_start(SMALL, tmp_path).stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"steps": 0}, "warm_start.steps: got 0"),
        ({"batch": 0}, "warm_start.batch: got 0"),
        ({"learning_rate": 0.0}, "warm_start.learning_rate: got 0.0"),
        ({"learning_rate": float("nan")}, "warm_start.learning_rate: got nan"),
        ({"wrong_steps": 1.0}, "warm_start.wrong_steps: got 1.0"),
    ],
    ids=str,
)
def test_impossible_settings(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(SMALL, **change)
    assert part in str(caught.value)


def test_a_task_without_traces_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"prompt": "p{i}", "answer": 1}}\n' for i in range(40)))
    with pytest.raises(InputError, match="no solution traces"):
        warm_start(replace(SMALL, task=str(path)), tmp_path)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None if name == "tokenizers" else object())
        with pytest.raises(MissingDependencyError, match=r"'tokenizers': pip install 'scalerl\[train\]'"):
            reload(scalerl.policy)
    reload(scalerl.policy)
