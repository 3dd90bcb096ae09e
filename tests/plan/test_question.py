"""Lengths, times from datasheets, what fits into memory, and the search for the best split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalerl.config.recipe import Pipeline
from scalerl.errors import InputError
from scalerl.plan import HARDWARE, Assumptions, Lengths, Outcome, Question, simulate
from scalerl.plan.lengths import lengths_with_mean
from scalerl.plan.question import model_of
from scalerl.plan.rates import fewest_training, fleet_of, generator_size, rates_of
from scalerl.plan.splits import Simulate, best_split

from .conftest import question

LONG = lengths_with_mean(8000, Lengths(1.0, 0.5, 14336, (10000, 12000), 500))


def test_lengths_have_the_mean_that_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    drawn = np.concatenate([LONG.draw(rng, 16) for _ in range(4000)])
    assert LONG.mean() == pytest.approx(8000, rel=0.01)
    assert drawn.mean() == pytest.approx(8000, rel=0.02)
    assert drawn.max() <= 12500  # interrupted, then an answer
    assert np.mean(drawn >= 10000) == pytest.approx(LONG.cut_share(), abs=0.12)


def test_rollouts_of_a_prompt_are_alike() -> None:
    rng, one = np.random.default_rng(0), Lengths(1000.0, 0.5, 10**6)
    logs = np.log(np.array([one.draw(rng, 8) for _ in range(3000)]))
    assert logs.var() == pytest.approx(0.25, rel=0.1)
    assert logs.mean(axis=1).var() == pytest.approx(0.25 * (0.5 + 0.5 / 8), rel=0.1)


def test_a_mean_that_cutting_forbids() -> None:
    with pytest.raises(InputError, match="mean length: got '8000'; allowed: below"):
        lengths_with_mean(8000, Lengths(1.0, 0.5, 9000, (1000, 2000), 10))


def test_the_roofline() -> None:
    asked = question(lengths=LONG, generating=4, training=4)
    found = rates_of(asked, fleet_of(asked))
    assert found.weights_s == pytest.approx(16e9 / (0.7 * 3.35e12))
    assert found.row_s == pytest.approx(16e9 / (0.5 * 989.4e12))
    assert found.context_s == pytest.approx(131_072 / (0.7 * 3.35e12))
    assert found.trained_token_s == pytest.approx(48e9 / (4 * 0.35 * 989.4e12))
    assert found.load_s == pytest.approx(0.5 + 16e9 / (0.5 * 50e9))


def test_rows_are_limited_by_memory() -> None:
    asked = question(lengths=LONG, generating=4, training=4, prompt_length=300, rows=1000)
    free = 0.9 * 80e9 - 16e9
    assert fleet_of(asked).rows == int(free / (131_072 * (300 + LONG.mean())))
    assert fleet_of(replace(asked, rows=10)).rows == 10


def test_a_large_policy_takes_several_gpus() -> None:
    asked = replace(question(lengths=LONG, generating=64, training=256), model=model_of(405e9))
    assert generator_size(asked) == 16  # 810 GB of weights, 72 GB usable in each
    assert fewest_training(asked) == 90
    assert fleet_of(asked).generators == 4


def test_what_does_not_fit_says_what_is_missing() -> None:
    large = replace(question(lengths=LONG, generating=64, training=8), model=model_of(405e9))
    with pytest.raises(InputError, match=r"h100: GPUs that train: got 8; allowed: at least 90: 6,480 GB of weights"):
        fleet_of(large)
    with pytest.raises(InputError, match=r"memory of a generator of 8 x h100: got '576 GB'; allowed: more than 810 GB"):
        fleet_of(replace(large, training=128, gpus_per_generator=8))
    with pytest.raises(InputError, match=r"GPUs that generate: got 8; allowed: at least 16, one generator"):
        fleet_of(replace(large, generating=8, training=128))


@pytest.mark.parametrize(("name", "value"), [("training_efficiency", 1.5), ("update_s", -1.0), ("usable_memory", 0.0)])
def test_assumptions_that_cannot_be(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"--set {name}"):
        Assumptions(**{name: value})


def test_every_device_says_where_its_figures_are_from() -> None:
    for device in HARDWARE.values():
        assert len(device.source) > 20
        assert 0 < device.link < device.bandwidth < device.flops


def in_full(asked: Question, steps: int = 60) -> Simulate:
    return lambda generating, training: simulate(asked.split(generating, training), steps=steps)


def test_the_best_split_is_the_best_of_all() -> None:
    asked = question(prompts=16, rollouts=8, lengths=Lengths(2000.0, 0.4, 8000), prompt_length=200)
    found = best_split(asked, 24, in_full(asked, 24))
    assert [one.training for one in found.tried] == sorted({one.training for one in found.tried})
    assert all(one.devices == 24 for one in found.tried)
    times = {t: simulate(asked.split(24 - t, t), steps=24, most_rollouts=384).step_s for t in range(2, 23, 2)}
    assert found.best.step_s <= 1.03 * min(times.values())


def test_the_luckiest_of_the_short_simulations_is_not_the_best() -> None:
    """They take 54 GPUs that generate for the best, with 53 s a step: in full it is 57.7 s, and with 60 54.4 s."""
    lengths = lengths_with_mean(8000, Lengths(8000.0, 0.5, 16000))
    pipeline = Pipeline(kind="pipeline", k=8)
    asked = question(pipeline, prompts=48, rollouts=16, lengths=lengths, prompt_length=300)
    full = in_full(asked)
    shown: list[tuple[int, int]] = []

    def looked_at(generating: int, training: int) -> Outcome:
        shown.append((generating, training))
        return full(generating, training)

    found = best_split(asked, 80, looked_at)
    assert found.best == full(found.best.generating, found.best.training)
    assert found.best.step_s == min(one.step_s for one in found.tried)
    assert found.best.step_s < 0.96 * full(*shown[0]).step_s  # what the short ones said is best
    assert len(shown) == len(set(shown)) < len(found.tried)


def test_few_gpus_are_all_tried_and_too_few_refused() -> None:
    asked = question(lengths=Lengths(500.0, 0.4, 2000))
    assert [one.training for one in best_split(asked, 6, in_full(asked)).tried] == [2, 3, 4, 5]
    with pytest.raises(InputError, match=r"--gpus: got 2; allowed: at least 3: 1 for one generator, 2 to train"):
        best_split(asked, 2, in_full(asked))


def test_any_number_of_gpus_is_split_in_moments() -> None:
    asked = question(lengths=Lengths(500.0, 0.4, 2000))
    found = best_split(asked, 10**9, in_full(asked, 20))
    assert all(one.devices == 10**9 for one in found.tried)
    assert len(found.tried) > 6
