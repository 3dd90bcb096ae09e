"""The simulation: times that can be worked out by hand, ages within the bound, and the slots of training."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from scalerl.config.recipe import Asynchrony, Pipeline, PpoOffPolicy, Sync
from scalerl.pipeline.slots import StalenessError
from scalerl.plan import Lengths, simulate
from scalerl.plan.generator import SimulatedGenerator
from scalerl.plan.rates import Fleet
from scalerl.plan.sample import sample_of

from .conftest import close, exact, question, rates

SYNC, OFF = Sync(kind="sync"), PpoOffPolicy(kind="ppo_off_policy", k=4)
WRITE_S, TRAIN_S = 1.0, 1.6
"""100 tokens of .01 s, whatever the number of rows; 16 rollouts of 100 tokens at 1 ms."""


@pytest.mark.parametrize(
    ("asynchrony", "step_s"),
    [
        (SYNC, WRITE_S + TRAIN_S),
        (Pipeline(kind="pipeline", k=0), WRITE_S + TRAIN_S),
        (Pipeline(kind="pipeline", k=2), TRAIN_S),
        (OFF, (WRITE_S + 4 * TRAIN_S) / 4),
    ],
)
def test_time_of_a_step(asynchrony: Asynchrony, step_s: float, one: Fleet) -> None:
    outcome = simulate(question(asynchrony), rates=rates(trained_token_s=1e-3), fleet=one, steps=12)
    assert close(outcome.step_s, step_s)
    assert close(sum(outcome.generator.values()), 1.0)
    assert close(sum(outcome.trainer.values()), 1.0)
    assert close(outcome.trainer_idle, 1 - TRAIN_S / step_s, 1e-6) or outcome.trainer_idle < 1e-9
    assert outcome.tokens_per_step == 1600
    assert outcome.mean_length == 100


def test_the_generator_is_the_limit(one: Fleet) -> None:
    outcome = simulate(question(rows=4), rates=rates(trained_token_s=1e-4), fleet=replace(one, rows=4), steps=20)
    assert close(outcome.step_s, 4 * WRITE_S)  # four rows at a time, sixteen rollouts
    assert outcome.generator_idle == 0
    assert close(outcome.trainer_idle, 1 - 0.16 / 4.0)
    assert close(outcome.mean_rows, 4.0)


def test_transfers_and_evaluations_hold_the_trainer(one: Fleet) -> None:
    slow = rates(trained_token_s=1e-3, load_s=0.25, send_s=0.5, evaluation_s=10.0, evaluation_every=5)
    outcome = simulate(question(SYNC), rates=slow, fleet=one, steps=20)
    assert close(outcome.step_s, WRITE_S + TRAIN_S + 0.5 + 10 / 5, 0.02)  # loading is hidden behind the evaluation once
    assert outcome.trainer["evaluating"] == pytest.approx(2.0 / outcome.step_s, rel=0.02)
    assert outcome.trainer["sending"] == pytest.approx(0.5 / outcome.step_s, rel=0.02)


def test_off_policy_sends_weights_once_a_round(one: Fleet) -> None:
    outcome = simulate(question(OFF), rates=rates(trained_token_s=1e-3, load_s=0.4, send_s=0.8), fleet=one, steps=16)
    assert close(outcome.step_s, (WRITE_S + 4 * TRAIN_S + 0.8 + 0.4) / 4)
    assert outcome.ages == pytest.approx([0.25] * 4)
    assert outcome.generator["waiting"] > 0.8


def test_idle_generators_wait_for_the_last_one_and_then_for_the_trainer() -> None:
    """Two generators, one group each: the shorter one waits for the longer, then both for the trainer."""
    lengths = Lengths(100.0, 0.6, 1000)
    asked = question(SYNC, prompts=2, rollouts=2, lengths=lengths, generating=2)
    outcome = simulate(asked, rates=rates(trained_token_s=1e-3), fleet=Fleet(2, 1, 16), steps=60)
    assert outcome.generator["tail"] > 0.02
    trained = outcome.trainer["training"]
    assert outcome.generator["waiting"] == pytest.approx(trained, abs=0.01)


@pytest.mark.parametrize("asynchrony", [SYNC, OFF, Pipeline(kind="pipeline", k=1), Pipeline(kind="pipeline", k=5)])
def test_ages_stay_within_the_bound(asynchrony: Asynchrony) -> None:
    asked = question(asynchrony, lengths=Lengths(100.0, 0.8, 900), generating=3)
    outcome = simulate(asked, rates=rates(trained_token_s=3e-4, load_s=0.05), fleet=Fleet(3, 1, 5), steps=40)
    assert len(outcome.ages) == outcome.max_age + 1
    assert sum(outcome.ages) == pytest.approx(1.0)
    assert outcome.mean_age == 0 if outcome.max_age == 0 else outcome.mean_age > 0


def test_the_check_is_that_of_training(monkeypatch: pytest.MonkeyPatch, one: Fleet) -> None:
    """A generator that forgets to take new weights is found out by the slots."""
    monkeypatch.setattr(SimulatedGenerator, "load", lambda *_: None)
    with pytest.raises(StalenessError):
        simulate(question(), rates=rates(trained_token_s=1e-3), fleet=one, steps=12)


def test_a_straggler_holds_up_its_batch_only_as_long_as_there_are_slots() -> None:
    lengths = Lengths(100.0, 1.0, 2000, group_share=0.0)
    idle = [
        simulate(
            question(Pipeline(kind="pipeline", k=k), prompts=8, lengths=lengths, generating=4),
            rates=rates(trained_token_s=1e-4), fleet=Fleet(4, 1, 64), steps=60,
        ).generator_idle
        for k in (0, 1, 4, 16)
    ]  # fmt: skip
    assert idle == sorted(idle, reverse=True)
    assert idle[0] > 2 * idle[-1]


def test_the_same_seed_gives_the_same_outcome() -> None:
    asked = question(lengths=Lengths(100.0, 0.5, 900))
    runs = [
        simulate(asked, rates=rates(trained_token_s=1e-4), fleet=Fleet(1, 1, 8), steps=8, seed=s) for s in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].step_s != runs[2].step_s


def test_a_part_of_the_generators_says_what_all_of_them_say() -> None:
    """Lengths are cut off, as they are wherever there is a token budget: the longest of few is that of many."""
    asked = question(prompts=96, lengths=Lengths(200.0, 0.5, 300), generating=24, rows=16)
    fleet, some = Fleet(24, 1, 16), rates(trained_token_s=2e-6)
    whole = simulate(asked, rates=some, fleet=fleet, steps=40, most_rollouts=10_000)
    part = simulate(asked, rates=some, fleet=fleet, steps=40, most_rollouts=100)
    assert whole.stands_for == 1
    assert part.stands_for == pytest.approx(4.0, rel=0.1)
    assert part.step_s == pytest.approx(whole.step_s, rel=0.05)
    assert part.tokens_per_step == pytest.approx(whole.tokens_per_step, rel=0.03)


def test_generators_that_never_have_work_cost_no_time() -> None:
    """4 x 4 rollouts, three batches under way: with 48 generators each rollout has one of its own."""
    asked, some = question(lengths=Lengths(100.0, 0.5, 900)), rates(trained_token_s=1e-4, load_s=0.1)
    few, more, most = (simulate(asked, rates=some, fleet=Fleet(n, 1, 8), steps=8) for n in (48, 96, 10**9))
    assert few.step_s == more.step_s == most.step_s
    assert few.mean_rows == most.mean_rows == 1
    assert few.generator["loading"] == pytest.approx(most.generator["loading"], rel=1e-3)  # like the others
    for name in ("writing", "reading"):
        assert few.generator[name] == pytest.approx(2 * more.generator[name], rel=1e-3)
    assert most.generator_idle == pytest.approx(1 - most.generator["loading"])
    assert sum(more.generator.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("prompts", "generators"), [(51, 10**9), (6000, 8000), (6000, 125), (48, 64), (1000, 7), (5000, 1)]
)
def test_samples_keep_the_work_of_a_generator(prompts: int, generators: int) -> None:
    sample = sample_of(prompts, 16, generators)
    assert sample.prompts / sample.generators == pytest.approx(prompts / generators, rel=0.05)
    assert sample.prompts * 16 <= 1200 or sample.generators == 1


def test_a_plan_needs_no_torch() -> None:
    code = (
        "import sys, scalerl.plan.likeness, scalerl.plan.splits, scalerl.plan.money; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_flops_are_those_of_the_ledger(one: Fleet) -> None:
    asked = question(lengths=exact(1000), prompt_length=0)
    outcome = simulate(asked, rates=rates(trained_token_s=1e-6), fleet=one, steps=4)
    products = 16 * 1000 * (2 + 6) * 8e9
    assert outcome.flops_per_step == pytest.approx(products + 16 * 16 * 1000 * 1001 / 2 * 131_072, rel=1e-6)
