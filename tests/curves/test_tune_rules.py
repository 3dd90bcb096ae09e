"""The rules of benchmarks/tune_rules.py: a choice made without a project must not know that project's scores."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "tune_rules.py"
SIMULATED = {
    "well specified": [0.8, 0.1, 0.8, 0.2, 1.0, 0.8],
    "plateau, then decay": [0.5, 0.3, 0.5, 0.4, 0.0, 0.0],
}


@pytest.fixture(scope="module")
def rules() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tune_rules", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tune_rules"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def candidates(rules: ModuleType, spoil: str | None = None, num: int = 40) -> list[Any]:
    """Two figures, three projects; the first figure lowers every score. `spoil`: a project with scores of nonsense."""
    rng = np.random.default_rng(0)
    forecasts = [rules.Forecast(p, s) for p in "abc" for s in (0.3, 0.4, 0.5) for _ in range(4)]
    found = []
    for number in range(num):
        point = np.array([0.5, 0.5]) if number == 0 else rng.uniform(0.0, 1.0, 2)
        score = np.full(len(forecasts), 2.0 - point[0])
        real = np.column_stack([np.full(len(forecasts), 0.8), score, score])
        if spoil:
            real[[f.project == spoil for f in forecasts]] = np.random.default_rng(number).uniform(0.1, 9.0, (12, 3))
        found.append(rules.Candidate(point, forecasts, real, SIMULATED))
    return found


@pytest.mark.parametrize("name", ["neutral", "best", "mean of best"])
def test_a_choice_does_not_see_the_project_left_out(rules: ModuleType, name: str) -> None:
    rule = rules.RULES[name]
    np.testing.assert_array_equal(rule(candidates(rules), "b"), rule(candidates(rules, spoil="b"), "b"))


@pytest.mark.parametrize("name", ["best", "mean of best"])
def test_a_choice_moves_the_figure_that_matters(rules: ModuleType, name: str) -> None:
    first, _ = rules.RULES[name](candidates(rules), None)
    assert first > 0.7


def test_coverage_outside_the_wanted_range_counts_against_a_candidate(rules: ModuleType) -> None:
    tried = candidates(rules)
    inside = rules.objective(tried, None)[1]
    tried[1].real[:, 0] = 0.95
    assert rules.objective(tried, None)[1] == pytest.approx(inside + 0.95 - rules.COVERAGE[1])


def test_pooled_scores_each_project_by_its_own_choice(rules: ModuleType) -> None:
    tried = candidates(rules)
    chosen = {"a": tried[1], "b": tried[2], "c": tried[2]}
    expected = (tried[1].real[0, 1] + 2 * tried[2].real[0, 1]) / 3
    assert rules.pooled(chosen)["0.3"]["crps"] == pytest.approx(expected)
    assert rules.pooled(chosen)["0.5"]["curves"] == 12
