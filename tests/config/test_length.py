"""Length control is a share of the scale's budgets, so that any recipe runs at any scale."""

from __future__ import annotations

import pytest

from scalerl.config import InterruptionWindow, PenaltyRange, load_run
from scalerl.errors import InputError

PHRASE = "Okay, time is up. Let me stop thinking and formulate a final answer now. </think>"


def test_interruption_window_of_the_paper_and_of_the_laptop() -> None:
    # [10k, 12k] of 12,288 thinking tokens with k = 1,024: 10 x 1,024 and 12 x 1,024
    assert load_run("scalerl", "paper_8b").config.length == InterruptionWindow(10240, 12288, PHRASE)
    # 0.8333 x 38 = 31.7
    assert load_run("scalerl", "laptop").config.length == InterruptionWindow(32, 38, "</think>")


def test_penalty_of_the_paper() -> None:
    # L_max 14k and L_cache 2k: 14 x 1,024 = 12,288 + 2,048, the whole response, and a seventh of it
    config = load_run("scalerl", "paper_8b", overrides=["recipe.length.kind=penalty"]).config
    assert config.length == PenaltyRange(max_tokens=14336, cache_tokens=2048)


def test_no_length_control() -> None:
    assert load_run(overrides=["recipe.length.kind=none"]).config.length is None


def test_the_scale_replaces_the_phrase_only_if_it_gives_one() -> None:
    kept = load_run(overrides=['scale.tokens.interruption_phrase=""']).config.length
    assert isinstance(kept, InterruptionWindow)
    assert kept.phrase == PHRASE


def test_token_sums() -> None:
    tokens = load_run("scalerl", "paper_8b").config.scale.tokens
    assert (tokens.response, tokens.context) == (14336, 16384)


def test_a_policy_that_does_not_think_cannot_be_interrupted() -> None:
    task = ['scale.task.kind="file"', 'scale.task.path="problems.jsonl"', "scale.task.thinking=false"]
    overrides = [*task, 'scale.warm_start.kind="none"']
    with pytest.raises(InputError, match=r"recipe\.length\.kind: got 'interruption'; allowed: penalty or none"):
        load_run("scalerl", "laptop", overrides=overrides)
    assert load_run("scalerl", "laptop", overrides=[*overrides, 'recipe.length.kind="none"']).config.length is None
