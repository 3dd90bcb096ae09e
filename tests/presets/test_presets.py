"""Every shipped preset is a test case: it loads, leaves no value out, and says on each line where the value is from."""

from __future__ import annotations

import re
import tomllib

import pytest

from scalerl import presets
from scalerl.config import RecipeConfig, digest, flatten, load_run

RECIPES, SCALES = presets.names("recipe"), presets.names("scale")
FILES: list[tuple[presets.Kind, str]] = [*(("recipe", n) for n in RECIPES), *(("scale", n) for n in SCALES)]
PROVENANCE = re.compile(r"  # (paper|inferred|ours): \S.+$")
EVERY_FILE = pytest.mark.parametrize(("kind", "name"), FILES)


def value_lines(kind: presets.Kind, name: str) -> list[str]:
    lines = presets.read(kind, name).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def origin(kind: presets.Kind, name: str, key: str) -> str:
    (line,) = (line for line in value_lines(kind, name) if line.startswith(f"{key} = "))
    match = PROVENANCE.search(line)
    assert match is not None
    return match[1]


def test_the_named_presets_are_there() -> None:
    named = "base deepseek_grpo dr_grpo gspo magistral minimax_m1 qwen_dapo scalerl"
    assert named.split() == RECIPES
    assert SCALES == ["laptop", "paper_8b", "study"]


@EVERY_FILE
def test_every_line_says_where_its_value_comes_from(kind: presets.Kind, name: str) -> None:
    assert [line for line in value_lines(kind, name) if not PROVENANCE.search(line)] == []


@EVERY_FILE
def test_a_preset_opens_by_saying_what_it_is(kind: presets.Kind, name: str) -> None:
    assert presets.read(kind, name).startswith("# ")


@EVERY_FILE
def test_no_value_is_left_to_a_default(kind: presets.Kind, name: str) -> None:
    config = load_run(name, "laptop").config if kind == "recipe" else load_run("scalerl", name).config
    stated = {line.split(" = ")[0] for line in value_lines(kind, name)}
    prefix = f"{kind}."
    keys = {key.removeprefix(prefix) for key in flatten(config) if key.startswith(prefix)}
    sets = {key for key in stated if key.startswith("evaluation.downstream.")}  # tables that say what differs
    assert stated == {next((one for one in sets if key.startswith(f"{one}.")), key) for key in keys}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("scale", SCALES)
def test_every_recipe_runs_at_every_scale(recipe: str, scale: str) -> None:
    config = load_run(recipe, scale).config
    assert isinstance(config.recipe, RecipeConfig)
    assert config.length is not None
    assert digest(config) == digest(load_run(recipe, scale).config)


def test_no_two_presets_are_the_same() -> None:
    digests = {digest(load_run(recipe, scale).config) for recipe in RECIPES for scale in SCALES}
    assert len(digests) == len(RECIPES) * len(SCALES)


@EVERY_FILE
def test_a_recipe_says_nothing_of_sizes_and_a_scale_nothing_of_the_algorithm(kind: presets.Kind, name: str) -> None:
    other = flatten(load_run().config)
    mine = tomllib.loads(presets.read(kind, name))
    foreign = "scale" if kind == "recipe" else "recipe"
    assert not mine.keys() & {key.split(".")[1] for key in other if key.startswith(f"{foreign}.")}


@pytest.mark.parametrize(
    ("recipe", "surrogate", "clip", "aggregation", "head", "asynchrony", "zero_variance"),
    [  # the table of comparison recipes in the paper
        ("deepseek_grpo", "ppo_clip", (0.2, 0.2), "sample", False, ("ppo_off_policy", 8), "keep"),
        ("qwen_dapo", "ppo_clip", (0.2, 0.26), "prompt", False, ("ppo_off_policy", 8), "drop"),
        ("magistral", "ppo_clip", (0.2, 0.26), "prompt", False, ("pipeline", 8), "drop"),
        ("minimax_m1", "cispo", (None, None), "prompt", True, ("ppo_off_policy", 8), "drop"),
        ("scalerl", "cispo", (None, None), "prompt", True, ("pipeline", 8), "drop"),
        ("base", "ppo_clip", (0.2, 0.26), "sample", False, ("ppo_off_policy", 8), "keep"),
        ("gspo", "gspo", (0.003, 0.004), "sample", False, ("ppo_off_policy", 8), "keep"),
    ],
)
def test_the_comparison_table(
    recipe: str,
    surrogate: str,
    clip: tuple[float | None, float | None],
    aggregation: str,
    head: bool,
    asynchrony: tuple[str, int],
    zero_variance: str,
) -> None:
    flat = flatten(load_run(recipe).config)
    assert flat["recipe.loss.surrogate"] == surrogate
    assert (flat.get("recipe.loss.clip_low"), flat.get("recipe.loss.clip_high")) == clip
    assert flat["recipe.aggregation"] == aggregation
    assert flat["recipe.precision.fp32_head_trainer"] is flat["recipe.precision.fp32_head_generator"] is head
    assert (flat["recipe.asynchrony.kind"], flat["recipe.asynchrony.k"]) == asynchrony
    assert flat["recipe.zero_variance"] == zero_variance


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        ("recipe", "scalerl", "loss.cap"),
        ("recipe", "scalerl", "advantage.std_over"),
        ("recipe", "scalerl", "curriculum.history"),
        ("scale", "paper_8b", "optimiser.betas"),
        ("scale", "paper_8b", "optimiser.grad_clip"),
        ("scale", "paper_8b", "sampling.temperature"),
        ("scale", "paper_8b", "model.name"),
    ],
)
def test_what_the_paper_does_not_state_is_marked_as_ours(kind: presets.Kind, name: str, key: str) -> None:
    assert origin(kind, name, key) == "ours"


@pytest.mark.parametrize(
    ("name", "key"), [("scalerl", "truncated"), ("minimax_m1", "asynchrony.kind"), ("magistral", "zero_variance")]
)
def test_what_is_inferred_is_marked_so(name: str, key: str) -> None:
    assert origin("recipe", name, key) == "inferred"


def test_the_paper_scale_has_the_papers_numbers() -> None:
    scale = load_run("scalerl", "paper_8b").config.scale
    assert (scale.batch.prompts, scale.batch.rollouts) == (48, 16)
    assert (scale.tokens.thinking, scale.tokens.answer, scale.tokens.prompt) == (12288, 2048, 2048)
    optimiser = scale.optimiser
    assert (optimiser.learning_rate, optimiser.eps, optimiser.weight_decay) == (5e-7, 1e-15, 0.01)
    assert optimiser.warmup_steps == 100
    assert (scale.evaluation.every, scale.evaluation.problems, scale.evaluation.samples) == (100, 1000, 16)
