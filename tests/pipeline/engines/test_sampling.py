"""The draw: uniforms that depend on seed and position alone, and tokens that follow the distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from scalerl.pipeline.engines.sampling import sample, seed_bits, uniforms


def draw(seeds: list[int], positions: list[int]) -> NDArray[np.float64]:
    return uniforms(np.array([seed_bits(seed) for seed in seeds], dtype=np.uint64), np.array(positions))


def test_uniforms_are_a_function_of_seed_and_position() -> None:
    together = draw([3, 9, 3, 2**70 - 1, -5], [0, 0, 7, 1, 2])
    alone = [draw([seed], [position])[0] for seed, position in ((3, 0), (9, 0), (3, 7), (2**70 - 1, 1), (-5, 2))]
    assert together.tolist() == alone
    assert len(set(alone)) == 5


def test_uniforms_are_uniform_and_unrelated_between_neighbours() -> None:
    grid = np.stack([draw([seed] * 200, list(range(200))) for seed in range(200)])
    assert stats.kstest(grid.ravel(), "uniform").pvalue > 1e-3
    for shifted in (grid[1:, :], grid[:, 1:], grid[1:, 1:], grid[1:, :-1]):
        here = grid[tuple(slice(size) for size in shifted.shape)]
        # 40,000 pairs: the correlation of unrelated numbers has a standard deviation of 1/200
        assert abs(np.corrcoef(here.ravel(), shifted.ravel())[0, 1]) < 4 / 200


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_tokens_follow_the_distribution(temperature: float) -> None:
    logits = torch.tensor([1.0, -0.5, float("-inf"), 2.0, 0.3])
    count = 20_000
    token, logprob = sample(logits.expand(count, -1), draw(list(range(count)), [3] * count), temperature)
    expected = (logits / temperature).softmax(0)
    counts = np.bincount(token.numpy(), minlength=5)
    assert counts[2] == 0
    possible = [0, 1, 3, 4]
    assert stats.chisquare(counts[possible], expected[possible].numpy() * count, sum_check=False).pvalue > 1e-3
    assert torch.allclose(logprob, expected.log()[token], atol=1e-6)


def test_the_ends_of_the_unit_interval() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, 1.0, float("-inf")]]).expand(2, -1)
    token, _ = sample(logits, np.array([0.0, 1.0 - 2.0**-52]), 1.0)
    assert token.tolist() == [1, 2]
