"""Interruption points and the length penalty."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from scalerl.recipe.length import interruption_point, length_penalty


def test_points_are_uniform_on_the_whole_window() -> None:
    counts = Counter(interruption_point(33, 40, seed) for seed in range(8000))
    assert sorted(counts) == list(range(33, 41))  # both ends included
    # 1,000 expected at each of 8 points, standard deviation 30
    assert max(abs(count - 1000) for count in counts.values()) < 120


def test_a_point_depends_on_the_seed_of_its_rollout_and_nothing_else() -> None:
    assert [interruption_point(0, 10**6, 7) for _ in range(3)] == [interruption_point(0, 10**6, 7)] * 3
    assert len({interruption_point(0, 10**6, seed) for seed in range(100)}) > 95


def test_a_window_of_one_point() -> None:
    assert interruption_point(12, 12, 5) == 12


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    [  # L_max 14, L_cache 2: (14 - tokens) / 2 - 1, between -1 and 0
        (1, 0.0),
        (12, 0.0),  # (14 - 12) / 2 - 1 = 0
        (13, -0.5),  # (14 - 13) / 2 - 1 = -1/2
        (14, -1.0),
        (20, -1.0),
    ],
)
def test_penalty_by_hand(tokens: int, penalty: float) -> None:
    assert length_penalty(torch.tensor([tokens]), max_tokens=14, cache_tokens=2).tolist() == [penalty]
