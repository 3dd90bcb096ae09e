"""The posterior of a law given a curve: a grid over its shape and the noise, everything else in closed form.

Nodes cover the law's shape (ln midpoint and ln exponent for the sigmoid) times the candidate noise settings. At each
node the two linear parameters (floor and gain) are marginalised analytically as a Gaussian, the noise by the linear-time
filter of `noise`. The grid zooms in on where the mass is. Draws are then taken from the nodes, with the linear
parameters truncated to the bounds of the value. No MCMC, no dense covariance, the same draws for the same data.

Called by `fit`, `forecast`, `compare` and `decide` through `Posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from scalerl.curves.laws import LawName
from scalerl.curves.noise import NoiseGrid, Spacing, Whitened, whiten
from scalerl.curves.prior import DEFAULT_PRIOR, Prior
from scalerl.curves.scale import Scale
from scalerl.curves.shapes import FIXED_SD, Belief, Present, Shape, shape_of
from scalerl.series import FloatArray, Series

NUM_DRAWS = 2000
NODES_PER_AXIS = (15, 11)
MAX_ZOOMS = 6
MAX_POINTS = 400
"""A denser series is averaged over that many cells first."""
DEFAULT_N = 200.0
SEED = 20251013


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior; every array has the draws as its first axis. Values are on the unit scale."""

    law: LawName
    scale: Scale
    shape: Shape
    prior: Prior
    last_compute: float
    interval: float
    """Typical compute between two evaluations."""
    nodes: FloatArray  # (M, axes)
    base: FloatArray  # (M,) the linear parameter a
    gain: FloatArray  # (M,) the linear parameter b
    state: FloatArray  # (M, 2) wobble and drift at the last point
    noise: FloatArray  # (M, 4) white, wobble, memory, drift
    luck: FloatArray  # (M, 4) standard normals (2) and uniforms (2): one future per draw, shared by every horizon

    def parameter_draws(self) -> dict[str, FloatArray]:
        """Draws of the law's named parameters, in the units of the data."""
        last, width = self.last_compute, self.scale.width
        level = self.scale.to_value(self.base)
        if self.law == "sigmoid":
            ceiling = self.scale.to_value(self.base + self.gain)
            exponent, midpoint = np.exp(self.nodes[:, 1]), last * np.exp(self.nodes[:, 0])
            return {"floor": level, "ceiling": ceiling, "exponent": exponent, "midpoint": midpoint}
        if self.law == "power":
            exponent = np.exp(self.nodes[:, 0])
            return {"ceiling": level, "scale": width * self.gain * last**exponent, "exponent": exponent}
        if self.law == "loglinear":
            slope = width * self.gain
            return {"intercept": level - slope * np.log(last), "slope": slope}
        return {"level": level}

    def curve(self, compute: FloatArray) -> FloatArray:
        """The law itself, (M, K)."""
        t = np.log(np.atleast_1d(compute) / self.last_compute)
        columns = np.stack([self.shape.column(self.nodes, np.array([x]))[:, 0] for x in t], axis=1)
        return self.base[:, None] + self.gain[:, None] * columns

    def predictive(self, compute: FloatArray) -> FloatArray:
        """The value the policy would have, (M, K): law, carried wobble, growing discrepancy, flat and declining futures."""
        compute = np.atleast_1d(np.asarray(compute, dtype=np.float64))
        nats = np.maximum(np.log(compute / self.last_compute), 0.0)[None, :]
        ahead = np.maximum(compute / self.last_compute - 1, 0.0)[None, :] * (self.last_compute / self.interval)
        law, now = self.curve(compute), self.curve(np.array([self.last_compute]))
        flat, declines = self._futures()
        beyond = nats > 0
        path = np.where(flat[:, None] & beyond, now, law)
        path = np.where(declines[:, None] & beyond, now - self._decline() * nats, path)
        values = path + self._wobble(ahead) + self._drift(np.abs(path - now), nats)
        return np.clip(values, *self.scale.limits)

    def _futures(self) -> tuple[FloatArray, FloatArray]:
        flat = self.luck[:, 2] < self.prior.flat
        return flat, ~flat & (self.luck[:, 2] < self.prior.flat + self.prior.decay)

    def _decline(self) -> FloatArray:
        decline: FloatArray = -self.prior.decay_size * np.log(np.maximum(self.luck[:, 3:4], 1e-12))
        return decline

    def _wobble(self, ahead: FloatArray) -> FloatArray:
        sd, memory = self.noise[:, 1:2], self.noise[:, 2:3]
        keep = memory**ahead
        moved: FloatArray = self.state[:, 0:1] * keep + sd * np.sqrt(1 - keep**2) * self.luck[:, 0:1]
        return moved

    def _drift(self, rise: FloatArray, nats: FloatArray) -> FloatArray:
        """The discrepancy goes on growing, in proportion to the slope: the present one, or the path's if that is more."""
        slope = np.maximum(rise / np.maximum(nats, 1e-9), self._slope()[:, None])
        growth = np.where(nats > 0, (self.prior.drift_base + slope) * np.sqrt(nats), 0.0)
        moved: FloatArray = self.state[:, 1:2] + self.noise[:, 3:4] * growth * self.luck[:, 1:2]
        return moved

    def _slope(self) -> FloatArray:
        """d value / d ln compute of the law over the last quarter nat."""
        before, now = self.curve(self.last_compute * np.exp([-0.25, 0.0])).T
        return np.abs(now - before) / 0.25


