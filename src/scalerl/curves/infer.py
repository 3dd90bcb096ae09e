"""From a curve to its posterior: a grid over the law's shape and the noise, everything else in closed form.

Nodes cover the shape (ln midpoint and ln exponent for the sigmoid) times the candidate noise settings. At each node the
two linear parameters (floor and gain) are marginalised analytically as a Gaussian, the noise by the linear-time filter
of `noise`. The grid zooms in on where the mass is. Draws are then taken from the nodes, with the linear parameters
truncated to the bounds of the value. No MCMC, no dense covariance, the same draws for the same data.

Called by `fit` through `Fit.posterior`; the draws live in `posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtr, ndtri

from scalerl.curves.laws import LawName
from scalerl.curves.noise import NoiseGrid, Whitened, whiten
from scalerl.curves.posterior import Posterior
from scalerl.curves.prior import DEFAULT_PRIOR, Prior
from scalerl.curves.scale import Scale
from scalerl.curves.shapes import FIXED_SD, Belief, Present, Shape, shape_of
from scalerl.curves.spacing import Prepared, prepare
from scalerl.series import FloatArray, IntArray, Series

NUM_DRAWS = 2000
NODES_PER_AXIS = (15, 11)
MAX_ZOOMS = 6
DEFAULT_N = 200.0
"""Answers behind a step-0 value that does not tell."""
SEED = 20251013


def infer(
    series: Sequence[Series],
    scale: Scale,
    law: LawName,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
    prior: Prior = DEFAULT_PRIOR,
) -> Posterior:
    """Posterior of one law for one curve, or for several seeds of one recipe. `floor`, `ceiling`: fixed values."""
    shape = shape_of(law, prior, _present(series, scale, floor, ceiling, prior))
    reach = _Reach.of(series)
    prepared = [prepare(s, scale, prior.drift_base) for s in series]
    grid = _Grid(shape, prior.noise_grid(), _box(shape))
    node_posterior = _evaluate(grid, prepared, reach.last)
    for _ in range(MAX_ZOOMS):
        closer = grid.zoomed(node_posterior.weight)
        if closer is None:
            break
        grid = closer
        node_posterior = _evaluate(grid, prepared, reach.last)
    return _draw(grid, node_posterior, law, scale, prior, reach)


@dataclass(frozen=True)
class _Reach:
    """The compute of the first and the last point, and what lies between two of them."""

    first: float
    last: float
    interval: float

    @classmethod
    def of(cls, series: Sequence[Series]) -> _Reach:
        first, last = min(float(s.compute[0]) for s in series), max(float(s.compute[-1]) for s in series)
        gaps = np.concatenate([np.diff(s.compute) for s in series])
        return cls(first, last, float(np.median(gaps)) if gaps.size else last)


@dataclass(frozen=True)
class _Grid:
    """The nodes under consideration."""

    shape: Shape
    noise: NoiseGrid
    box: FloatArray  # (axes, 2)

    @property
    def ticks(self) -> list[FloatArray]:
        return [np.linspace(low, high, count) for (low, high), count in zip(self.box, NODES_PER_AXIS, strict=False)]

    @property
    def nodes(self) -> FloatArray:
        if not len(self.box):
            return np.zeros((1, 0))
        return np.stack([axis.ravel() for axis in np.meshgrid(*self.ticks, indexing="ij")], axis=1)

    def zoomed(self, weight: FloatArray) -> _Grid | None:
        """The box around the mass, or None when it already fills this one."""
        if not len(self.box):
            return None
        per_node = weight.sum(axis=0).reshape([ticks.size for ticks in self.ticks])
        box = np.array([_extent(per_node, axis, ticks) for axis, ticks in enumerate(self.ticks)])
        box = np.clip(box, self.box[:, :1], self.box[:, 1:])
        if np.prod(np.diff(box, axis=1)) > 0.5 * np.prod(np.diff(self.box, axis=1)):
            return None
        per_noise = weight.sum(axis=1).reshape(len(self.shape.beliefs), -1).sum(axis=0)
        return _Grid(self.shape, self.noise.take(per_noise > 1e-4 * per_noise.max()), box)


def _extent(per_node: FloatArray, axis: int, ticks: FloatArray) -> tuple[float, float]:
    marginal = per_node.sum(axis=tuple(i for i in range(per_node.ndim) if i != axis))
    inside = np.flatnonzero(marginal > 1e-3 * marginal.max())
    step = ticks[1] - ticks[0]
    return float(ticks[inside[0]] - step), float(ticks[inside[-1]] + step)


def _box(shape: Shape) -> FloatArray:
    return np.array([(mean - 3 * sd, mean + 3 * sd) for mean, sd in shape.axes]).reshape(-1, 2)


@dataclass(frozen=True)
class _Gaussian:
    """The linear parameters (a, b) at each (belief x noise, node), and the evidence; every array is (K S, J)."""

    log_evidence: FloatArray
    mean_a: FloatArray
    mean_b: FloatArray
    var_a: FloatArray
    var_b: FloatArray
    cov_ab: FloatArray

    @classmethod
    def stacked(cls, parts: Sequence[_Gaussian]) -> _Gaussian:
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True)
class _NodePosterior:
    """Weight of each (belief x noise, node), the Gaussian of (a, b) there, and the filtered series."""

    weight: FloatArray
    linear: _Gaussian
    filtered: list[Whitened]


def _evaluate(grid: _Grid, prepared: Sequence[Prepared], last_compute: float) -> _NodePosterior:
    nodes = grid.nodes
    filtered = [
        whiten(p.unit, grid.shape.column(nodes, np.log(p.compute / last_compute)), p.spacing, grid.noise)
        for p in prepared
    ]
    total = filtered[0]
    for more in filtered[1:]:
        total = total + more
    parts = [_condition(total, belief) for belief in grid.shape.beliefs]
    log_weight = np.concatenate([part.log_evidence for part in parts])
    log_weight += np.tile(grid.noise.log_prior, len(parts))[:, None]
    for axis, (mean, sd) in enumerate(grid.shape.axes):
        log_weight -= 0.5 * ((nodes[:, axis] - mean) / sd) ** 2
    weight = np.exp(log_weight - log_weight.max())
    return _NodePosterior(weight / weight.sum(), _Gaussian.stacked(parts), filtered)


def _condition(total: Whitened, belief: Belief) -> _Gaussian:
    """The linear parameters under one component of the prior."""
    precision = np.linalg.inv(belief.covariance)
    pull = precision @ belief.mean
    g11, g12, g22 = precision[0, 0] + total.c11[:, None], precision[0, 1] + total.g1, precision[1, 1] + total.gg
    r1, r2 = pull[0] + total.y1[:, None], pull[1] + total.yg
    det = g11 * g22 - g12**2
    mean_a, mean_b = (g22 * r1 - g12 * r2) / det, (g11 * r2 - g12 * r1) / det
    misfit = total.yy[:, None] + belief.mean @ pull - (r1 * mean_a + r2 * mean_b)
    volume = np.log(det) - np.linalg.slogdet(precision)[1]
    evidence = np.log(belief.weight) - 0.5 * (total.log_det[:, None] + misfit + volume)
    return _Gaussian(evidence, mean_a, mean_b, g22 / det, g11 / det, -g12 / det)


def _draw(grid: _Grid, at: _NodePosterior, law: LawName, scale: Scale, prior: Prior, reach: _Reach) -> Posterior:
    rng = np.random.default_rng(SEED)
    pick = rng.choice(at.weight.size, size=3 * NUM_DRAWS, p=at.weight.ravel())
    s, j = np.divmod(pick, at.weight.shape[1])
    base, gain, mass = _truncated(at.linear, s, j, scale, grid.shape.gain_only, rng)
    keep = rng.choice(pick.size, size=NUM_DRAWS, p=mass / mass.sum())
    s, j, base, gain = s[keep], j[keep], base[keep], gain[keep]
    nodes = grid.nodes[j]
    for axis, ticks in enumerate(grid.ticks):  # spread each draw over its cell
        nodes[:, axis] += (ticks[1] - ticks[0]) * (rng.random(NUM_DRAWS) - 0.5)
    s = s % len(grid.noise)  # the noise setting, whichever belief
    noise = np.stack([grid.noise.white, grid.noise.wobble, grid.noise.memory, grid.noise.drift], axis=1)[s]
    luck = np.concatenate([rng.standard_normal((NUM_DRAWS, 2)), rng.random((NUM_DRAWS, 2))], axis=1)
    state = _last_state(at.filtered, s, j, base, gain, rng)
    return Posterior(
        law, scale, grid.shape, prior, reach.first, reach.last, reach.interval, nodes, base, gain, state, noise, luck
    )  # fmt: skip


def _truncated(
    at: _Gaussian, s: IntArray, j: IntArray, scale: Scale, gain_only: bool, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draws of (a, b) within the bounds, and the mass each node has there."""
    low, high = scale.limits
    mean_a, var_a, cov = at.mean_a[s, j], at.var_a[s, j], at.cov_ab[s, j]
    base, mass_a = _truncated_normal(mean_a, np.sqrt(var_a), low, high, rng)
    mean_b = at.mean_b[s, j] + cov / var_a * (base - mean_a)
    sd_b = np.sqrt(np.maximum(at.var_b[s, j] - cov**2 / var_a, 1e-18))
    if not gain_only:
        return base, mean_b + sd_b * rng.standard_normal(base.size), mass_a
    gain, mass_b = _truncated_normal(mean_b, sd_b, 0.0, high - base, rng)
    return base, gain, mass_a * mass_b


