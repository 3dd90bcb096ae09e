"""The policy of a run: built, warmed up, cached or read, and every way in which one can be unusable."""

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from scalerl.config import RunConfig, load_run
from scalerl.errors import InputError
from scalerl.policy import Progress, TinyLlama, build_policy
from scalerl.policy.load import default_cache, load_policy, read_policy
from scalerl.policy.text import encode_phrase, encode_prompt, end_of_text

SMALL = [
    "scale.model.layers=1", "scale.model.width=16", "scale.model.heads=2", "scale.model.feed_forward=24",
    "scale.warm_start.steps=3", "scale.warm_start.batch=4", "scale.task.train_problems=30",
    "scale.evaluation.problems=5",
]  # fmt: skip


def small(*overrides: str, warm: bool = False) -> RunConfig:
    keys = [key for key in SMALL if warm or "warm_start" not in key]
    return load_run(overrides=[*keys, *([] if warm else ['scale.warm_start.kind="none"']), *overrides]).config


def pretrained(folder: Path | str, *overrides: str) -> RunConfig:
    model = f"scale.model={{source='pretrained', name='{folder}', dtype='float32'}}"
    return load_run(overrides=[model, 'scale.warm_start.kind="none"', *overrides]).config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_policy(tmp_path / "policy", TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=64))


def test_a_small_policy_has_the_sizes_and_the_context_of_the_run(tmp_path: Path) -> None:
    run = small()
    loaded = load_policy(run, tmp_path)
    config = loaded.model.config
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("llama", 1, 16)
    assert config.max_position_embeddings == run.scale.tokens.context == 58
    assert loaded.folder.parent == tmp_path


def test_a_mixture_of_experts(tmp_path: Path) -> None:
    model = "scale.model={source='moe', layers=1, width=16, heads=2, feed_forward=8, experts=4, experts_per_token=2, "
    run = load_run(overrides=[model + "tied=false, dtype='float32'}", 'scale.warm_start.kind="none"']).config
    config = load_policy(run, tmp_path).model.config
    assert (config.model_type, config.num_local_experts, config.num_experts_per_tok) == ("mixtral", 4, 2)


def test_random_weights_are_those_of_the_seed(tmp_path: Path) -> None:
    first, again, other = (
        load_policy(small(f"seed={seed}"), tmp_path / name).model.lm_head.weight
        for seed, name in ((0, "a"), (0, "b"), (1, "a"))
    )
    assert first.equal(again)
    assert not first.equal(other)


def test_a_warm_start_is_trained_once(tmp_path: Path) -> None:
    heard: list[Progress] = []
    first = load_policy(small(warm=True), tmp_path, heard.append)
    assert len(heard) == 3
    again = load_policy(small(warm=True), tmp_path, heard.append)
    assert len(heard) == 3
    assert first.folder == again.folder
    assert (first.folder / "warm_start.json").is_file()
    settings = json.loads((first.folder / "warm_start.json").read_text())["settings"]
    assert (settings["steps"], settings["batch"], settings["seed"], settings["task"]["numbers"]) == (3, 4, 0, 5)
    assert load_policy(small("seed=1", warm=True), tmp_path).folder != first.folder


def test_the_dtype_of_the_run(tmp_path: Path) -> None:
    loaded = load_policy(small('scale.model.dtype="bfloat16"'), tmp_path)
    assert loaded.model.dtype == torch.bfloat16
    assert read_policy(loaded.folder, "float32").dtype == torch.float32


def test_any_folder_of_a_causal_lm(folder: Path) -> None:
    loaded = load_policy(pretrained(folder))
    assert loaded.folder == folder
    assert loaded.model.get_output_embeddings().weight.equal(read_policy(folder, "float32").lm_head.weight)
    assert loaded.tokenizer.decode([*encode_prompt(loaded.tokenizer, "1+2=")]) == "1+2="


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tokenizer*", "a model folder without tokenizer; allowed: tokenizer.json in it"),
        ("config.json", "a model folder without config.json; allowed: a Hugging Face causal LM"),
        ("model.safetensors", "a model folder without weights; allowed: *.safetensors in it"),
    ],
)
def test_a_folder_that_lacks_something(folder: Path, missing: str, message: str) -> None:
    for file in folder.glob(missing):
        file.unlink()
    with pytest.raises(InputError) as caught:
        load_policy(pretrained(folder))
    assert str(caught.value) == f"{folder}: {message}"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", "no weights", "the policy cannot be read"),
        ("config.json", "{", "cannot be read"),
        ("config.json", '{"model_type": "nonsense"}', "cannot be read"),
        ("tokenizer.json", "{}", "the tokenizer cannot be read"),
    ],
)
def test_a_folder_with_something_broken(folder: Path, file: str, content: str, message: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        load_policy(pretrained(folder))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder))