def posterior(
    series: Sequence[Series],
    scale: Scale,
    law: LawName,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
    prior: Prior = DEFAULT_PRIOR,
) -> Posterior:
    """Posterior of one law for one curve, or for several seeds of one recipe. `floor`, `ceiling`: fixed values."""
    last_compute = max(float(s.compute[-1]) for s in series)
    shape = shape_of(law, prior, _present(series, scale, floor, ceiling, prior))
    series = [thinned(s) for s in series]
    units = [scale.to_unit(s.value) for s in series]
    spacings = [_spacing(s, y, scale, prior) for s, y in zip(series, units, strict=True)]
    grid = _Grid(shape, prior.noise_grid(), _box(shape))
    times = [np.log(s.compute / last_compute) for s in series]
    node_posterior = _evaluate(grid, times, units, spacings)
    for _ in range(MAX_ZOOMS):
        closer = grid.zoomed(node_posterior.weight)
        if closer is None:
            break
        grid = closer
        node_posterior = _evaluate(grid, times, units, spacings)
    interval = float(np.median(np.concatenate([np.diff(s.compute) for s in series]))) if len(series[0]) > 1 else last_compute
    return _draw(grid, node_posterior, law, scale, prior, last_compute, interval)


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
class _NodePosterior:
    """Weight of each (belief x noise, node), and the Gaussian of (a, b) there; shapes (K S, J)."""

    weight: FloatArray
    mean_a: FloatArray
    mean_b: FloatArray
    var_a: FloatArray
    var_b: FloatArray
    cov_ab: FloatArray
    filtered: list[Whitened]


def _evaluate(
    grid: _Grid, times: Sequence[FloatArray], units: Sequence[FloatArray], spacings: Sequence[Spacing]
) -> _NodePosterior:
    nodes = grid.nodes
    filtered = [
        whiten(y, grid.shape.column(nodes, t), spacing, grid.noise)
        for t, y, spacing in zip(times, units, spacings, strict=True)
    ]
    total = filtered[0]
    for more in filtered[1:]:
        total = total + more
    parts = [_condition(total, belief) for belief in grid.shape.beliefs]
    log_weight, *moments = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    log_weight += np.tile(grid.noise.log_prior, len(parts))[:, None]
    for axis, (mean, sd) in enumerate(grid.shape.axes):
        log_weight -= 0.5 * ((nodes[:, axis] - mean) / sd) ** 2
    weight = np.exp(log_weight - log_weight.max())
    return _NodePosterior(weight / weight.sum(), *moments, filtered)


def _condition(total: Whitened, belief: Belief) -> tuple[FloatArray, ...]:
    """(log evidence, mean a, mean b, var a, var b, cov ab), each (S, J), under one component of the prior."""
    precision = np.linalg.inv(belief.covariance)
    pull = precision @ belief.mean
    g11, g12, g22 = precision[0, 0] + total.c11[:, None], precision[0, 1] + total.g1, precision[1, 1] + total.gg
    r1, r2 = pull[0] + total.y1[:, None], pull[1] + total.yg
    det = g11 * g22 - g12**2
    mean_a, mean_b = (g22 * r1 - g12 * r2) / det, (g11 * r2 - g12 * r1) / det
    misfit = total.yy[:, None] + belief.mean @ pull - (r1 * mean_a + r2 * mean_b)
    volume = np.log(det) - np.linalg.slogdet(precision)[1]
    evidence = np.log(belief.weight) - 0.5 * (total.log_det[:, None] + misfit + volume)
    return evidence, mean_a, mean_b, g22 / det, g11 / det, -g12 / det


