"""Least squares for the laws: variable projection, then a polish.

Each law is linear in two parameters once its shape is known. So the search runs over the shape alone (ln midpoint and
ln exponent for the sigmoid, ln exponent for the power law) on a grid, with the linear parameters in closed form within
their box, and the best node is polished in all parameters by Levenberg-Marquardt. There is no starting value to
choose and no local minimum to fall into.

Called by `fit` and `diagnose`. Knows nothing about windows or intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import least_squares, leastsq
from scipy.special import expit

from scalerl.curves.laws import LAWS, LawName
from scalerl.curves.scale import Bounds
from scalerl.series import BoolArray, FloatArray, Series

MAX_GRID_POINTS = 256
"""The grid search looks at no more points than this (bin means beyond); the polish sees them all."""


@dataclass(frozen=True)
class Problem:
    """Points, weights, and the box of each linear parameter (equal ends: fixed)."""

    compute: FloatArray
    value: FloatArray
    weight: FloatArray
    boxes: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, series: Sequence[Series], bounds: Bounds, floor: float | None, ceiling: float | None) -> Problem:
        """The pooled points of all seeds, with weights proportional to n and averaging 1."""
        compute = np.concatenate([s.compute for s in series])
        value = np.concatenate([s.value for s in series])
        sizes = [s.n for s in series if s.n is not None]
        weight = np.concatenate(sizes) if len(sizes) == len(series) else np.ones_like(value)
        low, high = bounds or (-np.inf, np.inf)
        boxes = {
            "floor": (low, high) if floor is None else (floor, floor),
            "ceiling": (low if floor is None else max(floor, low), high) if ceiling is None else (ceiling, ceiling),
            "scale": (0.0, np.inf),
        }
        return cls(compute, value, weight / weight.mean(), boxes)

    def sse(self, predicted: FloatArray) -> float:
        return float(np.sum(self.weight * (self.value - predicted) ** 2))

    def thinned(self) -> Problem:
        """At most `MAX_GRID_POINTS` weighted means of neighbouring points."""
        if self.compute.size <= MAX_GRID_POINTS:
            return self
        order = np.argsort(self.compute, kind="stable")
        edges = np.linspace(0, order.size, MAX_GRID_POINTS + 1).astype(int)[:-1]
        weight = self.weight[order]
        total = np.add.reduceat(weight, edges)
        log_compute = np.add.reduceat(weight * np.log(self.compute[order]), edges) / total
        value = np.add.reduceat(weight * self.value[order], edges) / total
        return Problem(np.exp(log_compute), value, total, self.boxes)


@dataclass(frozen=True)
class Solution:
    """Parameters by name, the weighted sum of squares, and what sits at a bound."""

    parameters: dict[str, float]
    sse: float
    at_bound: tuple[str, ...] = ()


def solve(law: LawName, problem: Problem) -> Solution:
    """The least-squares parameters of a law."""
    if law == "sigmoid":
        return _shaped(problem, _SigmoidShape(problem))
    if law == "power":
        return _shaped(problem, _PowerShape(problem))
    return _linear(law, problem)


def solve_near(solution: Solution, problem: Problem) -> Solution:
    """The sigmoid on a part of the points, starting from the solution of the whole instead of from a grid."""
    p, shape = solution.parameters, _SigmoidShape(problem)
    node = np.clip(np.log([p["midpoint"], p["exponent"]]), shape.box[:, 0], shape.box[:, 1])
    return _finished(problem, shape, node, np.array([p["floor"], p["ceiling"]]), tolerance=1e-9)


class _SigmoidShape:
    """Axes (ln midpoint, ln exponent), both relative to the span of the data in ln compute."""

    names = ("floor", "ceiling")
    rising = True

    def __init__(self, problem: Problem) -> None:
        log_compute = np.log(problem.compute)
        low, high = float(log_compute.min()), float(log_compute.max())
        span = max(high - low, 0.5)
        self.box = np.array([(low - 1.5 * span, high + 2.5 * span), np.log([0.1 / span, 60.0 / span])])
        self.ticks = [np.linspace(low, high, count) for (low, high), count in zip(self.box, (41, 17), strict=True)]

    def columns(self, log_compute: FloatArray, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        share = expit(np.exp(nodes[:, 1:2]) * (log_compute - nodes[:, 0:1]))
        return 1 - share, share

    def jacobian(self, log_compute: FloatArray, node: FloatArray, linear: FloatArray) -> FloatArray:
        exponent = np.exp(node[1])
        share = expit(exponent * (log_compute - node[0]))
        bend = (linear[1] - linear[0]) * share * (1 - share) * exponent
        return np.stack([1 - share, share, -bend, bend * (log_compute - node[0])])

    def parameters(self, node: FloatArray, linear: FloatArray) -> dict[str, float]:
        return {
            "floor": float(linear[0]), "ceiling": float(linear[1]),
            "exponent": float(np.exp(node[1])), "midpoint": float(np.exp(node[0])),
        }  # fmt: skip


class _PowerShape:
    """Axis ln exponent; the scale is taken at the largest compute, so that it stays of the size of the data."""

    names = ("ceiling", "scale")
    rising = False  # a scale of zero or more sees to that

    def __init__(self, problem: Problem) -> None:
        log_compute = np.log(problem.compute)
        self.reference = float(log_compute.max())
        span = max(self.reference - float(log_compute.min()), 0.5)
        largest = min(60.0 / span, 600.0 / max(abs(self.reference), 1.0))  # so that the scale stays a finite number
        self.box = np.array([np.log([0.01 / span, largest])])
        self.ticks = [np.linspace(self.box[0, 0], self.box[0, 1], 100)]

    def columns(self, log_compute: FloatArray, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        decay = -np.exp(-np.exp(nodes[:, 0:1]) * (log_compute - self.reference))
        return np.ones_like(decay), decay

    def jacobian(self, log_compute: FloatArray, node: FloatArray, linear: FloatArray) -> FloatArray:
        exponent = np.exp(node[0])
        decay = np.exp(-exponent * (log_compute - self.reference))
        return np.stack(
            [np.ones_like(decay), -decay, linear[1] * decay * (log_compute - self.reference) * exponent]
        )  # fmt: skip

    def parameters(self, node: FloatArray, linear: FloatArray) -> dict[str, float]:
        exponent = float(np.exp(node[0]))
        scale = float(linear[1] * np.exp(exponent * self.reference))
        return {"ceiling": float(linear[0]), "scale": scale, "exponent": exponent}


_AnyShape = _SigmoidShape | _PowerShape


def _shaped(problem: Problem, shape: _AnyShape) -> Solution:
    boxes = np.array([problem.boxes[name] for name in shape.names])
    thin = problem.thinned()
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*shape.ticks, indexing="ij")], axis=1)
    linear, sse = _project(thin, shape.columns(np.log(thin.compute), nodes), boxes, rising=shape.rising)
    best = int(np.argmin(sse))
    return _finished(problem, shape, nodes[best], linear[best])


def _finished(
    problem: Problem, shape: _AnyShape, node: FloatArray, linear: FloatArray, tolerance: float = 1e-15
) -> Solution:
    boxes = np.array([problem.boxes[name] for name in shape.names])
    node, linear = _polish(problem, shape, node, linear, boxes, tolerance)
    predicted = _predict(np.log(problem.compute), shape, node, linear)
    return Solution(shape.parameters(node, linear), problem.sse(predicted), _at_bound(shape, node, linear, boxes))


def _project(
    problem: Problem, columns: tuple[FloatArray, FloatArray], boxes: FloatArray, *, rising: bool
) -> tuple[FloatArray, FloatArray]:
    """Closed-form linear parameters (J, 2) of every node within their box, and the sum of squares (J,).

    The free optimum where it lies inside, else the best of the box's edges. `rising` asks for first <= second.
    """
    first, second = columns
    w, y = problem.weight, problem.value
    s11, s12, s22 = (first * first) @ w, (first * second) @ w, (second * second) @ w
    r1, r2 = first @ (w * y), second @ (w * y)
    det = np.maximum(s11 * s22 - s12**2, 1e-300)
    candidates = [((s22 * r1 - s12 * r2) / det, (s11 * r2 - s12 * r1) / det)]
    candidates += [  # the edges where the first parameter is at its bound
        (np.full_like(r1, end), np.clip((r2 - s12 * end) / np.maximum(s22, 1e-300), *boxes[1]))
        for end in boxes[0][np.isfinite(boxes[0])]
    ]
    candidates += [
        (np.clip((r1 - s12 * end) / np.maximum(s11, 1e-300), *boxes[0]), np.full_like(r1, end))
        for end in boxes[1][np.isfinite(boxes[1])]
    ]
    if rising:
        level = np.clip(float(w @ y / w.sum()), *boxes[0])
        candidates.append((np.full_like(r1, level), np.full_like(r1, np.clip(level, *boxes[1]))))
    best, best_sse = np.zeros((r1.size, 2)), np.full(r1.size, np.inf)
    total = float(w @ y**2)
    for p, q in candidates:
        allowed = (p >= boxes[0, 0]) & (p <= boxes[0, 1]) & (q >= boxes[1, 0]) & (q <= boxes[1, 1])
        allowed &= (p <= q) | (not rising)
        with np.errstate(over="ignore", invalid="ignore"):  # where both columns are one: no candidate is better there
            sse = total - 2 * (p * r1 + q * r2) + p * p * s11 + 2 * p * q * s12 + q * q * s22
        better = allowed & (sse < best_sse)
        best[better], best_sse[better] = np.stack([p, q], axis=1)[better], sse[better]
    return best, best_sse


def _predict(log_compute: FloatArray, shape: _AnyShape, node: FloatArray, linear: FloatArray) -> FloatArray:
    first, second = shape.columns(log_compute, node[None, :])
    predicted: FloatArray = linear[0] * first[0] + linear[1] * second[0]
    return predicted


class _Residuals:
    """Weighted residuals and their Jacobian as functions of the free parameters; the others keep their start."""

    def __init__(self, problem: Problem, shape: _AnyShape, start: FloatArray, free: BoolArray) -> None:
        self.problem, self.shape, self.start, self.free = problem, shape, start, free
        self.log_compute, self.root = np.log(problem.compute), np.sqrt(problem.weight)

    def whole(self, z: FloatArray) -> FloatArray:
        full = self.start.copy()
        full[self.free] = z
        return full

    def value(self, z: FloatArray) -> FloatArray:
        full = self.whole(z)
        return self.root * (_predict(self.log_compute, self.shape, full[2:], full[:2]) - self.problem.value)

    def jacobian(self, z: FloatArray) -> FloatArray:
        """(free parameters, points)."""
        full = self.whole(z)
        rows: FloatArray = (self.root * self.shape.jacobian(self.log_compute, full[2:], full[:2]))[self.free]
        return rows

    def jacobian_by_point(self, z: FloatArray) -> FloatArray:
        return self.jacobian(z).T


def _polish(
    problem: Problem, shape: _AnyShape, node: FloatArray, linear: FloatArray, boxes: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Levenberg-Marquardt in all free parameters; where that leaves the box, the best of its edges and corners."""
    start = np.concatenate([linear, node])
    fixed = boxes[:, 0] == boxes[:, 1]
    box = np.concatenate([boxes, shape.box])
    free = _levenberg_marquardt(problem, shape, start, fixed, tolerance)
    if _allowed(free, shape, box):
        return free[2:], free[:2]
    found = [start, _bounded(problem, shape, start, box)]
    ends = [[np.nan, *(() if f else b[np.isfinite(b)])] for f, b in zip(fixed, boxes, strict=True)]
    for edge in product(*ends):  # nan: not held
        held = ~np.isnan(edge)
        at = np.concatenate([np.where(held, edge, linear), node])
        found.append(_levenberg_marquardt(problem, shape, at, np.logical_or(fixed, held), tolerance))
    log_compute = np.log(problem.compute)
    best = min(
        (z for z in found if _allowed(z, shape, box)),
        key=lambda z: problem.sse(_predict(log_compute, shape, z[2:], z[:2])),
    )
    return best[2:], best[:2]


