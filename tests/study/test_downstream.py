"""Downstream against in-distribution: the same versions, ranks over whole cells, and a plain reason where there are
none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from scalerl import Series
from scalerl.report.study_downstream import NONE_MEASURED
from scalerl.report.study_figures import study_figure
from scalerl.report.study_markdown import study_markdown
from scalerl.report.study_page import study_page
from scalerl.report.study_words import findings
from scalerl.study.analyse import Settings
from scalerl.study.downstream import downstream, rank_correlation
from scalerl.study.folder import StudyFolder
from scalerl.study.jobs import Outcome
from scalerl.study.results import to_text, write_results

from .simulated import LAST, curves_of_study, folder_of, full_of, study_config

CURVES = curves_of_study(("base", "twin", "worse", "better", "slow"), (0, 1))


def half_of(curves: Mapping[str, Mapping[int, Series]]) -> dict[str, dict[int, Series]]:
    """A harder set, measured at every second evaluation: half of the held-out value."""
    return {
        cell: {seed: Series.of(one.compute[1::2], 0.5 * one.value[1::2], 100) for seed, one in seeds.items()}
        for cell, seeds in curves.items()
    }


def test_the_ends_are_those_of_the_same_versions_and_the_order_is_compared() -> None:
    (found,) = downstream({"harder": half_of(CURVES)}, CURVES, full_of(CURVES), Settings())
    assert [cell.cell for cell in found.cells] == list(CURVES)
    for cell in found.cells:
        for seed, end in cell.ends.items():
            assert end.value == pytest.approx(0.5 * end.in_distribution)
            assert end.in_distribution == pytest.approx(CURVES[cell.cell][seed].value[[11, 13, 15]].mean())
        assert cell.value.low is not None
        assert cell.value.low < cell.value.value
        assert cell.joint is not None
        assert cell.joint.parameters["ceiling"].value < 0.5
    assert found.correlation is not None
    assert found.correlation.value == pytest.approx(1.0)
    assert found.ranked == 5
    assert found.correlation.low is not None
    assert found.correlation.low < 0.9  # five cells in order are no proof


def test_a_cell_that_was_stopped_is_shown_and_not_ranked() -> None:
    cut = CURVES | {"worse": {seed: one.window(None, LAST / 2) for seed, one in CURVES["worse"].items()}}
    (found,) = downstream({"harder": half_of(cut)}, cut, full_of(cut), Settings())
    assert {cell.cell: cell.whole for cell in found.cells}["worse"] is False
    assert found.ranked == 4


@pytest.mark.parametrize(
    ("cells", "factor", "reason"),
    [
        (("base", "worse"), 1.0, "2 of the cells got to the full budget, and ranks need 3"),
        (("base", "worse", "slow"), 0.0, "all cells end at the same downstream value"),
    ],
)
def test_without_ranks_there_is_a_reason_and_no_number(cells: tuple[str, ...], factor: float, reason: str) -> None:
    chosen = {cell: CURVES[cell] for cell in cells}
    flat = {
        cell: {seed: Series.of(one.compute, factor * one.value) for seed, one in seeds.items()}
        for cell, seeds in chosen.items()
    }
    (found,) = downstream({"x": flat}, chosen, full_of(chosen), Settings())
    assert found.correlation is None
    assert found.reason == reason


def test_a_set_measured_at_step_0_only_has_no_end_and_one_seed_has_no_interval() -> None:
    nothing = {cell: {0: Series.of([], [])} for cell in CURVES}
    (found,) = downstream({"x": nothing}, CURVES, full_of(CURVES), Settings())
    assert found.cells == ()
    single = {cell: {0: seeds[0]} for cell, seeds in CURVES.items()}
    (one,) = downstream({"x": half_of(single)}, single, full_of(single), Settings())
    assert one.cells[0].value.low is None


@pytest.mark.parametrize("seed", range(3))
def test_the_rank_correlation_is_spearmans(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, 9).astype(float)  # with ties
    y = x + rng.normal(size=9)
    found = rank_correlation(x, y, 0.8)
    assert found.value == pytest.approx(spearmanr(x, y).statistic)
    assert found.low is not None
    assert found.high is not None
    assert -1 <= found.low < found.value < found.high <= 1
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]), 0.8).low is None


def test_the_interval_holds_about_as_often_as_it_says() -> None:
    """Twelve cells whose two values correlate by .7: Spearman's is then about .68."""
    rng = np.random.default_rng(5)
    truth = 6 / np.pi * np.arcsin(0.7 / 2)
    inside = 0
    for _ in range(400):
        x = rng.normal(size=12)
        found = rank_correlation(x, 0.7 * x + np.sqrt(1 - 0.49) * rng.normal(size=12), 0.8)
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
    assert 0.74 < inside / 400 < 0.9


