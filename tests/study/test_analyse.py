"""The analysis: verdicts on curves whose truth is known, and the tables beside them."""

from __future__ import annotations

import numpy as np
import pytest

from scalerl import Series
from scalerl.study.analyse import Analysis, Settings, analyse
from scalerl.study.cell_fits import TOGETHER, fit_cell, measure
from scalerl.study.extrapolation import extrapolate, summarise
from scalerl.study.heading import final_draws

from .simulated import LAST, LAWS, curve, curves_of_study, full_of

CURVES = curves_of_study()


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(CURVES, "base", full_of(CURVES))


def test_the_verdicts_are_those_of_the_truth(analysis: Analysis) -> None:
    assert analysis.verdicts() == {
        "twin": "no difference shown",
        "worse": "lowers the ceiling",
        "better": "raises the ceiling",
        "slow": "slower",
    }


def test_the_intervals_hold_the_true_differences(analysis: Analysis) -> None:
    for choice in analysis.choices:
        truth = LAWS[choice.cell][0] - LAWS["base"][0]
        assert choice.ceiling.low is not None
        assert choice.ceiling.high is not None
        assert choice.ceiling.low - 0.02 < truth < choice.ceiling.high + 0.02
        assert choice.between == "paired"


def test_probabilities_add_up_and_agree_with_the_verdict(analysis: Analysis) -> None:
    by_cell = {choice.cell: choice for choice in analysis.choices}
    for choice in analysis.choices:
        total = (
            choice.probability_ceiling_higher + choice.probability_ceiling_equal + choice.probability_ceiling_lower
        )  # fmt: skip
        assert total == pytest.approx(1.0)
    assert by_cell["worse"].probability_ceiling_lower > 0.9
    assert by_cell["worse"].common_ceiling is None
    assert by_cell["worse"].probability_more_efficient is None
    assert by_cell["slow"].common_ceiling == pytest.approx(0.75, abs=0.03)
    assert (by_cell["slow"].probability_earlier or 0) < 0.025
    assert by_cell["slow"].probability_value_higher < 0.05


def test_the_ranking_is_the_papers(analysis: Analysis) -> None:
    assert analysis.ranking[0] == "better"
    assert analysis.ranking[-1] == "worse"
    assert "worse has" not in next(c.paper_verdict for c in analysis.choices if c.cell == "worse")


def test_values_are_compared_at_the_base_full_budget(analysis: Analysis) -> None:
    slow = next(choice for choice in analysis.choices if choice.cell == "slow")

    ends = {cell: np.mean([one.value[-1] for one in CURVES[cell].values()]) for cell in ("slow", "base")}
    assert analysis.at == LAST
    assert slow.value.value == pytest.approx(ends["slow"] - ends["base"], abs=0.01)


def test_every_seed_and_every_cell_is_extrapolated(analysis: Analysis) -> None:
    rows = analysis.extrapolation
    assert {(row.cell, row.seed) for row in rows} == {(cell, seed) for cell in LAWS for seed in (0, 1, 2, None)}
    assert all(row.points <= 3 * 8 for row in rows)
    found = summarise(rows)
    assert found.mean_absolute_error is not None
    assert found.mean_absolute_error < 0.03
    assert found.coverage == np.mean([row.low <= row.actual <= row.high for row in rows])


def test_a_cell_is_forecast_as_the_race_and_the_status_do(analysis: Analysis) -> None:
    *seeds, cell = [row for row in analysis.extrapolation if row.cell == "base"]
    seen = {name: [one.window(None, 0.5 * LAST) for one in found.values()] for name, found in CURVES.items()}
    at = dict.fromkeys(seen, cell.compute)

    low, middle, high = np.quantile(final_draws(seen, at)["base"], [0.1, 0.5, 0.9])

    assert cell.seed is None
    assert (cell.low, cell.value, cell.high) == pytest.approx((low, middle, high))
    assert cell.actual == pytest.approx(np.mean([row.actual for row in seeds]))
    assert cell.points == sum(row.points for row in seeds)


