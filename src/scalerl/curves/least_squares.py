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

import numpy as np
from scipy.optimize import least_squares, leastsq
from scipy.special import expit

from scalerl.curves.laws import LAWS, LawName
from scalerl.curves.scale import Bounds
from scalerl.series import FloatArray, Series

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


class _SigmoidShape:
    """Axes (ln midpoint, ln exponent), both relative to the span of the data in ln compute."""

    names = ("floor", "ceiling")

    def __init__(self, problem: Problem) -> None:
        log_compute = np.log(problem.compute)
        low, high = float(log_compute.min()), float(log_compute.max())
        span = max(high - low, 0.5)
        self.box = np.array([(low - 1.5 * span, high + 2.5 * span), np.log([0.1 / span, 60.0 / span])])
        self.ticks = [np.linspace(*self.box[0], 41), np.linspace(*self.box[1], 17)]

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

    def __init__(self, problem: Problem) -> None:
        log_compute = np.log(problem.compute)
        self.reference = float(log_compute.max())
        span = max(self.reference - float(log_compute.min()), 0.5)
        self.box = np.array([np.log([0.01 / span, 60.0 / span])])
        self.ticks = [np.linspace(*self.box[0], 100)]

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
    linear, sse = _project(thin, shape.columns(np.log(thin.compute), nodes), boxes)
    best = int(np.argmin(sse))
    node, linear_best = _polish(problem, shape, nodes[best], linear[best], boxes)
    parameters = shape.parameters(node, linear_best)
    predicted = _predict(np.log(problem.compute), shape, node, linear_best)
    return Solution(parameters, problem.sse(predicted), _at_bound(shape, node, linear_best, boxes))


def _project(
    problem: Problem, columns: tuple[FloatArray, FloatArray], boxes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Closed-form linear parameters (J, 2) of every node within their box, and the sum of squares (J,)."""
    first, second = columns
    w, y = problem.weight, problem.value
    s11, s12, s22 = (first * first) @ w, (first * second) @ w, (second * second) @ w
    r1, r2 = first @ (w * y), second @ (w * y)
    det = np.maximum(s11 * s22 - s12**2, 1e-300)
    candidates = [((s22 * r1 - s12 * r2) / det, (s11 * r2 - s12 * r1) / det)]
    for end in boxes[0][np.isfinite(boxes[0])]:  # the edge where the first parameter is at its bound
        candidates.append((np.full_like(r1, end), (r2 - s12 * end) / np.maximum(s22, 1e-300)))
    for end in boxes[1][np.isfinite(boxes[1])]:
        candidates.append(((r1 - s12 * end) / np.maximum(s11, 1e-300), np.full_like(r1, end)))
    best = np.zeros((r1.size, 2))
    best_sse = np.full(r1.size, np.inf)
    total = float(w @ y**2)
    for index, (p, q) in enumerate(candidates):
        if index:
            p, q = np.clip(p, *boxes[0]), np.clip(q, *boxes[1])
        inside = (p >= boxes[0, 0]) & (p <= boxes[0, 1]) & (q >= boxes[1, 0]) & (q <= boxes[1, 1])
        inside &= np.isfinite(p) & np.isfinite(q)
        p, q = np.where(inside, p, 0.0), np.where(inside, q, 0.0)
        sse = total - 2 * (p * r1 + q * r2) + p * p * s11 + 2 * p * q * s12 + q * q * s22
        better = inside & (sse < best_sse)
        best[better], best_sse[better] = np.stack([p, q], axis=1)[better], sse[better]
    return best, best_sse


def _predict(log_compute: FloatArray, shape: _AnyShape, node: FloatArray, linear: FloatArray) -> FloatArray:
    first, second = shape.columns(log_compute, node[None, :])
    return linear[0] * first[0] + linear[1] * second[0]


def _polish(
    problem: Problem, shape: _AnyShape, node: FloatArray, linear: FloatArray, boxes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Levenberg-Marquardt in all free parameters; a linear one that leaves its box is held at its bound."""
    start = np.concatenate([linear, node])
    held = np.isclose(start[:2], boxes.T, rtol=0, atol=1e-12 * max(1.0, float(np.abs(problem.value).max()))).any(axis=0)
    inside = np.concatenate([boxes, shape.box])
    polished = _levenberg_marquardt(problem, shape, start, held)
    for _ in range(2):
        outside = (polished[:2] < boxes[:, 0]) | (polished[:2] > boxes[:, 1])
        if not outside.any():
            break
        start = np.concatenate([np.clip(polished[:2], boxes[:, 0], boxes[:, 1]), node])
        held = held | outside
        polished = _levenberg_marquardt(problem, shape, start, held)
    if (polished < inside[:, 0]).any() or (polished > inside[:, 1]).any():
        polished = _bounded(problem, shape, np.concatenate([linear, node]), inside)
    return polished[2:], polished[:2]


def _levenberg_marquardt(problem: Problem, shape: _AnyShape, start: FloatArray, held: FloatArray) -> FloatArray:
    log_compute, root = np.log(problem.compute), np.sqrt(problem.weight)
    free = np.concatenate([~held, np.ones(start.size - 2, dtype=bool)])

    def whole(z: FloatArray) -> FloatArray:
        full = start.copy()
        full[free] = z
        return full

    def residual(z: FloatArray) -> FloatArray:
        full = whole(z)
        return root * (_predict(log_compute, shape, full[2:], full[:2]) - problem.value)

    def jacobian(z: FloatArray) -> FloatArray:
        full = whole(z)
        return (root * shape.jacobian(log_compute, full[2:], full[:2]))[free]

    if int(free.sum()) > problem.compute.size:
        return start
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        z, *_ = leastsq(
            residual, start[free], Dfun=jacobian, col_deriv=True, ftol=1e-15, xtol=1e-14, maxfev=300, full_output=True
        )  # fmt: skip
    return whole(np.asarray(z)) if np.isfinite(z).all() else start


def _bounded(problem: Problem, shape: _AnyShape, start: FloatArray, box: FloatArray) -> FloatArray:
    """For shapes that run off the grid: the same least squares inside the box."""
    log_compute, root = np.log(problem.compute), np.sqrt(problem.weight)
    free = box[:, 1] > box[:, 0]

    def whole(z: FloatArray) -> FloatArray:
        full = start.copy()
        full[free] = z
        return full

    result = least_squares(
        lambda z: root * (_predict(log_compute, shape, whole(z)[2:], whole(z)[:2]) - problem.value),
        np.clip(start[free], box[free, 0], box[free, 1]),
        jac=lambda z: (root * shape.jacobian(log_compute, whole(z)[2:], whole(z)[:2]))[free].T,
        bounds=(box[free, 0], box[free, 1]), method="dogbox",
    )  # fmt: skip
    return whole(result.x) if 2 * result.cost <= problem.sse(_predict(log_compute, shape, start[2:], start[:2])) else start


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