def _draw(
    grid: _Grid, at: _NodePosterior, law: LawName, scale: Scale, prior: Prior, last_compute: float, interval: float
) -> Posterior:
    rng = np.random.default_rng(SEED)
    pick = rng.choice(at.weight.size, size=3 * NUM_DRAWS, p=at.weight.ravel())
    s, j = np.divmod(pick, at.weight.shape[1])
    base, gain, mass = _truncated(at, s, j, scale, grid.shape.gain_only, rng)
    keep = rng.choice(pick.size, size=NUM_DRAWS, p=mass / mass.sum())
    s, j, base, gain = s[keep], j[keep], base[keep], gain[keep]
    nodes = grid.nodes[j]
    for axis, ticks in enumerate(grid.ticks):  # spread each draw over its cell
        nodes[:, axis] += (ticks[1] - ticks[0]) * (rng.random(NUM_DRAWS) - 0.5)
    s = s % len(grid.noise)  # the noise setting, whichever belief
    noise = np.stack([grid.noise.white, grid.noise.wobble, grid.noise.memory, grid.noise.drift], axis=1)[s]
    luck = np.concatenate([rng.standard_normal((NUM_DRAWS, 2)), rng.random((NUM_DRAWS, 2))], axis=1)
    state = _last_state(at.filtered, s, j, base, gain, rng)
    return Posterior(law, scale, grid.shape, prior, last_compute, interval, nodes, base, gain, state, noise, luck)


def _truncated(
    at: _NodePosterior, s: FloatArray, j: FloatArray, scale: Scale, gain_only: bool, rng: np.random.Generator
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
    filtered: Sequence[Whitened], s: FloatArray, j: FloatArray, base: FloatArray, gain: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The (wobble, drift) at the last point, averaged over the seeds."""
    mean = sum(
        f.state[s, :, 0] - base[:, None] * f.state[s, :, 1] - gain[:, None] * f.state[s, :, 2 + j] for f in filtered
    ) / len(filtered)
    covariance = sum(f.covariance[s] for f in filtered) / len(filtered) ** 2
    root = np.linalg.cholesky(covariance + 1e-16 * np.eye(2))
    return mean + np.einsum("mij,mj->mi", root, rng.standard_normal((s.size, 2)))


def thinned(series: Series) -> Series:
    """A dense series as means over cells of equal width in ln compute: the noise candidates then hold between cells."""
    if len(series) <= MAX_POINTS:
        return series
    t = np.log(series.compute)
    cell = np.minimum(((t - t[0]) / (t[-1] - t[0]) * MAX_POINTS).astype(int), MAX_POINTS - 1)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    weight = np.ones_like(t) if series.n is None else series.n
    total = np.add.reduceat(weight, first)
    compute = np.exp(np.add.reduceat(weight * t, first) / total)
    value = np.add.reduceat(weight * series.value, first) / total
    return replace(series, compute=compute, value=value, n=None if series.n is None else total)


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


def _spacing(series: Series, unit: FloatArray, scale: Scale, prior: Prior) -> Spacing:
    t = np.log(series.compute)
    lag = np.zeros(t.size)
    step = np.zeros(t.size)
    if t.size > 1:
        gaps = np.diff(series.compute)
        lag[1:] = np.clip(gaps / np.median(gaps), 0.2, 5.0)
        step[1:] = np.sqrt(np.diff(t)) * (prior.drift_base + np.abs(local_slope(t, unit))[1:])
    return Spacing(_evaluation_sd(series, unit, scale), lag, step)


def _evaluation_sd(series: Series, unit: FloatArray, scale: Scale) -> FloatArray:
    """Binomial where n is known; otherwise of the size that second differences show."""
    smooth = np.convolve(np.pad(unit, 1, mode="edge"), np.full(3, 1 / 3), mode="valid")
    share = np.clip(smooth, 0.02, 0.98)
    root = np.sqrt(share * (1 - share)) if scale.binomial else np.full(unit.size, 0.5)
    if series.n is not None and scale.binomial:
        return root / np.sqrt(series.n)
    return root * np.maximum(2 * second_difference_sd(unit) / root.mean(), 1e-4)


def second_difference_sd(unit: FloatArray) -> float:
    """Standard deviation of white noise, from how far each point lies off the middle of its neighbours."""
    if unit.size < 5:
        return 0.02
    off = unit[1:-1] - (unit[:-2] + unit[2:]) / 2
    return float(max(1.4826 * np.median(np.abs(off)), 0.5 * off.std()) / np.sqrt(1.5))


def local_slope(t: FloatArray, unit: FloatArray, width: float = 0.5, count: int = 5) -> FloatArray:
    """Slope d value / d ln compute around each point: a straight line through its neighbours within `width` nats,
    at least `count` points on either side; sums over windows come from running totals, so the cost is linear."""
    index = np.arange(t.size)
    low = np.minimum(np.searchsorted(t, t - width), np.maximum(index - count, 0))
    high = np.maximum(np.searchsorted(t, t + width, side="right"), np.minimum(index + count + 1, t.size))
    totals = [np.concatenate([[0.0], np.cumsum(c)]) for c in (np.ones_like(t), t, unit, t * t, t * unit)]
    n, st, su, stt, stu = (total[high] - total[low] for total in totals)
    spread = np.maximum(stt - st**2 / n, 1e-12)
    slope: FloatArray = (stu - st * su / n) / spread
    return slope