def test_seeds_that_differ_widen_the_forecast_of_a_cell() -> None:
    rng = np.random.default_rng(2)
    apart = {seed: curve((ceiling, 1.4, 60.0), rng) for seed, ceiling in enumerate((0.6, 0.7, 0.8))}
    alike = {seed: curve((0.7, 1.4, 60.0), rng) for seed in range(3)}
    (wide,), (narrow,) = (
        [row for row in extrapolate({"a": one}, {"a": LAST}, 0.5, 0.8, (0.0, 1.0)) if row.seed is None]
        for one in (apart, alike)
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_a_curve_that_was_stopped_is_not_extrapolated() -> None:
    short = {"base": CURVES["base"], "worse": {seed: one.head(8) for seed, one in CURVES["worse"].items()}}

    rows = extrapolate(short, full_of(short), 0.5, 0.8, (0.0, 1.0))

    assert {row.cell for row in rows} == {"base"}
    assert summarise([]).coverage is None


def test_one_seed_is_analysed_with_a_caution() -> None:
    found = analyse(curves_of_study(("base", "worse"), seeds=(0,)), "base", full_of(LAWS))

    assert found.choices[0].between == "unknown"
    assert "one seed" in found.choices[0].caution
    assert found.verdicts() == {"worse": "lowers the ceiling"}


def test_short_curves_are_compared_by_their_joint_fit() -> None:
    short = {
        "base": CURVES["base"], "twin": CURVES["twin"], "slow": CURVES["slow"],
        "worse": {seed: one.head(4) for seed, one in CURVES["worse"].items()},
    }  # fmt: skip

    found = analyse(short, "base", full_of(short))

    assert set(found.fits["worse"].units) == {TOGETHER}
    worse = next(choice for choice in found.choices if choice.cell == "worse")
    assert worse.between == "unpaired"
    assert worse.value.value < 0


def test_without_the_base_there_is_nothing_to_compare() -> None:
    found = analyse({"base": {}, "worse": CURVES["worse"]}, "base", {"worse": LAST})

    assert found.choices == ()
    assert found.at == LAST
    assert found.ranking == ("worse",)
    assert analyse({"base": {}}, "base", {}).at is None


def test_an_unidentified_ceiling_is_doubted_and_a_clear_one_is_not() -> None:
    whole, begun = CURVES["slow"][0], CURVES["slow"][0].head(6)

    clear, open_ = (fit_cell("slow", {0: one}) for one in (whole, begun))
    assert clear is not None
    assert open_ is not None
    doubts = [measure(one.joint, LAST)["ceiling"].doubt for one in (clear, open_)]
    values = [measure(one.joint, LAST)["value"].doubt for one in (clear, open_)]

    assert doubts[0] < 0.02**2 < doubts[1]
    assert values[0] == 0.0 < values[1]


def test_a_curve_before_its_bend_has_no_lower_ceiling() -> None:
    """Its ceiling is the base's; it is only far from it yet, and that is what the verdict says."""
    rng = np.random.default_rng(1)
    curves = {"base": CURVES["base"], "late": {seed: curve((0.75, 1.4, 1500.0), rng) for seed in (0, 1, 2)}}
    (found,) = analyse(curves, "base", full_of(curves)).choices
    assert found.probability_ceiling_lower > 0.8
    assert found.verdict == "lower at equal compute"
    assert found.value.high is not None
    assert found.value.high < -0.02


@pytest.mark.parametrize(("midpoint", "verdict"), [(1500.0, "lower at equal compute"), (120.0, "no difference shown")])
def test_a_curve_that_was_stopped_is_judged_where_it_ended(midpoint: float, verdict: str) -> None:
    """The base goes on; what is expected of the other there is no verdict."""
    rng = np.random.default_rng(1)
    stopped = {seed: curve((0.75, 1.4, midpoint), rng).head(6) for seed in (0, 1, 2)}
    curves = {"base": CURVES["base"], "stopped": stopped}

    (found,) = analyse(curves, "base", dict.fromkeys(curves, LAST)).choices

    assert found.verdict == verdict


def test_a_wider_margin_calls_more_ceilings_equal() -> None:
    two = {cell: CURVES[cell] for cell in ("base", "better")}

    found = analyse(two, "base", full_of(two), Settings(margin=0.3))

    assert found.choices[0].probability_ceiling_equal > 0.95
    assert found.choices[0].verdict != "raises the ceiling"


def test_too_few_points_make_no_fit() -> None:
    empty = Series.of([], [])
    assert fit_cell("cell", {0: CURVES["base"][0].head(2), 1: empty}) is None
