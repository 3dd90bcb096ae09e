"""The size of a run from its config: it must be that of the policy that is really built."""

from __future__ import annotations

import pytest

from scalerl.cli.estimate import size_of
from scalerl.compute import causal_attended
from scalerl.config import load_run
from scalerl.pipeline.flops import forward_cost
from scalerl.policy import TinyLlama, TinyMoe
from scalerl.policy.tiny import new_policy

MOE = (
    'scale.model={source="moe", layers=2, width=16, heads=2, feed_forward=24, experts=4, experts_per_token=2, '
    'tied=%s, dtype="float32"}'
)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "moe"])
def test_parameters_and_flops_are_those_of_the_policy(kind: str, tied: bool) -> None:
    text = MOE % str(tied).lower() if kind == "moe" else f"scale.model.tied={str(tied).lower()}"
    run = load_run(overrides=[text]).config
    shape = TinyMoe(width=16, layers=2, heads=2, feed_forward=24, tied=tied) if kind == "moe" else TinyLlama(tied=tied)
    policy, _ = new_policy(shape, 0)
    size = size_of(run)
    assert size.parameters == sum(parameter.numel() for parameter in policy.parameters())
    cost, tokens = forward_cost(policy), run.scale.tokens
    expected = 16 * cost.flops(12, causal_attended(12)) + 256 * (
        cost.flops(46, causal_attended(46, 12)) + cost.training_flops(58, causal_attended(58))
    )
    assert (tokens.prompt, tokens.response) == (12, 46)
    assert size.flops == pytest.approx(expected)


def test_the_sizes_of_a_step() -> None:
    size = size_of(load_run(overrides=["scale.batch.prompts=3", "scale.batch.rollouts=5"]).config)
    assert (size.rollouts, size.generated_tokens, size.trained_tokens) == (15, 15 * 46, 15 * 58)
    assert (size.evaluated_answers, size.steps) == (1024, 700)


def test_what_the_config_does_not_tell_is_none() -> None:
    size = size_of(load_run(scale="paper_8b").config)
    assert (size.parameters, size.flops, size.steps) == (None, None, None)
    assert size.generated_tokens == 768 * 14336
