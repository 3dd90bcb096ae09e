"""The models: frozen, documented field by field, and no field that TOML could not say."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from scalerl.config import RunConfig, load_run
from scalerl.config.schema import allowed, every_key, field_at, tagged_tables, variants

ALL = list(every_key(RunConfig))
"""A key that several variants have is here once for each."""
KEYS = dict(ALL)


def test_every_field_of_every_variant_has_a_docstring() -> None:
    assert [key for key, field in ALL if not field.description] == []
    assert "Absolute cap on the importance ratio" in str(KEYS["recipe.loss.cap"].description)


def test_no_field_may_be_none() -> None:
    # TOML cannot say None, and `diff` uses it for a key that does not exist
    assert [key for key, field in ALL if type(None) in get_args(field.annotation)] == []


def test_every_model_is_frozen_and_refuses_unknown_keys() -> None:
    models: set[type[BaseModel]] = {RunConfig}
    for _, field in ALL:
        models.update(variants(field).values())
    assert len(models) > 20
    for model in models:
        assert model.model_config.get("frozen") is True
        assert model.model_config.get("extra") == "forbid"
        assert model.model_config.get("strict") is True


def test_a_config_cannot_be_changed_in_place() -> None:
    config = load_run().config
    with pytest.raises(ValidationError, match="frozen"):
        config.recipe.aggregation = "token"


def test_tables_with_variants_are_found_with_their_tag() -> None:
    assert tagged_tables(RunConfig) == {
        ("recipe", "loss"): "surrogate",
        ("recipe", "curriculum"): "kind",
        ("recipe", "length"): "kind",
        ("recipe", "asynchrony"): "kind",
        ("scale", "model"): "source",
        ("scale", "warm_start"): "kind",
        ("scale", "task"): "kind",
    }


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("recipe.aggregation", "prompt, sample, token"),
        ("recipe.loss", "a table with surrogate = cispo, ppo_clip, gspo, reinforce"),
        ("recipe.advantage", "a table"),
        ("recipe.precision.fp32_head_trainer", "true or false"),
        ("scale.batch.rollouts", "a whole number at least 2"),
        ("scale.optimiser.betas", "a list of 2 numbers, each at least 0 and below 1"),
        ("scale.tokens.interruption_phrase", "a text"),
        ("recipe.length.phrase", "a text that is not empty"),
        ("recipe.curriculum.threshold", "a number above 0 and at most 1"),
    ],
)
def test_what_a_field_allows_is_said_in_words(key: str, words: str) -> None:
    assert allowed(KEYS[key]) == words


def test_a_field_is_found_only_in_the_variant_that_has_it() -> None:
    cispo, gspo = {"recipe": {"loss": {"surrogate": "cispo"}}}, {"recipe": {"loss": {"surrogate": "gspo"}}}
    path = ("recipe", "loss", "cap")
    assert field_at(RunConfig, cispo, path) is not None
    assert field_at(RunConfig, gspo, path) is None
