"""The simulated generator against a loop that makes one decode step after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalerl.plan.generator import SimulatedGenerator, SimulatedGroup, SimulatedRollout
from scalerl.plan.rates import Rates

RATES = Rates(
    step_s=0.002, weights_s=0.01, row_s=0.001, context_s=1e-6, active_share=0.3, prompt_token_s=1e-4, load_s=0.5,
    trained_token_s=0.0, trained_context_s=0.0, update_s=0.0, send_s=0.0, prompts_s=0.01,
)  # fmt: skip
PROMPT, ROWS = 30, 3


def step_by_step(lengths: list[int]) -> list[float]:
    """When each of the rollouts ends, all of one group, each prompt read once: the definition, without any formula."""
    clock, waiting = RATES.prompts_s + PROMPT * RATES.prompt_token_s, list(enumerate(lengths))
    live: dict[int, list[int]] = {}
    ends: dict[int, float] = {}
    while waiting or live:
        while waiting and len(live) < ROWS:
            number, length = waiting.pop(0)
            live[number] = [length, PROMPT]
        clock += RATES.decode_s(len(live)) + RATES.context_s * sum(context for _, context in live.values())
        for row in live.values():
            row[0] -= 1
            row[1] += 1
        for number in [number for number, row in live.items() if row[0] == 0]:
            ends[number] = clock
            del live[number]
    return [ends[number] for number in range(len(lengths))]


def test_many_steps_at_once_take_as_long_as_one_after_the_other() -> None:
    lengths = np.random.default_rng(0).integers(1, 400, 25).tolist()
    generator = SimulatedGenerator(0, RATES, ROWS)
    group = SimulatedGroup(0, PROMPT, len(lengths))
    rollouts = [SimulatedRollout(group, length) for length in lengths]
    for rollout in rollouts:
        generator.submit(rollout)
    generator.begin(0.0)
    ends: dict[int, float] = {}
    while generator.num_pending:
        expected = generator.next_event()
        for rollout in generator.finish():
            generator.book(rollout)
            ends[next(i for i, one in enumerate(rollouts) if one is rollout)] = generator.clock
        assert math.isclose(generator.clock - expected, 0.0, abs_tol=1e-9)
    assert [ends[i] for i in range(len(lengths))] == pytest.approx(step_by_step(lengths))
    assert group.missing == 0
    assert group.tokens == sum(lengths) == group.by_version[0]
    assert generator.spent.reading == pytest.approx(RATES.prompts_s + PROMPT * RATES.prompt_token_s)
    assert generator.empty_since == generator.clock


def test_a_rollout_goes_on_with_new_weights() -> None:
    generator, group = SimulatedGenerator(0, RATES, ROWS), SimulatedGroup(0, 0, 1)
    rollout = SimulatedRollout(group, 100)
    generator.submit(rollout)
    generator.begin(0.0)
    one_step = RATES.decode_s(1)
    generator.advance(RATES.prompts_s + 40.5 * one_step)
    assert 40.5 * one_step <= generator.clock - RATES.prompts_s < 42 * one_step + 1e-3
    generator.load(1, generator.clock)
    generator.next_event()
    assert generator.finish() == [rollout]
    generator.book(rollout)
    assert sum(group.by_version.values()) == 100
    assert 38 <= group.by_version[0] <= 41
    assert generator.spent.loading == 0.5
    assert group.rollouts[0].versions.tolist() == [0, 1]


def test_prompts_that_are_read_together_share_a_pass() -> None:
    generator = SimulatedGenerator(0, RATES, ROWS)
    for index in range(ROWS):
        generator.submit(SimulatedRollout(SimulatedGroup(index, PROMPT, 1), 10))
    generator.begin(0.0)
    assert generator.spent.reading == pytest.approx(RATES.prompts_s + ROWS * PROMPT * RATES.prompt_token_s)


def test_a_mixture_of_experts_reads_more_of_its_weights_with_more_rows() -> None:
    few, many = RATES.decode_s(1) - RATES.step_s, RATES.decode_s(9) - RATES.step_s
    assert few == pytest.approx(0.3 * RATES.weights_s)
    assert many == pytest.approx((1 - 0.7**9) * RATES.weights_s)
