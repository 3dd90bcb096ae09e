"""The nodes at which a posterior is evaluated, and the even kind of randomness that `infer` draws with.

A first grid covers the prior. Each further set is drawn from a mixture of normals around the nodes of the last one, in
proportion to their weight, so that it follows a posterior of any form (a narrow ridge, a bend, two modes). The density
that a set was drawn with is divided out of its weights.

Knows nothing about laws, noise or data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from scalerl.series import FloatArray, IntArray

GRID = {0: (), 1: (60,), 2: (13, 9)}
"""Nodes of the first grid along each axis."""
REACH = 3.0
"""How far the first grid extends, in standard deviations of the prior."""
NUM_NODES = 256
WIDE_SHARE = 0.05
"""Share of a new set that is drawn from the whole last set, whatever its weights, so that nothing is lost for good."""

STEPS = np.sqrt([2.0, 5.0, 3.0, 7.0, 13.0, 11.0]) % 1.0
"""One for each axis of a `lattice`: irrational, and hard to approximate by fractions."""


@dataclass(frozen=True)
class Nodes:
    """J nodes and the log of the density they were drawn with, up to a constant."""

    points: FloatArray  # (J, axes)
    log_density: FloatArray  # (J,)
    spacing: FloatArray  # (axes,): how far apart they may be

    @classmethod
    def over_prior(cls, axes: Sequence[tuple[float, float]]) -> Nodes:
        """A regular grid over normal priors (mean, sd)."""
        counts = GRID[len(axes)]
        ticks = [mean + sd * np.linspace(-REACH, REACH, n) for (mean, sd), n in zip(axes, counts, strict=True)]
        if not ticks:
            return cls(np.zeros((1, 0)), np.zeros(1), np.zeros(0))
        points = np.stack([axis.ravel() for axis in np.meshgrid(*ticks, indexing="ij")], axis=1)
        return cls(points, np.zeros(points.shape[0]), np.array([tick[1] - tick[0] for tick in ticks]))

    def nearer(self, weight: FloatArray, rng: np.random.Generator) -> Nodes:
        """A new set around the weight (J,) of this one."""
        root = self._kernel(weight)
        share = (1 - WIDE_SHARE) * weight + WIDE_SHARE / weight.size
        order = np.argsort(self.points[:, 0])
        pick = order[systematic(share[order], NUM_NODES, rng)]
        points = self.points[pick] + ndtri(lattice(NUM_NODES, self.points.shape[1], rng)) @ root.T
        middle = points.mean(axis=0)
        new, old = (np.linalg.solve(root, (at - middle).T).T for at in (points, self.points))
        cross = new @ old.T + (np.log(share) - 0.5 * np.sum(old**2, axis=1))
        top = cross.max(axis=1)
        log_density = top + np.log(np.exp(cross - top[:, None]).sum(axis=1)) - 0.5 * np.sum(new**2, axis=1)
        return Nodes(points, log_density, 0.5 * np.sqrt(np.diag(root @ root.T)))

    def _kernel(self, weight: FloatArray) -> FloatArray:
        """Root of the kernel's covariance: that of the mass, shrunk the more nodes carry it, and half a spacing."""
        center = weight @ self.points
        apart = self.points - center
        covariance = (apart * weight[:, None]).T @ apart
        effective = 1 / float(np.sum(weight**2))
        floor = np.diag((0.5 * self.spacing) ** 2)
        root: FloatArray = np.linalg.cholesky(covariance * effective ** (-1 / 3) + floor)
        return root


def lattice(size: int, axes: int, rng: np.random.Generator) -> FloatArray:
    """Points (size, axes) that fill the unit cube evenly and in an even order: multiples of irrational steps, from a
    random start. Any stretch of them is even too, so beside a sorted list they leave less to luck than permutations."""
    points: FloatArray = (np.arange(1, size + 1)[:, None] * STEPS[:axes] + rng.random(axes)) % 1.0
    return np.clip(points, 0.01 / size, 1 - 0.01 / size)


def systematic(weight: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn in proportion to their weight, evenly and in their order."""
    total = np.cumsum(weight)
    at = (np.arange(size) + rng.random()) * (total[-1] / size)
    index: IntArray = np.minimum(np.searchsorted(total, at), weight.size - 1)
    return index
