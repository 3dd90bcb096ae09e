"""The even kind of randomness: fair to every weight, and evener than independent draws."""

from __future__ import annotations

import numpy as np
import pytest

from scalerl.curves.nodes import Nodes, lattice, systematic


@pytest.mark.parametrize("axes", [1, 2, 6])
def test_every_stretch_of_a_lattice_fills_its_axes_evenly(axes: int) -> None:
    points = lattice(2000, axes, np.random.default_rng(3))
    assert points.shape == (2000, axes)
    assert points.min() > 0
    assert points.max() < 1
    for stretch in np.split(points, 10):
        counts = np.stack([np.histogram(axis, bins=10, range=(0, 1))[0] for axis in stretch.T])
        assert np.abs(counts - 20).max() <= 8  # independent draws: sd 4.2, and 13 off somewhere in 600 cells
        assert counts.std() < 3.2


def test_axes_of_a_lattice_do_not_follow_each_other() -> None:
    correlation = np.corrcoef(lattice(2000, 6, np.random.default_rng(0)).T)
    assert np.abs(correlation - np.eye(6)).max() < 0.1


def test_systematic_draws_take_each_weight_its_fair_number_of_times_in_order() -> None:
    weight = np.array([0.5, 0.0, 0.3, 0.2])
    for seed in range(5):
        drawn = systematic(weight, 1000, np.random.default_rng(seed))
        assert (np.diff(drawn) >= 0).all()
        np.testing.assert_allclose(np.bincount(drawn, minlength=4), 1000 * weight, atol=1)


def test_a_second_set_of_nodes_integrates_a_narrow_peak() -> None:
    """A normal of sd .2 and .1, with a correlation, under a grid of wide steps: its mean and spread."""
    precision = np.linalg.inv([[0.04, 0.012], [0.012, 0.01]])

    def log_mass(points: np.ndarray) -> np.ndarray:
        off = points - np.array([0.3, -0.2])
        return np.asarray(-0.5 * np.einsum("ji,ik,jk->j", off, precision, off))

    rng = np.random.default_rng(0)
    nodes = Nodes.over_prior([(0.0, 1.5), (0.0, 0.8)])
    for _ in range(3):
        log_weight = log_mass(nodes.points) - nodes.log_density
        weight = np.exp(log_weight - log_weight.max())
        nodes = nodes.nearer(weight / weight.sum(), rng)
    weight = np.exp(log_mass(nodes.points) - nodes.log_density)
    mean = weight @ nodes.points / weight.sum()
    spread = np.sqrt(weight @ (nodes.points - mean) ** 2 / weight.sum())
    np.testing.assert_allclose(mean, [0.3, -0.2], atol=0.02)
    np.testing.assert_allclose(spread, [0.2, 0.1], rtol=0.08)
