"""The watchdog: what rings, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest

from scalerl.compute import Ledger
from scalerl.config.guards import Guards
from scalerl.pipeline.guards import Watchdog
from scalerl.pipeline.types import EvalPoint


def point(step: int, rate: float, error: float | None = 0.01) -> EvalPoint:
    return EvalPoint(
        step=step, pass_rate=rate, num_problems=10, num_samples=2, num_judged=20, standard_error=error,
        truncation_rate=0.0, mean_length=5.0, ledger=Ledger(), per_problem={},
    )  # fmt: skip


def rung(watchdog: Watchdog, steps: list[dict[str, Any]]) -> list[tuple[int, str]]:
    found = [(step, watchdog.stepped(step, values)) for step, values in enumerate(steps, 1)]
    return [(step, alarm.name) for step, alarms in found for alarm in alarms]


def test_one_strange_batch_is_no_alarm_and_a_lasting_change_is_one() -> None:
    calm, cut = {"truncation_rate": 0.02, "ratio_mean": 1.0}, {"truncation_rate": 0.3, "ratio_mean": 1.0}
    watchdog = Watchdog(Guards(), 0, [])
    assert rung(watchdog, [calm] * 9 + [cut] + [calm] * 5) == []
    assert rung(Watchdog(Guards(), 0, []), [calm] * 9 + [cut] * 8) == [(11, "truncation")]


def test_it_rings_again_only_after_its_cause_was_gone() -> None:
    calm, cut = {"truncation_rate": 0.0}, {"truncation_rate": 1.0}
    steps = [cut] * 4 + [calm] * 3 + [cut] * 2
    assert rung(Watchdog(Guards(window=2), 0, []), steps) == [(2, "truncation"), (8, "truncation")]


@pytest.mark.parametrize("ratio", [2.5, 0.3])
def test_a_ratio_far_from_one(ratio: float) -> None:
    ratios = [1.02, None, ratio, ratio, ratio]
    steps: list[dict[str, Any]] = [{"ratio_mean": found} for found in ratios]
    watchdog = Watchdog(Guards(window=3), 0, [])
    found = [alarm for values in steps for alarm in watchdog.stepped(1, values)]
    assert [alarm.name for alarm in found] == ["ratio"]
    assert f"limit {Guards().ratio:g}" in found[0].message


def test_a_collapse_is_more_than_noise() -> None:
    watchdog = Watchdog(Guards(), 0, [point(0, 0.2), point(10, 0.6)])
    assert watchdog.evaluated(point(20, 0.43)) == []  # a fall of less than 30 %
    (alarm,) = watchdog.evaluated(point(30, 0.3))
    assert alarm.name == "collapse"
    assert alarm.message == "held-out pass rate 0.300, after 0.600 at step 10"
    assert watchdog.evaluated(point(40, 0.3)) == []  # said already
    noisy = Watchdog(Guards(), 0, [point(10, 0.6, 0.1)])
    assert noisy.evaluated(point(20, 0.3, 0.1)) == []
    assert Watchdog(Guards(), 0, []).evaluated(point(0, 0.0)) == []


def test_the_last_good_step_is_before_whatever_rings() -> None:
    watchdog = Watchdog(Guards(window=2), 0, [])
    for step in range(1, 9):
        watchdog.stepped(step, {"truncation_rate": 0.0})
    watchdog.evaluated(point(4, 0.5))
    assert watchdog.good_step == 4  # nobody has measured later ones
    watchdog.evaluated(point(8, 0.5))
    assert watchdog.good_step == 6  # of the window's steps nobody knows
    watchdog.evaluated(point(12, 0.1))
    assert watchdog.good_step == 6
