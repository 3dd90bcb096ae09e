"""What a picture holds, before any canvas."""

from __future__ import annotations

import numpy as np
import pytest

from scalerl.curves import Fit, fit
from scalerl.errors import InputError
from scalerl.report.picture import MOST_MARKERS, pictures_of
from scalerl.series import Series


def test_points_are_told_apart(bent: Fit) -> None:
    (picture,), _ = pictures_of([bent])
    assert picture.before.total + picture.fitted.total + picture.held_out.total == 30
    assert picture.before.compute.max() < 150 < picture.fitted.compute.min()
    assert picture.fitted.compute.max() <= 8_000 < picture.held_out.compute.min()


def test_the_forecast_begins_where_the_fit_ends(bent: Fit) -> None:
    (picture,), frame = pictures_of([bent], [50_000.0])
    assert picture.past[-1] == pytest.approx(bent.last_compute)
    assert picture.future[0] == pytest.approx(bent.last_compute)
    assert picture.future[-1] == pytest.approx(frame.right)
    assert frame.right > 50_000
    assert picture.low is not None
    assert picture.high is not None
    assert (picture.low <= picture.median).all()
    assert (picture.median <= picture.high).all()
    np.testing.assert_allclose(picture.fitted_law, bent.value_at(picture.past))


def test_the_frame_holds_everything(bent: Fit) -> None:
    (picture,), frame = pictures_of([bent], [50_000.0], 0.7)
    assert frame.top > 0.7
    assert frame.left < picture.before.compute.min()
    assert frame.bottom < min(picture.before.value.min(), 0.3)


def test_an_unidentified_ceiling_is_not_drawn(bent: Fit, straight: Fit) -> None:
    (picture,), _ = pictures_of([straight])
    assert straight.ceiling is not None
    assert picture.ceiling is None
    (picture,), _ = pictures_of([bent])
    assert picture.ceiling == bent.ceiling


def test_many_points_are_thinned_and_keep_their_extremes() -> None:
    compute = np.geomspace(10, 1e5, 20_000)
    value = 0.5 + 0.01 * np.random.default_rng(0).standard_normal(compute.size)
    value[7_000], value[13_000] = 0.1, 0.9
    (picture,), _ = pictures_of([fit(Series.of(compute, value), law="flat")])
    assert picture.fitted.total == 20_000
    assert picture.fitted.compute.size <= MOST_MARKERS
    assert picture.fitted.value.min() == 0.1
    assert picture.fitted.value.max() == 0.9
    assert np.unique(picture.fitted.compute).size == picture.fitted.compute.size


def test_what_cannot_be_drawn_is_refused(bent: Fit) -> None:
    other = Series.of(np.arange(1, 12), np.linspace(0.1, 0.5, 11), name="other", compute_name="steps")
    with pytest.raises(InputError, match="nothing to plot"):
        pictures_of([])
    with pytest.raises(InputError, match="GPU-hours, steps"):
        pictures_of([bent, fit(other)])
    with pytest.raises(InputError, match="budget"):
        pictures_of([bent], [-1.0])
    with pytest.raises(InputError, match="target"):
        pictures_of([bent], target=float("nan"))
