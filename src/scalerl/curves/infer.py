"""From a curve to its posterior: nodes over the law's shape times noise settings, everything else in closed form.

Nodes cover the shape (ln midpoint and ln exponent for the sigmoid); the candidate noise settings form a fixed grid. At
each pair the two linear parameters (floor and gain) are marginalised analytically as a Gaussian, the noise by the
linear-time filter of `noise`. The first nodes are a grid over the prior; the next ones are drawn where the mass was
found (importance sampling), until enough of them matter. Draws are then taken from the nodes, with the linear
parameters truncated to the bounds of the value. No Markov chain, no dense covariance, the same draws for the same data.

Called by `fit` through `Fit.posterior`; the draws live in `posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtr, ndtri

from scalerl.curves.laws import LawName
from scalerl.curves.nodes import Nodes, lattice, systematic
from scalerl.curves.noise import Filter, NoiseGrid, Whitened
from scalerl.curves.posterior import Posterior
from scalerl.curves.prior import DEFAULT_PRIOR, Prior
from scalerl.curves.scale import Scale
from scalerl.curves.shapes import FIXED_SD, Belief, Present, Shape, shape_of
from scalerl.curves.spacing import Prepared, prepare, steepness
from scalerl.series import FloatArray, IntArray, Series

NUM_DRAWS = 3000
MAX_PASSES = 6
ENOUGH_NODES = 100.0
"""Effective number of nodes at which the search for the mass is over."""
ENOUGH_TO_PRUNE = 15.0
"""With fewer the best fit has not been seen yet, and small noise looks worse than it is."""
DEFAULT_N = 200.0
"""Answers behind a step-0 value that does not tell."""
AT_THE_END = 0.8
"""A seed that stopped before this share of the last compute says nothing about where the curve stands now."""
NEGLIGIBLE = 1e-6
"""Weight, over the largest, that is not drawn from."""
SEED = 20251013
"""Where the even sequences start; another start gives the same figures within their accuracy."""


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
    rng = np.random.default_rng(SEED)
    shape = shape_of(law, prior, _present(series, scale, floor, ceiling, prior))
    reach = _Reach.of(series)
    prepared = [prepare(s, scale, prior.drift_base) for s in series]
    noise = prior.noise_grid()
    filters = [Filter.of(p.spacing, noise) for p in prepared]
    nodes = Nodes.over_prior(shape.axes)
    found = _evaluate(nodes, shape, noise, prepared, filters)
    for number in range(MAX_PASSES if shape.axes else 0):
        if number and found.effective_nodes >= ENOUGH_NODES:
            break
        nodes = nodes.nearer(found.weight.sum(axis=0), rng)
        if found.effective_nodes >= ENOUGH_TO_PRUNE:
            matters = found.noise_weight(len(noise)) > 1e-4
            noise, filters = noise.take(matters), [f.take(matters) for f in filters]
        found = _evaluate(nodes, shape, noise, prepared, filters)
    return _draw(nodes, noise, found, _Problem(law, scale, shape, prior, reach), rng)


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
class _Problem:
    """What stays the same from pass to pass."""

    law: LawName
    scale: Scale
    shape: Shape
    prior: Prior
    reach: _Reach


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
class _Found:
    """Weight of each (belief x noise, node), the Gaussian of (a, b) there, and the filtered series."""

    weight: FloatArray
    parts: list[_Gaussian]
    """One for each belief."""
    at_the_end: list[Whitened]
    """Of the series that reach the last compute."""

    @property
    def effective_nodes(self) -> float:
        return float(1 / np.sum(self.weight.sum(axis=0) ** 2))

    def noise_weight(self, num_settings: int) -> FloatArray:
        """Weight of each noise setting, relative to the largest."""
        weight = self.weight.sum(axis=1).reshape(-1, num_settings).sum(axis=0)
        relative: FloatArray = weight / weight.max()
        return relative


def _evaluate(
    nodes: Nodes, shape: Shape, noise: NoiseGrid, prepared: Sequence[Prepared], filters: Sequence[Filter]
) -> _Found:
    at, last = nodes.points, max(float(p.compute[-1]) for p in prepared)
    filtered = [
        f.whiten(p.unit, shape.column(at, np.log(p.compute / last))) for f, p in zip(filters, prepared, strict=True)
    ]
    total = filtered[0]
    for more in filtered[1:]:
        total = total + more
    parts = [_condition(total, belief) for belief in shape.beliefs if belief.weight > 0]
    log_weight = np.concatenate([part.log_evidence for part in parts])
    log_weight += np.tile(noise.log_prior, len(parts))[:, None] - nodes.log_density
    for axis, (mean, sd) in enumerate(shape.axes):
        log_weight -= 0.5 * ((at[:, axis] - mean) / sd) ** 2
    weight = np.exp(log_weight - log_weight.max())
    at_the_end = [f for f, p in zip(filtered, prepared, strict=True) if p.compute[-1] >= AT_THE_END * last]
    return _Found(weight / weight.sum(), parts, at_the_end)


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


def _draw(nodes: Nodes, noise: NoiseGrid, found: _Found, problem: _Problem, rng: np.random.Generator) -> Posterior:
    """Draws are taken along the order of the values they lead to, each with the next point of an even sequence, so that
    every part of the forecast gets its fair share of everything else; shuffled at the end."""
    at = _Gaussian.stacked(found.parts)
    column = problem.shape.column(nodes.points, np.ones(1))[:, 0]
    heavy = _by_value(found.weight.ravel(), (at.mean_a + at.mean_b * column).ravel())
    pick = heavy[systematic(found.weight.ravel()[heavy], 2 * NUM_DRAWS, rng)]
    s, j = np.divmod(pick, column.size)
    base, gain, mass = _truncated(at, s, j, problem.scale, problem.shape, lattice(pick.size, 2, rng))
    inside = _by_value(mass, base + gain * column[j])
    keep = inside[systematic(mass[inside], NUM_DRAWS, rng)]
    even, shuffled = lattice(NUM_DRAWS, 6, rng), rng.permutation(NUM_DRAWS)
    luck, keep = np.concatenate([even[:, :2], ndtri(even[:, 2:])], axis=1)[shuffled], keep[shuffled]
    s, j, base, gain = s[keep] % len(noise), j[keep], base[keep], gain[keep]
    return Posterior(
        problem.law, problem.scale, problem.shape, problem.prior,
        problem.reach.first, problem.reach.last, problem.reach.interval,
        nodes.points[j], base, gain, _last_state(found.at_the_end, s, j, base, gain, luck[:, 4:]),
        np.stack([noise.white, noise.wobble, noise.memory, noise.drift], axis=1)[s], luck[:, [2, 3, 0, 1]],
    )  # fmt: skip


def _by_value(weight: FloatArray, value: FloatArray) -> IntArray:
    """Indices of the weights that matter, by what they expect one nat of compute from now."""
    heavy = np.flatnonzero(weight > NEGLIGIBLE * weight.max())
    ordered: IntArray = heavy[np.argsort(value[heavy])]
    return ordered


def _truncated(
    at: _Gaussian, s: IntArray, j: IntArray, scale: Scale, shape: Shape, even: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draws of (a, b) within the bounds, and the mass each node has there."""
    low, high = scale.limits
    mean_a, var_a, cov = at.mean_a[s, j], at.var_a[s, j], at.cov_ab[s, j]
    base, mass_a = _truncated_normal(mean_a, np.sqrt(var_a), low, high, even[:, 0])
    mean_b = at.mean_b[s, j] + cov / var_a * (base - mean_a)
    sd_b = np.sqrt(np.maximum(at.var_b[s, j] - cov**2 / var_a, 1e-18))
    if shape.limit == "none":
        return base, mean_b + sd_b * ndtri(even[:, 1]), mass_a
    room = high - base if shape.limit == "above" else base - low
    gain, mass_b = _truncated_normal(mean_b, sd_b, 0.0, room, even[:, 1])
    mass = mass_a * mass_b
    return base, gain, mass if mass.any() else np.ones_like(mass)


