"""Residual noise of an evaluation curve, and the linear-time filter that whitens it.

Three parts add up: white noise of the evaluation (binomial shape, free scale), an AR(1) wobble of the policy from one
evaluation to the next, and a random walk in ln compute, the discrepancy between the law and the truth. All three are
Markov, so a Kalman filter whitens any number of columns in one pass over the points: cost grows linearly with the
points and no covariance matrix is ever built. The filter's gains do not depend on the columns, hence thousands of
candidate curves share them.

Called by `posterior`. It knows nothing about laws or priors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalerl.series import BoolArray, FloatArray


@dataclass(frozen=True)
class NoiseGrid:
    """S candidate noise settings; every array has shape (S,)."""

    white: FloatArray
    """Factor on the standard deviation of an evaluation."""
    wobble: FloatArray
    """Stationary standard deviation of the AR(1) part."""
    memory: FloatArray
    """Correlation of the AR(1) part between neighbouring evaluations."""
    drift: FloatArray
    """Factor on the standard deviation of the random walk."""
    log_prior: FloatArray

    def __len__(self) -> int:
        return int(self.white.size)

    def take(self, keep: BoolArray) -> NoiseGrid:
        return NoiseGrid(
            self.white[keep], self.wobble[keep], self.memory[keep], self.drift[keep], self.log_prior[keep]
        )  # fmt: skip


@dataclass(frozen=True)
class Spacing:
    """Per-point inputs of the noise model, each of shape (N,)."""

    sd: FloatArray
    """Standard deviation of each evaluation, before the factor `white`."""
    lag: FloatArray
    """Evaluations since the previous point (1 for an even spacing); the first is 0."""
    step: FloatArray
    """Standard deviation of the random walk's move since the previous point, before the factor `drift`."""


@dataclass(frozen=True)
class Whitened:
    """Inner products of whitened columns; S noise settings, J candidate curves.

    Columns: the data y, the constant 1, and one shape column g for every candidate.
    """

    log_det: FloatArray  # (S,)
    yy: FloatArray  # (S,)
    y1: FloatArray  # (S,)
    c11: FloatArray  # (S,)
    yg: FloatArray  # (S, J)
    g1: FloatArray  # (S, J)
    gg: FloatArray  # (S, J)
    state: FloatArray  # (S, 2, J + 2): filtered (wobble, drift) after the last point, for the columns y, 1, g
    covariance: FloatArray  # (S, 2, 2)

    def __add__(self, other: Whitened) -> Whitened:
        """Sum over independent series; the state kept is the first one's (see `posterior`)."""
        return Whitened(
            self.log_det + other.log_det, self.yy + other.yy, self.y1 + other.y1, self.c11 + other.c11,
            self.yg + other.yg, self.g1 + other.g1, self.gg + other.gg, self.state, self.covariance,
        )  # fmt: skip


@dataclass(frozen=True)
class Filter:
    """The Kalman filter of one series under S noise settings: all that does not depend on the columns."""

    gains: FloatArray  # (N, 2, S, 1): of wobble and drift, before division by the variance
    variances: FloatArray  # (N, S, 1): of the innovations
    keeps: FloatArray  # (N, S, 1): what is left of the wobble since the previous point
    covariance: FloatArray  # (S, 2, 2): of the state after the last point

    @classmethod
    def of(cls, spacing: Spacing, grid: NoiseGrid) -> Filter:
        """The covariance of the state is three numbers for each setting: wobble, wobble with drift, drift."""
        count, size = spacing.sd.size, len(grid)
        gains, variances, keeps = np.empty((count, 2, size, 1)), np.empty((count, size, 1)), np.ones((count, size, 1))
        p, q, r = grid.wobble**2, np.zeros(size), np.zeros(size)
        for i in range(count):
            if i:
                keep = grid.memory ** spacing.lag[i]
                keeps[i, :, 0] = keep
                p = keep**2 * p + grid.wobble**2 * (1 - keep**2)
                q = keep * q
                r = r + (grid.drift * spacing.step[i]) ** 2
            first, second = p + q, q + r
            variance = first + second + (grid.white * spacing.sd[i]) ** 2
            gains[i, 0, :, 0], gains[i, 1, :, 0], variances[i, :, 0] = first, second, variance
            p, q, r = p - first**2 / variance, q - first * second / variance, r - second**2 / variance
        return cls(gains, variances, keeps, np.stack([np.stack([p, q], axis=1), np.stack([q, r], axis=1)], axis=1))

    def take(self, keep: BoolArray) -> Filter:
        return Filter(self.gains[:, :, keep], self.variances[:, keep], self.keeps[:, keep], self.covariance[keep])

    def whiten(self, value: FloatArray, shapes: FloatArray) -> Whitened:
        """Filter y, 1 and every row of `shapes` (J, N) under every noise setting.

        Works in place on a few (S, J + 2) arrays: this loop is where a fit spends its time.
        """
        columns = np.concatenate([value[:, None], np.ones((value.size, 1)), shapes.T], axis=1)
        size = (self.variances.shape[1], columns.shape[1])
        wobble, drift, with_y, with_1, squares = (np.zeros(size) for _ in range(5))
        error, scaled, spare = (np.empty(size) for _ in range(3))
        for i in range(value.size):
            wobble *= self.keeps[i]
            np.subtract(columns[i], wobble, out=error)
            error -= drift
            np.divide(error, self.variances[i], out=scaled)
            np.multiply(scaled, error[:, :1], out=spare)
            with_y += spare
            np.multiply(scaled, error[:, 1:2], out=spare)
            with_1 += spare
            np.multiply(scaled, self.gains[i, 0], out=spare)
            wobble += spare
            np.multiply(scaled, self.gains[i, 1], out=spare)
            drift += spare
            scaled *= error
            squares += scaled
        return Whitened(
            np.log(self.variances[:, :, 0]).sum(axis=0), with_y[:, 0], with_y[:, 1], with_1[:, 1],
            with_y[:, 2:], with_1[:, 2:], squares[:, 2:], np.stack([wobble, drift], axis=1), self.covariance,
        )  # fmt: skip