def _truncated_normal(
    mean: FloatArray, sd: FloatArray, low: FloatArray | float, high: FloatArray | float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    below, above = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
    mass = np.maximum(above - below, 1e-300)
    draws = mean + sd * ndtri(np.clip(below + mass * rng.random(mean.size), 1e-15, 1 - 1e-15))
    return np.clip(draws, low, high), mass


def _last_state(
    filtered: Sequence[Whitened], s: IntArray, j: IntArray, base: FloatArray, gain: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The (wobble, drift) at the last point, averaged over the seeds."""
    a, b = base[:, None], gain[:, None]
    means = [f.state[s, :, 0] - a * f.state[s, :, 1] - b * f.state[s, :, 2 + j] for f in filtered]
    covariance = np.sum([f.covariance[s] for f in filtered], axis=0) / len(filtered) ** 2
    root = np.linalg.cholesky(covariance + 1e-16 * np.eye(2))
    state: FloatArray = np.mean(means, axis=0) + np.einsum("mij,mj->mi", root, rng.standard_normal((s.size, 2)))
    return state


def _present(
    series: Sequence[Series], scale: Scale, floor: float | None, ceiling: float | None, prior: Prior
) -> Present:
    now = float(np.mean([scale.to_unit(s.value[-3:]).mean() for s in series]))
    fixed = None if ceiling is None else float(scale.to_unit(ceiling))
    if floor is not None:
        return Present(float(scale.to_unit(floor)), FIXED_SD, now, fixed)
    starts = [s.start for s in series if s.start is not None]
    if not starts:
        return Present(float(np.mean([scale.to_unit(s.value[0]) for s in series])), prior.free_floor_sd, now, fixed)
    start = float(np.mean([scale.to_unit(s.value) for s in starts]))
    share = np.clip(start, 0.02, 0.98)
    error = 0.25 * share * (1 - share) / sum(s.n or DEFAULT_N for s in starts)
    return Present(start, float(np.sqrt(prior.floor_sd**2 + error)), now, fixed)
