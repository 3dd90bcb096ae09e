"""Layers: who wins, what a changed tag does, where a value came from; patch, diff, digest and JSON as inverses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalerl import presets
from scalerl.config import RunConfig, diff, digest, flatten, from_json, load_run, patch, to_dict, to_json
from scalerl.config.layers import parse_override
from scalerl.config.recipe import Cispo, Gspo
from scalerl.errors import InputError

BASE = load_run().config


def test_without_anything_it_is_the_two_presets() -> None:
    resolved = load_run("qwen_dapo", "laptop")
    assert resolved.changes == {}
    assert resolved.config == resolved.preset
    assert resolved.origins["recipe.loss.clip_high"] == "recipe preset qwen_dapo"
    assert resolved.origins["scale.batch.prompts"] == "scale preset laptop"


def test_later_layers_win_and_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("seed = 3\n[scale.batch]\nprompts = 4\nrollouts = 8\n", encoding="utf-8")
    resolved = load_run(file=file, overrides=["scale.batch.rollouts=2", "recipe.loss.cap=8"])
    assert resolved.changes == {
        "recipe.loss.cap": (5.0, 8.0),
        "scale.batch.prompts": (16, 4),
        "scale.batch.rollouts": (16, 2),
        "seed": (0, 3),
    }
    assert resolved.origins["scale.batch.prompts"] == str(file)
    assert resolved.origins["scale.batch.rollouts"] == "--set scale.batch.rollouts=2"


def test_the_example_of_the_issue() -> None:
    resolved = load_run("qwen_dapo", "laptop", overrides=["recipe.loss.clip_high=0.28"])
    assert resolved.changes == {"recipe.loss.clip_high": (0.26, 0.28)}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_changed_tag_replaces_its_table_whatever_the_order_of_overrides(reverse: bool) -> None:
    overrides = ["recipe.loss.surrogate=gspo", "recipe.loss.clip_low=0.002"]
    config = load_run(overrides=overrides[::-1] if reverse else overrides).config
    assert config.recipe.loss == Gspo(surrogate="gspo", clip_low=0.002, clip_high=4e-3)  # 4e-3: the variant's default


def test_naming_the_same_tag_again_keeps_the_table() -> None:
    config = load_run(overrides=["recipe.loss.cap=8"]).config
    again = patch(config, {"recipe.loss.surrogate": "cispo"})
    assert again.recipe.loss == Cispo(surrogate="cispo", cap=8.0)


def test_a_recipe_or_scale_can_be_a_file_of_ones_own(tmp_path: Path) -> None:
    from scalerl import presets

    file = tmp_path / "mine.toml"
    file.write_text(presets.read("recipe", "base").replace("k = 8", "k = 2"), encoding="utf-8")
    resolved = load_run(str(file))
    assert diff(load_run("base").config, resolved.config) == {"recipe.asynchrony.k": (8, 2)}
    assert resolved.origins["recipe.asynchrony.k"] == str(file)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=0.28", 0.28),
        ("a.b=.28", 0.28),
        ("a.b=-1e-3", -1e-3),
        ("a.b = 7", 7),
        ("a.b=true", True),
        ("a.b=sample", "sample"),
        ('a.b="two words"', "two words"),
        ("a.b=data/polaris-53k.jsonl", "data/polaris-53k.jsonl"),
        ("a.b=[0.9, 0.95]", [0.9, 0.95]),
        ("a.b={k = 2}", {"k": 2}),
        ("a.b=x=y", None),
        ("a.b=two words", None),
        ("a.b=", None),
        ("a.b", None),
        ("=1", None),
        ("a.b=1\nc=2", None),
    ],
)
def test_override_values_are_toml_and_single_words_need_no_quotes(text: str, value: object) -> None:
    if value is None:
        with pytest.raises(InputError, match="--set"):
            parse_override(text)
    else:
        assert parse_override(text) == (("a", "b"), value)


def test_patch_changes_only_what_it_names() -> None:
    patched = patch(BASE, {"recipe.zero_variance": "keep", "scale.batch": {"prompts": 2}})
    assert diff(BASE, patched) == {"recipe.zero_variance": ("drop", "keep"), "scale.batch.prompts": (16, 2)}
    assert BASE.recipe.zero_variance == "drop"


def test_diff_shows_keys_that_exist_on_one_side_only() -> None:
    changes = diff(BASE, patch(BASE, {"recipe.loss.surrogate": "reinforce"}))
    assert changes == {"recipe.loss.surrogate": ("cispo", "reinforce"), "recipe.loss.cap": (5.0, None)}


PRESETS = st.sampled_from(["scalerl", "base", "deepseek_grpo", "qwen_dapo", "magistral", "minimax_m1", "gspo"])


@settings(max_examples=20, deadline=None)
@given(PRESETS, PRESETS, st.sampled_from(["laptop", "paper_8b"]), st.sampled_from(["laptop", "paper_8b"]))
def test_patching_with_a_diff_gives_the_other_config(first: str, second: str, small: str, large: str) -> None:
    old, new = load_run(first, small).config, load_run(second, large).config
    assert patch(old, {key: value for key, (_, value) in diff(old, new).items() if value is not None}) == new
    assert (digest(old) == digest(new)) == (old == new)


def test_json_brings_the_config_back() -> None:
    config = load_run("gspo", "paper_8b", overrides=["seed=7"]).config
    assert from_json(to_json(config)) == config
    assert digest(from_json(to_json(config))) == digest(config)


def test_a_broken_saved_config_is_one_error_with_its_file() -> None:
    with pytest.raises(InputError, match=r"^run/config.json: not JSON"):
        from_json("{", "run/config.json")
    with pytest.raises(InputError, match=r"^run/config.json: the config: got \[1\]"):
        from_json("[1]", "run/config.json")
    broken = to_dict(BASE) | {"seed": "seven"}
    with pytest.raises(InputError, match=r"^run/config.json: seed: got 'seven'; allowed: a whole number"):
        from_json(json.dumps(broken), "run/config.json")


def test_digest_ignores_spelling_and_key_order_but_no_value() -> None:
    spelled = load_run(overrides=["recipe.loss.cap=5"]).config  # an integer where the preset has 5.0
    assert digest(spelled) == digest(BASE)
    backwards = dict(reversed(to_dict(BASE).items()))
    assert digest(RunConfig.model_validate(backwards | {"scale": to_dict(BASE)["scale"]})) == digest(BASE)
    gym: dict[str, object] = {
        "scale.warm_start.kind": "none",
        "scale.task.kind": "reasoning_gym",
        "scale.task.dataset": "x",
    }
    gym |= {"scale.task.train_problems": 10}
    options = {"scale.task.options.a": 1, "scale.task.options.b": 2}
    first, second = (patch(BASE, gym | dict(order)) for order in (options.items(), reversed(options.items())))
    assert digest(first) == digest(second)
    digests = {digest(patch(BASE, {key: value})) for key, value in [("seed", 1), ("recipe.loss.cap", 5.0000001)]}
    assert len(digests | {digest(BASE)}) == 3


def test_digest_is_the_same_in_another_process() -> None:
    code = "from scalerl.config import digest, load_run; print(digest(load_run().config))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert done.stdout.strip() == digest(BASE)
    assert len(digest(BASE)) == 64


def test_flatten_lists_every_leaf_with_its_default() -> None:
    flat = flatten(load_run("base").config)
    assert flat["recipe.asynchrony.k"] == 8
    assert flat["scale.optimiser.betas"] == [0.9, 0.999]
    assert flat["seed"] == 0
    assert not any(isinstance(value, dict) for value in flat.values())


@pytest.mark.parametrize("recipe", presets.names("recipe"))
@pytest.mark.parametrize("scale", presets.names("scale"))
def test_diff_is_what_differs_key_by_key_in_the_order_of_the_config(recipe: str, scale: str) -> None:
    """But for keys that are not written at their default, of which the next test tells."""
    other = load_run(recipe, scale).config
    before, after = flatten(BASE), flatten(other)
    keys = [*before, *(key for key in after if key not in before)]
    differing = {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
    found = diff(BASE, other)
    silent = {"scale.evaluation.by"} & found.keys()
    assert [item for item in found.items() if item[0] not in silent] == [
        item for item in differing.items() if item[0] not in silent
    ]


def test_diff_knows_the_default_of_a_key_that_is_not_written() -> None:
    """A key that came later is left out at its default; it is there all the same, and a patch can bring it back."""
    local = patch(BASE, {"scale.launcher.kind": "local"})
    changed = patch(local, {"scale.evaluation.by": "generators"})
    assert diff(local, changed) == {"scale.evaluation.by": ("trainer", "generators")}
    assert diff(changed, local) == {"scale.evaluation.by": ("generators", "trainer")}
    assert "scale.evaluation.by" not in flatten(local)
