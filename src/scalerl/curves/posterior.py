"""`Posterior`: draws of a law's parameters and noise, and what they say about any compute.

Made by `infer`; read by `fit`, `forecast`, `compare` and `decide`. It draws nothing itself: each draw carries its own
future (`luck`), so that forecasts at different computes belong together and every call gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalerl.curves.laws import LawName
from scalerl.curves.prior import Prior
from scalerl.curves.scale import Scale
from scalerl.curves.shapes import Shape
from scalerl.series import FloatArray

LARGEST_SCALE = 600.0
"""Natural logarithm of the largest scale of a power law, as in `least_squares`."""
FULLY_AHEAD = float(np.log(1.4))
"""Nats beyond the last point from which on a forecast is drawn in fully; before that in proportion: a band without a
step."""


@dataclass(frozen=True)
class Posterior:
    """Draws from the posterior; every array has the draws as its first axis. Values are on the unit scale."""

    law: LawName
    scale: Scale
    shape: Shape
    prior: Prior
    first_compute: float
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
            steepest = LARGEST_SCALE / max(np.log(last), 1.0)  # so that the scale stays a finite number
            scale = width * self.gain * last ** np.minimum(exponent, steepest)
            return {"ceiling": level, "scale": scale, "exponent": exponent}
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
        """The value the policy would have, (M, K): the law, the wobble carried on, the discrepancy, and other futures.

        Beyond the last point the discrepancy grows, and some futures stay flat or decline. Before it the discrepancy is
        what the walk from the first point to the last one passes on average. Last, the draws are drawn in towards
        their median as far as `Prior.bending_width` says.
        """
        compute = np.atleast_1d(np.asarray(compute, dtype=np.float64))
        nats = np.log(compute / self.last_compute)[None, :]
        law, now = self.curve(compute), self.curve(np.array([self.last_compute]))
        path = np.where(nats > 0, self._path(law, now, np.maximum(nats, 0.0)), law)
        apart = np.abs(compute - self.last_compute)[None, :] / self.interval
        values = path + self._wobble(apart) + self._drift(np.abs(path - now), nats)
        return self._drawn_in(np.clip(values, *self.scale.limits), nats)

    def _drawn_in(self, values: FloatArray, nats: FloatArray) -> FloatArray:
        """A curve that is just bending is forecast better than the mixture of futures believes."""
        if self.law != "sigmoid":
            return values
        stage = -float(np.median(self.nodes[:, 0]))  # ln(last compute / midpoint)
        narrowest = self.prior.bending_width
        width = np.interp(stage, self.prior.bending, (1.0, narrowest, narrowest, 1.0))
        middle = np.median(values, axis=0)
        factor = 1 - (1 - width) * np.clip(nats / FULLY_AHEAD, 0.0, 1.0)
        drawn: FloatArray = middle + factor * (values - middle)
        return drawn

    def _path(self, law: FloatArray, now: FloatArray, nats: FloatArray) -> FloatArray:
        """The law, or one of the futures that leave it: flat from here, or declining by so much per nat."""
        fate, size = self.luck[:, 2:3], self.luck[:, 3:4]
        decline = -self.prior.decay_size * np.log(np.maximum(size, 1e-12))
        path = np.where(fate < self.prior.flat + self.prior.decay, now - decline * nats, law)
        return np.where(fate < self.prior.flat, now, path)

    def _wobble(self, apart: FloatArray) -> FloatArray:
        sd, memory = self.noise[:, 1:2], self.noise[:, 2:3]
        keep = memory**apart
        moved: FloatArray = self.state[:, 0:1] * keep + sd * np.sqrt(1 - keep**2) * self.luck[:, 0:1]
        return moved

    def _drift(self, rise: FloatArray, nats: FloatArray) -> FloatArray:
        """In the future it grows with the slope: the present one, or that of the path if it is steeper."""
        ahead = np.maximum(nats, 0.0)
        slope = np.maximum(rise / np.maximum(ahead, 1e-9), self._slope()[:, None])
        growth = np.where(ahead > 0, (self.prior.drift_base + slope) * np.sqrt(ahead), 0.0)
        span = np.log(self.last_compute / self.first_compute)
        share = np.clip(1 + np.minimum(nats, 0.0) / max(span, 1e-9), 0.0, 1.0)
        moved: FloatArray = share * self.state[:, 1:2] + self.noise[:, 3:4] * growth * self.luck[:, 1:2]
        return moved

    def _slope(self) -> FloatArray:
        """d value / d ln compute of the law over the last quarter nat."""
        before, now = self.curve(self.last_compute * np.exp([-0.25, 0.0])).T
        slope: FloatArray = np.abs(now - before) / 0.25
        return slope
