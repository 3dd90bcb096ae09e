"""Bad configs: one line each, with the dotted key, the value, what is allowed, and the place it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.config import load_run, patch
from scalerl.errors import InputError

MOE = (
    "scale.model={source='moe', layers=1, width=64, heads=4, feed_forward=64, experts=4, experts_per_token=2, "
    "tied=false, dtype='float32'}"
)


def refused(*overrides: str, recipe: str = "scalerl", scale: str = "laptop", file: Path | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        load_run(recipe, scale, file=file, overrides=overrides)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("override", "key", "value", "allowed"),
    [
        ("recipe.loss.cap=-1", "recipe.loss.cap", -1, "a number above 0"),
        ("recipe.loss.cap=high", "recipe.loss.cap", "high", "a number above 0"),
        ("recipe.loss.cap=inf", "recipe.loss.cap", float("inf"), "a number above 0"),
        ("recipe.loss.cap=true", "recipe.loss.cap", True, "a number above 0"),
        ("recipe.loss=4", "recipe.loss", 4, "a table with surrogate = cispo, ppo_clip, gspo, reinforce"),
        ("recipe.loss.surrogate=ppo", "recipe.loss.surrogate", "ppo", "cispo, ppo_clip, gspo, reinforce"),
        ("recipe.aggregation=tokens", "recipe.aggregation", "tokens", "prompt, sample, token"),
        ("recipe.kl_coefficient=-0.1", "recipe.kl_coefficient", -0.1, "a number at least 0"),
        ("recipe.precision.fp32_head_trainer=1", "recipe.precision.fp32_head_trainer", 1, "true or false"),
        ("recipe.length.high_share=1.2", "recipe.length.high_share", 1.2, "a number above 0 and at most 1"),
        ("recipe.asynchrony.k=2.5", "recipe.asynchrony.k", 2.5, "a whole number at least 0"),
        ("recipe.curriculum.threshold=0", "recipe.curriculum.threshold", 0, "a number above 0 and at most 1"),
        ("scale.batch.rollouts=1", "scale.batch.rollouts", 1, "a whole number at least 2"),
        ("scale.optimiser.betas=[0.9]", "scale.optimiser.betas", [0.9],
         "a list of 2 numbers, each at least 0 and below 1"),
        ("scale.optimiser.betas=[0.9, 1]", "scale.optimiser.betas", [0.9, 1],
         "a list of 2 numbers, each at least 0 and below 1"),
        ("scale.launcher.kind=slurm", "scale.launcher.kind", "slurm", "inline, local, ray"),
        ("seed=-1", "seed", -1, "a whole number at least 0 and below 9223372036854775808"),
    ],
)  # fmt: skip
def test_a_wrong_value(override: str, key: str, value: object, allowed: str) -> None:
    error = refused(override)
    assert (error.what, error.value, error.allowed, error.where) == (key, value, allowed, f"--set {override}")


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("recipe.loss.capp=3", "unknown key recipe.loss.capp, did you mean recipe.loss.cap?"),
        ("recipe.los.cap=3", "unknown key recipe.los, did you mean recipe.loss?"),
        ("loss.cap=3", "unknown key loss, did you mean recipe.loss?"),
        ("scale.warmup_steps=1", "unknown key scale.warmup_steps, did you mean scale.optimiser.warmup_steps?"),
        ("scale.gradclip=1", "unknown key scale.gradclip, did you mean scale.optimiser.grad_clip?"),
        ("learning_rate=1e-4", ("unknown key learning_rate, did you mean "
         "scale.warm_start.learning_rate or scale.optimiser.learning_rate?")),
        ("recipe.loss.clip_low=0.1", "unknown key recipe.loss.clip_low (it belongs to surrogate = ppo_clip, gspo)"),
        ("scale.model.name=x", "unknown key scale.model.name (it belongs to source = pretrained)"),
        ("zzz=1", "unknown key zzz"),
    ],
)  # fmt: skip
def test_an_unknown_key_names_the_closest(override: str, what: str) -> None:
    error = refused(override)
    assert error.what == what
    assert error.where == f"--set {override}"


def test_an_unknown_key_lists_those_that_exist() -> None:
    assert refused("scale.batch.size=3").allowed == "prompts, rollouts in scale.batch"
    assert refused("sed=3").allowed == "recipe, scale, seed in a run"


@pytest.mark.parametrize(
    ("overrides", "key", "allowed"),
    [
        (["recipe.loss.surrogate=ppo_clip", "recipe.loss.clip_low=1.0"], "recipe.loss.clip_low",
         "a number above 0 and below 1"),
        (["recipe.asynchrony.kind=ppo_off_policy", "recipe.asynchrony.k=0"], "recipe.asynchrony.k",
         "a whole number at least 1"),
        (["recipe.length.low_share=0.9", "recipe.length.high_share=0.5"], "recipe.length.low_share",
         "at most high_share, 0.5"),
        (["recipe.length.low_share=0.01", "scale.tokens.thinking=20"], "recipe.length.low_share",
         "a share that leaves at least one token of scale.tokens.thinking, 20"),
        (["recipe.length={kind='penalty', cache_share=0.01}", "scale.tokens.thinking=20"], "recipe.length.cache_share",
         "a share that leaves at least one token of scale.tokens.thinking + scale.tokens.answer, 28"),
        (["recipe.length={kind='penalty', max_share=0.1}"], "recipe.length.cache_share", "at most max_share, 0.1"),
        (["recipe.reward.correct=-1"], "recipe.reward.correct", "more than reward.wrong, -1"),
        (["scale.model.heads=3"], "scale.model.heads",
         "a number for which width / heads is even (width is 64)"),
        (["scale.trainer.micro_batch_tokens=57"], "scale.trainer.micro_batch_tokens",
         "at least one whole sequence (tokens.prompt + thinking + answer), 58"),
        (["scale.task.fewest_numbers=6"], "scale.task.fewest_numbers", "0, or 2 to numbers, 5"),
        (["scale.task={kind='countdown', numbers=3, largest=200, train_problems=9}"], "scale.task.largest_target",
         "at least largest, 200"),
        (["scale.budget.amount=1.5"], "scale.budget.amount", "a whole number of steps"),
        (["scale.task={kind='file', path='x.jsonl'}"], "scale.warm_start.kind",
         "none, because the task file brings no solution traces"),
        ([MOE.replace("per_token=2", "per_token=5")], "scale.model.experts_per_token", "at most experts, 4"),
    ],
)  # fmt: skip
def test_an_impossible_combination(overrides: list[str], key: str, allowed: str) -> None:
    error = refused(*overrides)
    assert (error.what, error.allowed) == (key, allowed)


def test_both_sources_of_a_clash_are_named() -> None:
    error = refused("recipe.length.high_share=0.5")
    assert error.where == "recipe preset scalerl and --set recipe.length.high_share=0.5"


@pytest.mark.parametrize(
    "overrides",
    [
        ["recipe.asynchrony.k=0"],  # PipelineRL-0 is synchronous
        ["recipe.loss.surrogate=reinforce"],  # zero-variance groups dropped, REINFORCE: fine together
        [
            "recipe.loss.surrogate=gspo",
            "recipe.aggregation=token",
        ],  # weighs rollouts by their tokens
        ["scale.trainer.micro_batch_tokens=58"],
        [MOE],
        ["recipe.length.low_share=0.5", "recipe.length.high_share=0.5"],
    ],
)
def test_unusual_but_possible(overrides: list[str]) -> None:
    assert load_run(overrides=overrides).changes


def test_a_missing_key_says_what_it_should_be() -> None:
    error = refused("scale.model={source='moe'}")
    assert (error.what, error.allowed) == ("missing key scale.model.layers", "a whole number at least 1")
    assert error.value is None


def test_a_misspelt_key_is_named_rather_than_the_missing_one(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("agregation = 'prompt'\n", encoding="utf-8")
    error = refused(recipe=str(recipe))
    assert error.what == "unknown key recipe.agregation, did you mean recipe.aggregation?"
    assert error.where == str(recipe)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[scale.batch]\nprompts = 'many'\n", encoding="utf-8")
    error = refused(file=file)
    assert str(error) == f"{file}: scale.batch.prompts: got 'many'; allowed: a whole number at least 1"
    file.write_text("seed = \n", encoding="utf-8")
    assert "line 1" in str(refused(file=file))
    file.write_bytes(b"\xff\xfe")
    assert refused(file=file).what == "not UTF-8 text"
    assert "No such file" in str(refused(file=tmp_path / "none.toml"))


def test_an_unknown_preset_names_the_closest_and_all() -> None:
    error = refused(recipe="scalrl")
    assert error.what == "unknown recipe preset, did you mean scalerl?"
    assert error.allowed is not None
    assert "qwen_dapo" in error.allowed


def test_a_long_value_is_cut_off() -> None:
    error = refused(f'recipe.aggregation="{"x" * 500}"')
    assert isinstance(error.value, str)
    assert len(error.value) < 100


def test_a_bad_patch_is_refused_like_everything_else() -> None:
    with pytest.raises(InputError, match=r"the patch: recipe.aggregation: got 'all'; allowed: prompt, sample, token"):
        patch(load_run().config, {"recipe.aggregation": "all"})