def _allowed(z: FloatArray, shape: _AnyShape, box: FloatArray) -> bool:
    inside = bool((z >= box[:, 0]).all() and (z <= box[:, 1]).all())
    return inside and not (shape.rising and z[0] > z[1])


def _levenberg_marquardt(
    problem: Problem, shape: _AnyShape, start: FloatArray, held: BoolArray, tolerance: float
) -> FloatArray:
    free = np.concatenate([~held, np.ones(start.size - 2, dtype=bool)])
    if int(free.sum()) > problem.compute.size:
        return start
    residuals = _Residuals(problem, shape, start, free)
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        z, *_ = leastsq(
            residuals.value, start[free], Dfun=residuals.jacobian, col_deriv=True,
            ftol=tolerance, xtol=10 * tolerance, maxfev=300, full_output=True,
        )  # fmt: skip
    return residuals.whole(np.asarray(z)) if np.isfinite(z).all() else start


def _bounded(problem: Problem, shape: _AnyShape, start: FloatArray, box: FloatArray) -> FloatArray:
    """For shapes that run off the grid: the same least squares inside the box."""
    free = box[:, 1] > box[:, 0]
    residuals = _Residuals(problem, shape, start, free)
    first = np.clip(start[free], box[free, 0], box[free, 1])
    result = least_squares(
        residuals.value, first, jac=residuals.jacobian_by_point, bounds=(box[free, 0], box[free, 1]), method="dogbox",
    )  # fmt: skip
    better = 2 * result.cost <= float(np.sum(residuals.value(first) ** 2))
    return residuals.whole(result.x if better else first)


def _at_bound(shape: _AnyShape, node: FloatArray, linear: FloatArray, boxes: FloatArray) -> tuple[str, ...]:
    """Names of free parameters at an end of their range."""
    names = [
        name
        for name, value, (low, high) in zip(shape.names, linear, boxes, strict=True)
        if low < high and min(value - low, high - value) <= 1e-9 * max(1.0, abs(value))
    ]
    axes = ("midpoint", "exponent")[-len(node) :]
    names += [
        name
        for name, value, (low, high) in zip(axes, node, shape.box, strict=True)
        if min(value - low, high - value) < 1e-6
    ]
    return tuple(names)


def _linear(law: LawName, problem: Problem) -> Solution:
    """Straight line in ln compute, or the mean."""
    columns = LAWS[law].gradient(problem.compute, *([0.0] * len(LAWS[law].parameters)))
    root = np.sqrt(problem.weight)
    solved, *_ = np.linalg.lstsq(columns * root[:, None], problem.value * root, rcond=None)
    parameters = dict(zip(LAWS[law].parameters, map(float, solved), strict=True))
    return Solution(parameters, problem.sse(columns @ solved))
