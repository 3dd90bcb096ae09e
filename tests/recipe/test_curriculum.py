"""No-Positive-Resampling: when a problem goes, that it stays away, and that a checkpoint brings everything back."""

from __future__ import annotations

import json

import pytest

from scalerl.config import recipe as axes
from scalerl.errors import InputError
from scalerl.recipe.curriculum import NoPositiveResampling, UniformResampling, build_curriculum


def test_a_problem_goes_when_its_pass_rate_reaches_the_threshold() -> None:
    curriculum = NoPositiveResampling(threshold=0.9)
    curriculum.record("easy", correct=9, scored=10)  # exactly 0.9
    curriculum.record("hard", correct=14, scored=16)  # 0.875
    assert "easy" in curriculum.left_out
    assert "hard" not in curriculum.left_out
    assert "never seen" not in curriculum.left_out
    assert set(curriculum.left_out) == {"easy"}


def test_removed_is_removed_for_good() -> None:
    curriculum = NoPositiveResampling(threshold=0.9)
    curriculum.record("easy", 16, 16)
    curriculum.record("easy", 0, 16)  # a group that was still under way
    assert "easy" in curriculum.left_out


def test_latest_and_mean_history_differ() -> None:
    latest, mean = NoPositiveResampling(0.9, history="latest"), NoPositiveResampling(0.9, history="mean")
    for curriculum in (latest, mean):
        curriculum.record("problem", 0, 16)
        curriculum.record("problem", 16, 16)  # latest 1.0, mean 0.5
    assert "problem" in latest.left_out
    assert "problem" not in mean.left_out


def test_min_history_counts_scored_rollouts_over_all_groups() -> None:
    curriculum = NoPositiveResampling(0.9, min_history=20)
    curriculum.record("problem", 16, 16)
    assert "problem" not in curriculum.left_out
    curriculum.record("problem", 4, 4)
    assert "problem" in curriculum.left_out


def test_a_group_without_any_score_changes_nothing() -> None:
    curriculum = NoPositiveResampling(0.9)
    curriculum.record("problem", 0, 0)
    assert "problem" not in curriculum.left_out


def test_more_correct_than_scored_is_an_error() -> None:
    with pytest.raises(InputError, match=r"correct rollouts of problem: got 3; allowed: 0 to 2"):
        NoPositiveResampling(0.9).record("problem", 3, 2)


def test_the_state_survives_json_and_goes_on_where_it_was() -> None:
    curriculum = NoPositiveResampling(0.9, min_history=20, history="mean")
    curriculum.record("half way", 16, 16)
    curriculum.record("gone", 20, 20)
    again = NoPositiveResampling(0.9, min_history=20, history="mean")
    again.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    assert "gone" in again.left_out
    assert "half way" not in again.left_out
    again.record("half way", 4, 4)
    assert "half way" in again.left_out
    assert again.state_dict()["seen"]["half way"] == [20, 20]


def test_a_state_of_another_curriculum_is_refused() -> None:
    with pytest.raises(InputError, match="curriculum state"):
        NoPositiveResampling(0.9).load_state_dict({})
    with pytest.raises(InputError, match="the curriculum is uniform"):
        UniformResampling().load_state_dict({"seen": {}, "removed": []})


def test_built_from_the_config() -> None:
    uniform = build_curriculum(axes.UniformCurriculum(kind="uniform"))
    uniform.record("easy", 16, 16)
    assert "easy" not in uniform.left_out
    assert uniform.state_dict() == {}
    config = axes.NoPositiveCurriculum(kind="no_positive", threshold=0.5, min_history=3, history="mean")
    built = build_curriculum(config)
    assert isinstance(built, NoPositiveResampling)
    assert (built.threshold, built.min_history, built.history) == (0.5, 3, "mean")