def _with_set(path: Path) -> StudyFolder:
    """A study of a command whose log has a second metric."""
    folder = folder_of(path, CURVES)
    config = study_config(tuple(CURVES), (0, 1))
    told = config.model_copy(
        update={"runner": config.runner.model_copy(update={"downstream": {"harder": "eval/harder"}})}
    )
    for job in folder.plan.jobs:
        series = CURVES[job.cell][job.seed]
        rows = zip(series.compute.tolist(), series.value.tolist(), strict=True)
        text = "".join(f"{c!r},{v!r},2000,{0.5 * v!r}\n" for c, v in [(0.0, 0.3), *rows])
        (folder.run_path(job) / "log.csv").write_text("compute,pass_rate,n,eval/harder\n" + text)
        folder.write_outcome(job, Outcome("finished", 1.0))
    return StudyFolder.create_or_open(path, told)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return write_results(_with_set(tmp_path_factory.mktemp("study") / "one"))


def test_the_results_hold_everything_that_is_drawn(results: dict[str, Any]) -> None:
    (found,) = json.loads(to_text(results))["downstream"]
    assert found["name"] == "harder"
    assert found["correlation"]["value"] == pytest.approx(1.0)
    assert [cell["name"] for cell in found["cells"]] == list(CURVES)
    assert len(found["cells"][0]["seeds"]) == 2
    assert len(found["cells"][0]["seeds"][0]["curve"]["value"]) == 16
    assert found["cells"][0]["joint"]["ceiling"]["value"] < 0.5


def test_every_format_shows_it(results: dict[str, Any]) -> None:
    said = "Downstream set harder: rank correlation with the held-out value 1.00"
    assert findings(results)[-1].startswith(said)
    page, text = study_page(results), study_markdown(results)
    assert said in text
    assert "Cell, set harder" in text
    assert said in page
    assert "harder against held-out, one point for each cell" in page
    assert page.count("<title>") == 1 + len(CURVES)  # one for each point of the picture, and the page's own
    titles = [axes.get_title(loc="left") for axes in study_figure(results).axes]
    assert "harder, rank correlation 1.0" in titles


def test_a_name_stays_a_name(results: dict[str, Any]) -> None:
    evil = json.loads(to_text(results).replace('"worse"', '"<img src=x>|"').replace("harder", "<b>"))
    page = study_page(evil)
    assert "<img" not in page
    assert "<b>" not in page
    assert "<img" not in study_markdown(evil)


def test_a_study_without_sets_says_so_and_has_one_empty_field(tmp_path: Path) -> None:
    found = write_results(folder_of(tmp_path / "study", curves_of_study(("base", "worse"), (0,))))
    assert found["downstream"] == []
    old = {key: value for key, value in found.items() if key != "downstream"}  # as published before
    for document in (found, old):
        assert NONE_MEASURED in study_markdown(document)
        assert NONE_MEASURED in study_page(document)
        assert not any("rank" in axes.get_title(loc="left") for axes in study_figure(document).axes)
