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


def whiten(value: FloatArray, shapes: FloatArray, spacing: Spacing, grid: NoiseGrid) -> Whitened:
    """Filter y, 1 and every row of `shapes` (J, N) under every noise setting of `grid`."""
    size, num_shapes, num_points = len(grid), shapes.shape[0], value.size
    columns = np.empty((num_points, num_shapes + 2))
    columns[:, 0], columns[:, 1], columns[:, 2:] = value, 1.0, shapes.T
    mean = np.zeros((size, 2, num_shapes + 2))
    cov = np.zeros((size, 2, 2))
    cov[:, 0, 0] = grid.wobble**2
    log_det = np.zeros(size)
    with_y = np.zeros((size, num_shapes + 2))
    with_1 = np.zeros((size, num_shapes + 2))
    squares = np.zeros((size, num_shapes + 2))
    white_var = grid.white**2
    for i in range(num_points):
        if i:
            _advance(mean, cov, grid, spacing.lag[i], spacing.step[i])
        gain = cov.sum(axis=2)  # P H', H = (1, 1)
        variance = gain.sum(axis=1) + white_var * spacing.sd[i] ** 2
        error = columns[i] - mean[:, 0] - mean[:, 1]
        scaled = error / variance[:, None]
        log_det += np.log(variance)
        with_y += scaled * error[:, :1]
        with_1 += scaled * error[:, 1:2]
        scaled_gain = gain[:, :, None]
        mean += scaled_gain * scaled[:, None, :]
        np.multiply(scaled, error, out=scaled)
        squares += scaled
        cov -= scaled_gain * (gain / variance[:, None])[:, None, :]
    return Whitened(
        log_det, with_y[:, 0], with_y[:, 1], with_1[:, 1], with_y[:, 2:], with_1[:, 2:], squares[:, 2:], mean, cov
    )  # fmt: skip


def _advance(mean: FloatArray, cov: FloatArray, grid: NoiseGrid, lag: float, step: float) -> None:
    """Predict the state at the next point, in place."""
    keep = grid.memory**lag
    mean[:, 0] *= keep[:, None]
    cov[:, 0, :] *= keep[:, None]
    cov[:, :, 0] *= keep[:, None]
    cov[:, 0, 0] += grid.wobble**2 * (1 - keep**2)
    cov[:, 1, 1] += (grid.drift * step) ** 2