def _truncated_normal(
    mean: FloatArray, sd: FloatArray, low: FloatArray | float, high: FloatArray | float, even: FloatArray
) -> tuple[FloatArray, FloatArray]:
    below, above = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
    mass = np.maximum(above - below, 1e-300)
    draws = mean + sd * ndtri(np.clip(below + mass * even, 1e-15, 1 - 1e-15))
    return np.clip(draws, low, high), mass


def _last_state(
    filtered: Sequence[Whitened], s: IntArray, j: IntArray, base: FloatArray, gain: FloatArray, luck: FloatArray
) -> FloatArray:
    """The (wobble, drift) at the last point, averaged over the seeds that got there."""
    a, b = base[:, None], gain[:, None]
    means = [f.state[s, :, 0] - a * f.state[s, :, 1] - b * f.state[s, :, 2 + j] for f in filtered]
    covariance = np.sum([f.covariance[s] for f in filtered], axis=0) / len(filtered) ** 2
    root = np.linalg.cholesky(covariance + 1e-16 * np.eye(2))
    state: FloatArray = np.mean(means, axis=0) + np.einsum("mij,mj->mi", root, luck)
    return state


def _present(
    series: Sequence[Series], scale: Scale, floor: float | None, ceiling: float | None, prior: Prior
) -> Present:
    last = max(float(s.compute[-1]) for s in series)
    ends = [scale.to_unit(s.value[-3:]).mean() for s in series if s.compute[-1] >= AT_THE_END * last]
    now = float(np.mean(ends))
    top = None if ceiling is None else float(scale.to_unit(ceiling))
    steep = float(np.mean([steepness(np.log(s.compute), scale.to_unit(s.value)) for s in series]))
    start, start_sd = _start(series, scale, floor, prior)
    return Present(start, start_sd, now, steep, top)


def _start(series: Sequence[Series], scale: Scale, floor: float | None, prior: Prior) -> tuple[float, float]:
    """Where the law starts, and how sure that is."""
    if floor is not None:
        return float(scale.to_unit(floor)), FIXED_SD
    starts = [s.start for s in series if s.start is not None]
    if not starts:
        return float(np.mean([scale.to_unit(s.value[0]) for s in series])), prior.free_floor_sd
    start = float(np.mean([scale.to_unit(s.value) for s in starts]))
    share = np.clip(start, 0.02, 0.98)
    error = 0.25 * share * (1 - share) / sum(s.n or DEFAULT_N for s in starts)
    return start, float(np.sqrt(prior.floor_sd**2 + error))
