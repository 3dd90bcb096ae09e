"""Diagnostics: each fires on the case it is for, names what a reader needs, and stays silent on a clean curve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scalerl.curves import Diagnostic, Fit, fit
from scalerl.curves.laws import LawName
from scalerl.series import Series

Curve = Callable[..., Series]


def found(result: Fit, code: str) -> Diagnostic | None:
    return next((d for d in result.diagnostics if d.code == code), None)


def with_tail(series: Series, fall: float, points: int) -> Series:
    """The same curve, falling by `fall` over its last points."""
    value = series.value.copy()
    value[-points:] -= fall * np.arange(1, points + 1) / points
    return Series.of(series.compute, value, series.n, start=series.start, name=series.name)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_to_say_about_a_clean_and_well_bent_curve(curve: Curve, seed: int) -> None:
    result = fit(curve(last=20000.0, points=60, noise=0.003, n=2000, seed=seed))
    assert result.diagnostics == ()
    assert result.identified


def test_at_bound_names_the_parameter() -> None:
    compute = np.arange(1.0, 31.0)
    value = np.clip(1.2 * compute / (compute + 12.0), 0.0, 1.0)
    said = found(fit(Series.of(compute, value), floor=0.0), "at_bound")
    assert said is not None
    assert "ceiling" in said.message


def test_a_fixed_parameter_is_not_at_a_bound(curve: Curve) -> None:
    assert found(fit(curve(start=False, floor=0.0), floor=0.0), "at_bound") is None


@pytest.mark.parametrize("bend", [0.2, 0.5, 1.0])
def test_ceiling_not_identified_before_the_bend(curve: Curve, bend: float) -> None:
    result = fit(curve(last=1000.0 * bend))
    said = found(result, "ceiling_not_identified")
    assert said is not None
    assert said.compute is not None
    assert said.compute > result.last_compute
    assert not result.identified


def test_a_given_ceiling_is_identified(curve: Curve) -> None:
    result = fit(curve(last=500.0), ceiling=0.7)
    assert result.identified
    assert found(result, "ceiling_not_identified") is None


@pytest.mark.parametrize(("points", "expected"), [(6, True), (7, True), (8, False), (20, False)])
def test_too_few_points(curve: Curve, points: int, expected: bool) -> None:
    said = found(fit(curve(points=points)), "too_few_points")
    assert (said is not None) == expected
    if said is not None:
        assert str(points) in said.message


def test_window_sensitive_when_a_fast_early_rise_hides_a_slow_one(curve: Curve) -> None:
    compute = np.linspace(100.0, 10000.0, 40)
    value = 0.2 + 0.2 / (1 + (150.0 / compute) ** 3) + 0.15 / (1 + (7000.0 / compute) ** 3)
    result = fit(Series.of(compute, value))
    said = found(result, "window_sensitive")
    assert said is not None
    ceilings = [w.ceiling for w in result.windows]
    assert max(ceilings) - min(ceilings) > 0.05
    assert "ceiling" in said.message
    assert found(fit(curve(last=20000.0, points=60, noise=0.002)), "window_sensitive") is None


def test_windows_are_refits_of_parts_of_the_points(curve: Curve) -> None:
    result = fit(curve(last=20000.0, points=60), floor=0.3)
    assert len(result.windows) >= 4
    assert len({(w.low, w.high) for w in result.windows}) == len(result.windows)
    for window in result.windows:
        again = fit(result.series, floor=0.3, window=(window.low, window.high))
        assert again.points == window.points
        assert again.parameters["ceiling"].value == pytest.approx(window.ceiling, rel=1e-6)
        assert again.parameters["exponent"].value == pytest.approx(window.exponent, rel=1e-5)


@pytest.mark.parametrize(("fall", "code"), [(0.04, "declining"), (0.25, "collapsing")])
def test_a_fall_from_the_best_is_called_by_its_size(curve: Curve, fall: float, code: str) -> None:
    result = fit(with_tail(curve(last=20000.0, noise=0.002), fall, 6))
    assert [d.code for d in result.diagnostics if d.code in ("declining", "collapsing")] == [code]


def test_one_falling_seed_among_others_is_found(curve: Curve) -> None:
    seeds = [curve(seed=1, name="good"), with_tail(curve(seed=2, name="bad"), 0.25, 6)]
    assert found(fit(seeds), "collapsing") is not None
    assert found(fit(seeds[:1]), "collapsing") is None


def test_noise_alone_is_rarely_called_a_fall() -> None:
    """Plateaus with white noise: at most two false alarms in forty."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        compute = np.arange(1.0, 41.0)
        value = 0.7 - 0.4 / compute + 0.01 * rng.standard_normal(40)
        codes = {d.code for d in fit(Series.of(compute, value, start=0.3)).diagnostics}
        alarms += bool(codes & {"declining", "collapsing"})
    assert alarms <= 2


@pytest.mark.parametrize("law", ["sigmoid", "power", "loglinear"])
@pytest.mark.parametrize("start", [None, 0.4])
def test_no_better_than_flat(law: LawName, start: float | None) -> None:
    """Pure noise; the step-0 value is no parameter of the power law or the straight line and must not count as one."""
    said = 0
    for seed in range(8):
        value = 0.4 + 0.01 * np.random.default_rng(seed).standard_normal(30)
        said += (
            found(fit(Series.of(np.arange(1.0, 31.0), value, start=start), law=law), "no_better_than_flat") is not None
        )
    assert said >= 5


def test_a_rising_curve_is_better_than_flat_and_the_flat_law_is_not_asked(curve: Curve) -> None:
    for law in ("sigmoid", "power", "loglinear", "flat"):
        assert found(fit(curve(), law=law), "no_better_than_flat") is None
