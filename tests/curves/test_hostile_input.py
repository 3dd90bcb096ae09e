"""Curves whose numbers once overflowed inside the engine; each was found by fuzzing (tests/fuzz)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scalerl.curves import fit
from scalerl.curves.laws import LAWS, LawName
from scalerl.errors import InputError
from scalerl.series import Series, StartValue

STEPS = np.arange(1.0, 9.0)
STEEP = np.where(STEPS < 5, 0.0, 1.0)
RISING = STEPS / 10


@pytest.mark.parametrize(
    ("compute", "value", "what"),
    [
        (1e307 * STEPS, RISING, "a compute"),
        (1e-300 * STEPS, RISING, "a compute"),
        (100 * STEPS, 1e300 * STEPS, "a value"),
        (100 * STEPS, 5e-324 * STEPS, "a value"),
    ],
)
def test_numbers_whose_squares_are_none(compute: np.ndarray, value: np.ndarray, what: str) -> None:
    with pytest.raises(InputError, match=f"{what} that cannot be fitted"):
        fit(Series.of(compute, value), bounds=None)


@pytest.mark.parametrize("count", [5e-324, 1e-300, 1e300])
def test_a_number_of_answers_whose_square_is_none(count: float) -> None:
    """Behind a point, and behind the start."""
    with pytest.raises(InputError, match="an n that cannot be fitted"):
        fit(Series.of(100 * STEPS, RISING, np.where(STEPS == 4, count, 128.0)))
    with pytest.raises(InputError, match="an n that cannot be fitted"):
        fit(Series.of(100 * STEPS, RISING, start=StartValue(0.05, count)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("compute", "value"),
    [
        (1 + 2.3e-16 * STEPS, RISING),  # nearly one compute: both columns of the law are one
        (1e21 + 2e5 * STEPS, RISING),
        (1e30 * STEPS, STEEP),  # 1e30 to the power of a steep curve
        (10.0 ** (-39 + 9 * STEPS), RISING),  # a span of sixty decades
        (10.0 ** (4 * STEPS), np.where(STEPS == 3, 9e39, -1e-39)),
    ],
    ids=["nearly one compute", "nearly one large compute", "steep", "wide", "one outlier"],
)
def test_whatever_is_fitted_has_finite_parameters(law: LawName, compute: np.ndarray, value: np.ndarray) -> None:
    found = fit(Series.of(compute, value), law=law, bounds=None)
    json.dumps(found.to_dict(), allow_nan=False)
    assert all(np.isfinite(estimate.value) for estimate in found.parameters.values())
