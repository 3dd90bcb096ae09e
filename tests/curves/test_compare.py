"""Comparisons: what moves the ceiling, what only the efficiency, what nothing; the paper's rule beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalerl.curves import Fit, Pair, compare, fit, refit_with_ceiling
from scalerl.errors import InputError
from scalerl.series import Series

Curve = Callable[..., Series]


@pytest.fixture(scope="module")
def recipe(curve: Curve) -> Callable[..., Fit]:
    """A fitted recipe of two seeds, well bent; options go to the simulation."""

    def make(name: str, seed: int = 0, **options: float) -> Fit:
        settings = {"last": 15000.0, "noise": 0.004, "n": 1000.0} | options
        return fit([curve(seed=100 * seed + i, name=f"{name}{i}", **settings) for i in range(2)], name=name)

    return make


def only(pairs: tuple[Pair, ...]) -> Pair:
    (pair,) = pairs
    return pair


def test_a_higher_ceiling_is_found(recipe: Callable[..., Fit]) -> None:
    pair = only(compare([recipe("base"), recipe("better", 1, ceiling=0.85)]).pairs)
    assert (pair.reference, pair.challenger) == ("base", "better")
    assert (pair.verdict, pair.winner) == ("moves the ceiling", "better")
    assert pair.ceiling.value == pytest.approx(0.15, abs=0.03)
    assert pair.ceiling.low is not None
    assert pair.ceiling.low > 0
    assert pair.probability_ceiling_higher > 0.95
    assert pair.probability_ceiling_equal < 0.05


def test_a_lower_ceiling_is_found(recipe: Callable[..., Fit]) -> None:
    pair = only(compare([recipe("base"), recipe("worse", 1, ceiling=0.55)]).pairs)
    assert (pair.verdict, pair.winner) == ("moves the ceiling", "base")
    assert pair.probability_ceiling_higher < 0.05


@pytest.mark.parametrize("start", [True, False], ids=["measured floor", "free floor"])
def test_an_earlier_midpoint_is_efficiency(recipe: Callable[..., Fit], start: bool) -> None:
    pair = only(compare([recipe("base", start=start), recipe("quick", 1, midpoint=400.0, start=start)]).pairs)
    assert (pair.verdict, pair.winner) == ("moves the efficiency", "quick")
    assert pair.log_midpoint.value == pytest.approx(np.log(0.4), abs=0.25)
    assert pair.log_midpoint.high is not None
    assert pair.log_midpoint.high < 0


@pytest.mark.parametrize("start", [True, False], ids=["measured floor", "free floor"])
def test_a_larger_exponent_is_efficiency(recipe: Callable[..., Fit], start: bool) -> None:
    pair = only(compare([recipe("base", start=start), recipe("steep", 1, exponent=3.0, start=start)]).pairs)
    assert (pair.verdict, pair.winner) == ("moves the efficiency", "steep")
    assert pair.probability_more_efficient is not None
    assert pair.probability_more_efficient > 0.9
    assert pair.exponent.value == pytest.approx(1.5, abs=0.6)


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_same_recipe_twice_shows_no_difference(recipe: Callable[..., Fit], seed: int) -> None:
    pair = only(compare([recipe("one"), recipe("two", seed)]).pairs)
    assert (pair.verdict, pair.winner) == ("no difference shown", None)
    assert pair.ceiling.low is not None
    assert pair.ceiling.high is not None
    assert pair.ceiling.low <= 0 <= pair.ceiling.high
    assert pair.probability_ceiling_equal > 0.3


def test_swapping_the_reference_turns_every_sign(recipe: Callable[..., Fit]) -> None:
    """Exactly for the values, within Monte Carlo error for the intervals and chances."""
    fits = [recipe("a"), recipe("b", 1, ceiling=0.705, exponent=1.8)]
    forth, back = (only(compare(fits, reference=name).pairs) for name in ("a", "b"))
    assert (back.reference, back.challenger) == ("b", "a")
    for name in ("ceiling", "exponent", "log_midpoint"):
        one, other = getattr(forth, name), getattr(back, name)
        width = one.high - one.low
        assert one.value == pytest.approx(-other.value, abs=1e-12)
        assert one.low == pytest.approx(-other.high, abs=0.1 * width)
        assert one.high == pytest.approx(-other.low, abs=0.1 * width)
    assert forth.probability_ceiling_higher == pytest.approx(back.probability_ceiling_lower, abs=0.05)
    total = forth.probability_ceiling_higher + forth.probability_ceiling_equal + forth.probability_ceiling_lower
    assert total == pytest.approx(1.0)
    assert forth.probability_more_efficient is not None
    assert back.probability_more_efficient is not None
    assert forth.probability_more_efficient == pytest.approx(1 - back.probability_more_efficient, abs=0.05)
    assert forth.probability_ceiling_equal == pytest.approx(back.probability_ceiling_equal, abs=0.05)
    assert (forth.verdict, forth.winner) == (back.verdict, back.winner)


def test_the_papers_rule_when_ceilings_are_close(recipe: Callable[..., Fit]) -> None:
    base, steep = recipe("base"), recipe("steep", 1, exponent=2.5)
    pair = only(compare([base, steep]).pairs)
    ceilings = [f.parameters["ceiling"].value for f in (base, steep)]
    assert abs(ceilings[0] - ceilings[1]) <= 0.02
    assert pair.common_ceiling == pytest.approx(np.mean(ceilings))
    assert pair.exponents_at_common_ceiling is not None
    assert pair.exponents_at_common_ceiling[0] < pair.exponents_at_common_ceiling[1]
    assert pair.paper_verdict == "equal ceilings; steep has the larger exponent"


def test_the_papers_rule_when_ceilings_differ(recipe: Callable[..., Fit]) -> None:
    pair = only(compare([recipe("base"), recipe("high", 1, ceiling=0.8)]).pairs)
    assert pair.paper_verdict == "high has the higher ceiling"
    for field in ("common_ceiling", "exponents_at_common_ceiling", "probability_more_efficient"):
        assert getattr(pair, field) is None


def test_the_margin_is_what_counts_as_close(recipe: Callable[..., Fit]) -> None:
    fits = [recipe("base"), recipe("high", 1, ceiling=0.8)]
    assert only(compare(fits, margin=0.2).pairs).common_ceiling is not None
    assert only(compare(fits, margin=0.2).pairs).verdict != "moves the ceiling"


def test_ranking_by_ceiling_then_by_exponent(recipe: Callable[..., Fit]) -> None:
    fits = [
        recipe("low", 1, ceiling=0.5),
        recipe("slow", 2),
        recipe("fast", 3, exponent=2.5),
        recipe("top", 4, ceiling=0.85),
    ]
    result = compare(fits)
    assert result.ranking == ("top", "fast", "slow", "low")
    assert result.reference == "low"
    assert [p.challenger for p in result.pairs] == ["slow", "fast", "top"]


def test_refit_with_a_given_ceiling_keeps_everything_else(curve: Curve) -> None:
    found = fit(curve(), window=(500, 9000), name="r", level=0.6)
    again = refit_with_ceiling(found, 0.72)
    assert again.parameters["ceiling"].value == 0.72
    assert again.fixed_ceiling == 0.72
    for name in ("name", "window", "level", "bounds", "fixed_floor", "floor_measured"):
        assert getattr(again, name) == getattr(found, name)


def test_a_slow_starter_with_the_higher_ceiling_overtakes(recipe: Callable[..., Fit]) -> None:
    fast = recipe("fast", ceiling=0.55, midpoint=300.0, last=4000.0)
    slow = recipe("slow", 1, ceiling=0.9, midpoint=6000.0, last=4000.0, noise=0.002)
    pair = only(compare([fast, slow]).pairs)
    crossing = _crossing()
    assert crossing > 4000.0
    assert pair.overtakes_at is not None
    assert pair.overtakes_at.value == pytest.approx(crossing, rel=0.5)
    assert pair.overtakes_at.value > 4000.0
    assert pair.overtaker == "slow"
    assert only(compare([slow, fast]).pairs).overtaker == "slow"
    assert pair.overtakes_at.low is None or pair.overtakes_at.low <= pair.overtakes_at.value


def _crossing() -> float:
    compute = np.geomspace(100.0, 1e6, 10000)
    fast = 0.3 + 0.25 / (1 + (300.0 / compute) ** 1.5)
    slow = 0.3 + 0.60 / (1 + (6000.0 / compute) ** 1.5)
    return float(compute[np.argmax(slow > fast)])


def test_one_that_leads_for_good_is_not_overtaken(recipe: Callable[..., Fit]) -> None:
    pair = only(compare([recipe("base"), recipe("better", 1, ceiling=0.85)]).pairs)
    assert (pair.overtakes_at, pair.overtaker) == (None, None)


def test_a_ceiling_that_is_not_identified_has_no_rank(curve: Curve, recipe: Callable[..., Fit]) -> None:
    early = fit(curve(last=300.0, name="early"))
    assert not early.identified
    low = recipe("low", 1, ceiling=0.4)
    assert early.parameters["ceiling"].value > low.parameters["ceiling"].value
    assert compare([early, low, recipe("base")]).ranking == ("base", "low", "early")


def test_caution_says_why_not_to_trust_a_row(curve: Curve, recipe: Callable[..., Fit]) -> None:
    early = fit(curve(last=300.0, name="early"))
    caution = only(compare([recipe("base"), early]).pairs).caution
    assert "early" in caution
    assert "not identified" in caution
    single = only(compare([fit(curve(last=20000.0, name="a")), fit(curve(last=20000.0, seed=1, name="b"))]).pairs)
    assert "one seed" in single.caution
    assert only(compare([recipe("base"), recipe("other", 1)]).pairs).caution == ""


def test_refuses_what_cannot_be_compared(curve: Curve, paper_sigmoid: Fit) -> None:
    one, two = fit(curve(name="one")), fit(curve(name="two", seed=1))
    with pytest.raises(InputError, match="too few curves"):
        compare([one])
    with pytest.raises(InputError, match="same name"):
        compare([one, fit(curve(name="one", seed=1))])
    with pytest.raises(InputError, match="unknown reference"):
        compare([one, two], reference="three")
    with pytest.raises(InputError, match="only sigmoid"):
        compare([one, fit(curve(name="two"), law="power")])
    with pytest.raises(InputError, match="only sigmoid"):
        compare([one, paper_sigmoid])
    with pytest.raises(InputError, match="margin"):
        compare([one, two], margin=0.0)


def test_curves_against_different_kinds_of_compute_are_not_compared(curve: Curve) -> None:
    series = curve(name="two", seed=1)
    tokens = Series.of(series.compute, series.value, start=series.start, name="two", compute_name="tokens")
    with pytest.raises(InputError):
        compare([fit(curve(name="one")), fit(tokens)])


def test_to_dict_is_plain(recipe: Callable[..., Fit]) -> None:
    result = compare([recipe("base"), recipe("other", 1)]).to_dict()
    assert result["pairs"][0]["ceiling"].keys() == {"value", "low", "high"}
    assert result["ranking"] is not None
