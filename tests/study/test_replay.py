"""The race on finished curves: what it saves, and what it would have changed."""

from __future__ import annotations

import numpy as np
import pytest

from scalerl import Series
from scalerl.study.replay import Race, Replay, replay

from .simulated import curves_of_study, full_of

CURVES = curves_of_study()


@pytest.fixture(scope="module")
def played() -> Replay:
    return replay(CURVES, "base", full_of(CURVES), Race((0.4, 0.7), delta=0.02, threshold=0.05))


def test_hopeless_cells_are_stopped_at_their_first_hopeless_rung(played: Replay) -> None:
    rungs = {one.cell: one.rung for one in played.stopped}

    assert rungs["worse"] == 0.4
    assert "base" not in rungs
    assert "better" not in rungs


def test_the_saving_is_what_stopped_cells_did_not_spend(played: Replay) -> None:
    left = sum(1 - one.rung for one in played.stopped)

    assert played.saved == pytest.approx(left / len(CURVES))
    assert 0.1 < played.saved < 0.5


def test_the_best_cell_and_its_verdict_survive(played: Replay) -> None:
    assert played.best_before == played.best_after == "better"
    assert played.verdicts == 4
    lost = {one.cell: one.after for one in played.changed}
    assert "better" not in lost
    assert set(lost.values()) <= {"lower at equal compute", "no difference shown"}  # known less well, never otherwise


def test_a_race_that_stops_nobody_changes_nothing() -> None:
    two = {cell: CURVES[cell] for cell in ("base", "twin")}

    found = replay(two, "base", full_of(two), Race((0.5,), delta=0.5, threshold=0.05))

    assert found.stopped == ()
    assert found.saved == 0.0
    assert found.changed == ()


def test_cells_without_a_curve_are_no_part_of_it() -> None:
    two = {"base": CURVES["base"], "worse": CURVES["worse"], "failed": {}}

    found = replay(two, "base", full_of(CURVES), Race((0.5,), delta=0.02, threshold=0.05))

    assert [one.cell for one in found.stopped] == ["worse"]
    assert found.saved == pytest.approx(0.25)


def test_no_cell_is_the_best_while_no_ceiling_is_known() -> None:
    """Straight lines have not bent: whichever is ahead, nobody knows where it ends."""
    compute = np.arange(100.0, 1001.0, 100.0)
    lines = {
        cell: {seed: Series.of(compute, 0.1 + slope * compute, 200) for seed in (0, 1)}
        for cell, slope in {"base": 1e-4, "other": 1.2e-4}.items()
    }
    found = replay(lines, "base", full_of(lines), Race((0.5,), delta=0.02, threshold=0.05))
    assert found.best_before is None
    assert found.best_after is None
