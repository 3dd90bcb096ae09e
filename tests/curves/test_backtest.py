"""Backtests: the scores by hand and in closed form, the split, and what a run returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from scalerl.curves import backtest
from scalerl.curves.backtest import crps, interval_score, split
from scalerl.errors import InputError
from scalerl.series import Series, StartValue

Curve = Callable[..., Series]
METHODS = {"scalerl", "last_value", "curve_fit", "bootstrap"}


@pytest.mark.parametrize(("mean", "sd", "actual"), [(0.5, 0.1, 0.5), (0.5, 0.1, 0.75), (0.2, 0.01, 0.19)])
def test_crps_of_a_normal_ensemble_has_a_closed_form(mean: float, sd: float, actual: float) -> None:
    """Gneiting and Raftery 2007: sd (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))."""
    draws = norm.ppf((np.arange(20000) + 0.5) / 20000, mean, sd)
    z = (actual - mean) / sd
    expected = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert crps(np.random.default_rng(0).permutation(draws), actual) == pytest.approx(expected, rel=2e-3)


def test_crps_of_a_point_is_its_absolute_error_and_zero_when_perfect() -> None:
    assert crps(np.full(50, 0.6), 0.6) == pytest.approx(0.0, abs=1e-15)
    assert crps(np.full(50, 0.6), 0.5) == pytest.approx(0.1)
    assert crps(np.array([0.0, 1.0]), 0.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("actual", "expected"), [(0.5, 0.2), (0.4, 0.2), (0.6, 0.2), (0.3, 0.2 + 10 * 0.1), (0.65, 0.2 + 10 * 0.05)]
)
def test_interval_score_by_hand(actual: float, expected: float) -> None:
    assert interval_score(0.4, 0.6, actual, 0.8) == pytest.approx(expected)


def test_the_split_takes_a_share_of_the_points_beside_step_0() -> None:
    series = Series.of(np.arange(0.0, 25.0), np.linspace(0.1, 0.8, 25))
    assert series.start == StartValue(0.1)
    seen, at, actual = split(series, 0.3)
    assert seen.compute.tolist() == list(range(1, 8))  # 7.2 of 24
    assert at == pytest.approx(np.exp(np.mean(np.log([22, 23, 24]))))
    assert actual == pytest.approx(series.value[-3:].mean())
    plain, *_ = split(Series.of(np.arange(1.0, 30.0), np.linspace(0.1, 0.8, 29)), 0.3)
    assert len(plain) == 9  # 8.7 of 29


@pytest.mark.parametrize("points", range(5, 40))
@pytest.mark.parametrize("share", [0.2, 0.3, 0.5, 0.8])
def test_the_split_never_shows_what_it_scores(points: int, share: float) -> None:
    series = Series.of(np.arange(1.0, points + 1), np.linspace(0.1, 0.8, points))
    try:
        seen, *_ = split(series, share)
    except InputError:
        return
    assert len(seen) >= 5
    assert len(series) - len(seen) >= 3


def test_every_method_is_scored_on_every_curve_and_share(curve: Curve) -> None:
    curves = [curve(seed=i, name=f"c{i}", noise=0.004) for i in range(2)]
    result = backtest(curves, shares=(0.3, 0.5), level=0.7)
    assert result.level == 0.7
    assert {(s.curve, s.method, s.share) for s in result.scores} == {
        (c, m, share) for c in ("c0", "c1") for m in METHODS for share in (0.3, 0.5)
    }
    for score in result.scores:
        series = curves[int(score.curve[1])]
        assert score.actual == pytest.approx(series.value[-3:].mean())
        assert score.low is not None
        assert score.high is not None
        assert score.low <= score.value <= score.high
        assert score.error == score.value - score.actual
        assert score.inside == (score.low <= score.actual <= score.high)
        assert score.interval_score == pytest.approx(interval_score(score.low, score.high, score.actual, 0.7))
        assert score.crps is not None
        assert score.crps >= 0


def test_a_clean_curve_is_foreseen_better_than_by_its_last_value(curve: Curve) -> None:
    result = backtest([curve(seed=i, name=f"c{i}", midpoint=3000.0, noise=0.003) for i in range(4)], shares=(0.5,),
                      methods=("scalerl", "last_value"))  # fmt: skip
    ours, last = (np.mean([abs(s.error) for s in result.scores if s.method == m]) for m in ("scalerl", "last_value"))
    assert ours < 0.03
    assert ours < last


def test_to_dict_carries_error_and_inside(curve: Curve) -> None:
    row = backtest([curve()], shares=(0.5,), methods=("last_value",)).to_dict()["scores"][0]
    assert {"curve", "method", "share", "compute", "actual", "value", "low", "high", "crps"} <= row.keys()
    assert row["error"] == pytest.approx(row["value"] - row["actual"])
    assert row["inside"] == (row["low"] <= row["actual"] <= row["high"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": (0.0,)}, "unusable share"),
        ({"shares": (1.0,)}, "unusable share"),
        ({"methods": ("magic",)}, "unknown method"),
        ({"level": 1.5}, "unusable level"),
    ],
)
def test_refuses_bad_options(curve: Curve, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        backtest([curve()], **options)


def test_refuses_a_curve_that_is_too_short_by_name(curve: Curve) -> None:
    with pytest.raises(InputError, match=r"tiny.*too few points"):
        backtest([curve(points=6, name="tiny")])
