"""Differences between cells: pairs of seeds, the t factor, the pooled variance, and what seeds cannot show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scalerl.study.cell_fits import Measured
from scalerl.study.differences import Seeds, Variance, differences, mean_of, moderated, sample_variance, usual


def seeds(*values: float, first: int = 0, variance: float = 0.0, doubt: float = 0.0) -> Seeds:
    return Seeds({first + i: Measured(value, variance, doubt) for i, value in enumerate(values)})


def test_a_single_cell_gets_the_plain_paired_t_interval() -> None:
    base, cell = seeds(0.50, 0.60, 0.70), seeds(0.53, 0.62, 0.74)

    found = differences({"cell": (base, cell)})["cell"].estimate(0.8)

    low, high = stats.t.interval(0.8, 2, loc=0.03, scale=stats.sem([0.03, 0.02, 0.04]))
    assert found.value == pytest.approx(0.03)
    assert found.low == pytest.approx(low, abs=1e-4)
    assert found.high == pytest.approx(high, abs=1e-4)


def test_other_seeds_are_not_paired_and_get_welch() -> None:
    base, cell = seeds(0.50, 0.60, 0.70), seeds(0.53, 0.62, 0.74, 0.65, first=10)

    found = differences({"cell": (base, cell)})["cell"]

    welch = stats.ttest_ind([0.53, 0.62, 0.74, 0.65], [0.50, 0.60, 0.70], equal_var=False)
    interval = welch.confidence_interval(0.8)
    assert found.between == "unpaired"
    assert found.estimate(0.8).low == pytest.approx(interval.low, abs=1e-3)
    assert found.estimate(0.8).high == pytest.approx(interval.high, abs=1e-3)


def test_pairs_that_share_the_seed_are_worth_more_than_sides() -> None:
    base, cell = seeds(0.50, 0.60, 0.70), seeds(0.53, 0.62, 0.74)
    apart = Seeds({10 + seed: one for seed, one in cell.by_seed.items()})

    paired = differences({"cell": (base, cell)})["cell"]
    unpaired = differences({"cell": (base, apart)})["cell"]

    assert paired.between == "paired"
    assert paired.scale < unpaired.scale / 5


def test_the_usual_variance_steadies_a_lucky_cell() -> None:
    base = seeds(0.5, 0.5, 0.5)
    cells = {
        "lucky": seeds(0.60, 0.60, 0.60), "a": seeds(0.48, 0.50, 0.52), "b": seeds(0.47, 0.52, 0.51),
        "c": seeds(0.53, 0.49, 0.50),
    }  # fmt: skip

    alone = differences({"lucky": (base, cells["lucky"])})["lucky"].estimate(0.8)
    together = differences({name: (base, one) for name, one in cells.items()})["lucky"]

    assert alone.low is None  # three equal differences know nothing of their spread
    assert together.scale > 0.004
    assert together.freedom == 4


def test_a_collapsed_cell_does_not_widen_the_others() -> None:
    calm = [Variance(1e-4, 2.0)] * 4
    wild = usual([*calm, Variance(1.0, 2.0)])

    assert wild is not None
    assert wild.value == pytest.approx(1e-4 / np.log(2), rel=1e-6)  # the median of chi-square with 2 over 2 is ln 2
    assert usual(calm[:2]) is None


def test_the_usual_variance_is_right_on_average() -> None:
    rng = np.random.default_rng(0)
    found = [usual(sample_variance(rng.normal(0, 0.1, 3)) for _ in range(9)) for _ in range(400)]

    assert np.median([one.value for one in found if one is not None]) == pytest.approx(0.01, rel=0.1)


def test_moderation_weighs_by_degrees_of_freedom() -> None:
    found = moderated(Variance(3.0, 2.0), Variance(1.0, 6.0))

    assert found == Variance(1.5, 8.0)
    assert moderated(None, Variance(1.0, 2.0)) == Variance(1.0, 2.0)
    assert moderated(None, None) is None


def test_one_seed_has_its_own_error_and_says_that_more_is_unknown() -> None:
    found = differences({"cell": (seeds(0.5, variance=9e-4), seeds(0.6, variance=16e-4))})["cell"]

    assert found.between == "unknown"
    assert found.scale == pytest.approx(0.05)


def test_equal_seeds_without_spread_are_neither_higher_nor_lower() -> None:
    found = differences({"cell": (seeds(0.0, 0.0), seeds(0.0, 0.0))})["cell"]

    assert found.estimate(0.8).low is None
    assert found.chance_above(0.0) == 0.5


def test_what_all_seeds_share_widens_the_interval() -> None:
    base, cell = seeds(0.50, 0.60, 0.70, doubt=0.03**2), seeds(0.53, 0.62, 0.74, doubt=0.04**2)

    found = differences({"cell": (base, cell)})["cell"]

    assert found.doubt_sd == pytest.approx(0.05)
    assert found.estimate(0.8).high == pytest.approx(0.03 + 1.28 * 0.05, abs=0.006)


def test_the_mean_of_a_cell_has_the_same_kind_of_interval() -> None:
    found = mean_of(seeds(0.5, 0.6, 0.7), None).estimate(0.8)

    low, high = stats.t.interval(0.8, 2, loc=0.6, scale=stats.sem([0.5, 0.6, 0.7]))
    assert found.low == pytest.approx(low, abs=1e-3)
    assert found.high == pytest.approx(high, abs=1e-3)


def test_intervals_hold_for_normal_seeds_and_several_cells() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(150):
        shared = rng.normal(0, 0.02, 3)
        base = seeds(*(0.5 + shared + rng.normal(0, 0.01, 3)))
        cells = {str(i): seeds(*(0.52 + shared + rng.normal(0, 0.01, 3))) for i in range(7)}
        found = differences({name: (base, one) for name, one in cells.items()})
        ends = [one.estimate(0.8) for one in found.values()]
        inside += [e.low <= 0.02 <= e.high for e in ends if e.low is not None and e.high is not None]

    assert 0.75 < np.mean(inside) < 0.87