@pytest.mark.parametrize("name", ["./nowhere", "a/b/c", "bad name!"])
def test_a_name_that_is_no_folder_and_cannot_be_on_a_hub(name: str) -> None:
    with pytest.raises(InputError, match=r"scale\.model\.name.*got .*; allowed: a folder that exists"):
        load_policy(pretrained(name))


def test_a_name_that_the_hub_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no such host\nand a second line")

    monkeypatch.setattr("scalerl.policy.pretrained.snapshot_download", fail)
    with pytest.raises(InputError) as caught:
        load_policy(pretrained("nobody/nothing"))
    assert str(caught.value) == (
        "scale.model.name (no such host): got 'nobody/nothing'; "
        "allowed: a folder that exists, or a name on a hub that can be reached"
    )


def test_a_download_is_used_and_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.policy.pretrained.snapshot_download", lambda *_, **__: str(folder))
    assert load_policy(pretrained("somebody/policy")).folder == folder
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="a model folder without weights"):
        load_policy(pretrained("somebody/policy"))


def test_a_context_that_is_too_small(folder: Path) -> None:
    run = pretrained(folder, "scale.tokens.answer=15")
    with pytest.raises(InputError, match=r"prompt \+ thinking \+ answer: got 65; .* context of the policy, 64"):
        load_policy(run)


def test_an_interruption_phrase_that_leaves_no_room_for_an_answer(tmp_path: Path) -> None:
    load_policy(small('scale.tokens.interruption_phrase=";;</think>"', "scale.tokens.answer=4"), tmp_path)
    run = small('scale.tokens.interruption_phrase=";;</think>"', "scale.tokens.answer=3")
    with pytest.raises(InputError, match=r"tokens of the interruption phrase .* got 3; allowed: less than 3"):
        load_policy(run, tmp_path)


def test_an_interruption_phrase_that_cannot_be_written(tmp_path: Path) -> None:
    run = small('scale.tokens.interruption_phrase="stop </think>"')
    with pytest.raises(InputError, match="a phrase with characters that the policy cannot write, 'stop </think>'"):
        load_policy(run, tmp_path)


def test_a_tokenizer_without_an_end_of_text_token(folder: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (file := folder / name).is_file():
            file.write_text(json.dumps({k: v for k, v in json.loads(file.read_text()).items() if k != "eos_token"}))
    with pytest.raises(InputError, match="the tokenizer has no end-of-text token"):
        load_policy(pretrained(folder))


def test_a_pretrained_policy_is_not_warmed_up(folder: Path) -> None:
    model = f"scale.model={{source='pretrained', name='{folder}', dtype='float32'}}"
    with pytest.raises(InputError, match=r"scale\.warm_start\.kind: got 'sft'; allowed: none"):
        load_policy(load_run(overrides=[model]).config)


@pytest.fixture
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return loaded


def test_text_as_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert tokenizer.convert_ids_to_tokens(list(encode_prompt(tokenizer, "1+2="))) == ["1", "+", "2", "="]
    assert tokenizer.convert_ids_to_tokens(list(encode_phrase(tokenizer, "</think>"))) == ["</think>"]
    assert end_of_text(tokenizer) == tokenizer.convert_tokens_to_ids("<eos>")
    with pytest.raises(InputError, match="a prompt with characters that the policy cannot write, 'x\\?': got 'x"):
        encode_prompt(tokenizer, "x?")


def test_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SCALERL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "scalerl"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "scalerl"
    monkeypatch.setenv("SCALERL_CACHE", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own"
    assert load_policy(small()).folder.parent == tmp_path / "own"


def test_a_shared_warm_start_is_that_of_seed_0(tmp_path: Path) -> None:
    own = load_policy(small(warm=True), tmp_path).folder
    shared = [load_policy(small(f"seed={seed}", "scale.warm_start.shared=true", warm=True), tmp_path).folder
              for seed in (0, 1)]  # fmt: skip
    assert shared == [own, own]
