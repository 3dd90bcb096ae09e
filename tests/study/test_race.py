"""The race: who is stopped, who is kept, and who needs more seeds."""

from __future__ import annotations

import pytest

from scalerl import InputError, Series
from scalerl.study.race import judge, undecided

from .simulated import curves_of_study, full_of

CURVES = {cell: list(seeds.values()) for cell, seeds in curves_of_study().items()}
FULL = full_of(CURVES)


def cut(share: float) -> dict[str, list[Series]]:
    return {cell: [one.window(None, share * FULL[cell]) for one in seeds] for cell, seeds in CURVES.items()}


def test_hopeless_cells_are_stopped_and_the_best_is_kept() -> None:
    made = {one.cell: one for one in judge(cut(0.6), "base", FULL, delta=0.02, threshold=0.05)}

    assert list(made) == list(CURVES)
    assert made["worse"].action == "stop"
    assert made["better"].action == "keep"
    assert made["worse"].probability is not None
    assert made["worse"].probability < 0.05 < (made["better"].probability or 0)
    assert "below 0.05" in made["worse"].reason


def test_the_base_is_never_stopped() -> None:
    made = {one.cell: one for one in judge(cut(0.9), "worse", FULL, delta=0.02, threshold=0.5)}

    assert made["worse"].action == "keep"
    assert made["worse"].probability == pytest.approx(0.0, abs=0.01)
    assert "never stopped" in made["worse"].reason


def test_a_wide_delta_keeps_everything() -> None:
    made = judge(cut(0.6), "base", FULL, delta=0.9, threshold=0.05)

    assert {one.action for one in made} == {"keep"}
    assert all(one.probability == 1.0 for one in made)


def test_the_order_of_the_cells_changes_nothing() -> None:
    seen = cut(0.6)
    there = {one.cell: one for one in judge(seen, "base", FULL, 0.02, 0.05)}
    back = {one.cell: one for one in judge(dict(reversed(seen.items())), "base", FULL, 0.02, 0.05)}

    assert there == back


def test_too_few_evaluations_are_not_judged() -> None:
    seen = {"base": cut(0.6)["base"], "worse": [one.head(2) for one in CURVES["worse"]]}

    made = {one.cell: one for one in judge(seen, "base", FULL, 0.02, 0.05)}

    assert made["worse"].action == "keep"
    assert made["worse"].probability is None
    assert "fewer than 8" in made["worse"].reason


def test_nothing_to_judge_keeps_all() -> None:
    made = judge({"base": [], "worse": []}, "base", FULL, 0.02, 0.05)

    assert [one.action for one in made] == ["keep", "keep"]


def test_seeds_that_disagree_are_judged_with_care() -> None:
    """The same mean curve is given up sooner when its seeds agree."""
    low = {"base": CURVES["base"], "slow": CURVES["slow"]}
    apart = [
        Series.of(one.compute, one.value + shift, 2000, start=0.3)
        for one, shift in zip(CURVES["slow"], (-0.09, 0.0, 0.09), strict=True)
    ]
    agreeing = judge(low, "base", FULL, 0.02, 0.05)[1].probability
    disagreeing = judge(low | {"slow": apart}, "base", FULL, 0.02, 0.05)[1].probability

    assert agreeing is not None
    assert disagreeing is not None
    assert agreeing + 0.05 < disagreeing


def test_the_undecided_are_named_and_the_decided_are_not() -> None:
    near = [Series.of(one.compute, one.value + 0.02, 2000, start=0.3) for one in CURVES["twin"]]

    found = undecided(CURVES | {"near": near}, "base", FULL | {"near": FULL["twin"]}, delta=0.02)

    assert "near" in found
    assert not {"base", "better", "worse"} & set(found)
    assert undecided({"base": [], "twin": CURVES["twin"]}, "base", FULL, delta=0.02) == []


@pytest.mark.parametrize(
    ("base", "delta", "threshold", "words"),
    [("nobody", 0.02, 0.05, "base"), ("base", -1.0, 0.05, "prune.delta"), ("base", 0.02, 1.5, "prune.threshold")],
)
def test_impossible_questions_are_refused(base: str, delta: float, threshold: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        judge(CURVES, base, FULL, delta, threshold)
