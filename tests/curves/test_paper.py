"""The paper's own numbers on its 8B curve, from points read off its figure 1, with the tolerances that these allow."""

from __future__ import annotations

import numpy as np
import pytest

from scalerl.curves import Fit, fit
from scalerl.curves.paper import CEILINGS, MIDPOINTS
from scalerl.errors import InputError
from scalerl.series import Series

WINDOWS = ((1500, 50000), (0, 50000), (5000, 50000), (0, 100000))
"""The windows of the paper's table A.7."""


def value(found: Fit, name: str) -> float:
    return found.parameters[name].value


def codes(found: Fit) -> set[str]:
    return {d.code for d in found.diagnostics}


def test_sigmoid_on_the_papers_window(eight_b: Series) -> None:
    found = fit(eight_b, floor=0.40, window=(1500, 50000))
    assert value(found, "ceiling") == pytest.approx(0.645, abs=0.02)
    assert value(found, "exponent") == pytest.approx(1.70, abs=0.15)


def test_the_ceiling_hardly_depends_on_the_window(eight_b: Series) -> None:
    ceilings = [value(fit(eight_b, floor=0.40, window=window), "ceiling") for window in WINDOWS]
    assert max(ceilings) - min(ceilings) <= 0.02


def test_the_ceiling_interval_holds_the_papers_value(eight_b: Series) -> None:
    ceiling = fit(eight_b, floor=0.40, window=(1500, 50000)).ceiling
    assert ceiling is not None
    assert ceiling.low is not None
    assert ceiling.high is not None
    assert ceiling.low <= 0.645 <= ceiling.high


def test_the_power_law_runs_to_its_bound_on_the_papers_window(eight_b: Series) -> None:
    found = fit(eight_b, law="power", window=(1500, 50000))
    assert value(found, "ceiling") == 1.0
    assert "at_bound" in codes(found)
    assert any("ceiling" in d.message for d in found.diagnostics if d.code == "at_bound")


def test_the_power_law_on_a_later_window(eight_b: Series) -> None:
    found = fit(eight_b, law="power", window=(5000, 50000))
    assert 0.72 <= value(found, "ceiling") <= 0.75
    assert not any("ceiling (" in d.message for d in found.diagnostics if d.code == "at_bound")


def test_the_papers_procedure_for_the_power_law(paper_power: Fit) -> None:
    assert 0.73 <= value(paper_power, "ceiling") <= 0.75


def test_the_papers_procedure_agrees_with_ours(eight_b: Series, paper_sigmoid: Fit) -> None:
    ours = fit(eight_b, floor=0.40, window=(1500, 50000))
    assert value(paper_sigmoid, "ceiling") == pytest.approx(value(ours, "ceiling"), abs=0.005)
    assert value(paper_sigmoid, "exponent") == pytest.approx(value(ours, "exponent"), abs=0.1)


def test_the_papers_procedure_answers_on_its_grid_and_without_intervals(paper_sigmoid: Fit) -> None:
    assert np.isclose(CEILINGS["sigmoid"], value(paper_sigmoid, "ceiling")).any()
    assert np.isclose(MIDPOINTS, value(paper_sigmoid, "midpoint")).any()
    for estimate in paper_sigmoid.parameters.values():
        assert (estimate.low, estimate.high) == (None, None)


def test_the_papers_grids_are_those_it_states() -> None:
    np.testing.assert_allclose(CEILINGS["sigmoid"], np.arange(0.450, 0.8001, 0.005))
    np.testing.assert_allclose(MIDPOINTS, np.linspace(100, 40000, 100))


def test_the_papers_procedure_refuses_what_it_cannot_do(eight_b: Series) -> None:
    with pytest.raises(InputError, match="needs a floor"):
        fit(eight_b, method="paper")
    with pytest.raises(InputError, match="no such law"):
        fit(eight_b, law="flat", floor=0.4, method="paper")
    with pytest.raises(InputError, match="fixed ceiling"):
        fit(eight_b, floor=0.4, ceiling=0.6, method="paper")


def test_forecasting_100k_from_the_first_50k(eight_b: Series) -> None:
    """What the paper shows in its figure 1: the second half of the run, from the first."""
    from scalerl.curves import forecast

    found = fit(eight_b, floor=0.40, window=(1500, 50000))
    held_out = found.held_out[0]
    assert held_out.compute[0] > 50000
    rows = forecast(found, held_out.compute)
    inside = [row.low <= v <= row.high for row, v in zip(rows, held_out.value, strict=True)
              if row.low is not None and row.high is not None]  # fmt: skip
    assert len(inside) == len(held_out)
    assert np.mean(inside) >= 0.6
    assert np.abs([row.value - v for row, v in zip(rows, held_out.value, strict=True)]).max() < 0.02
