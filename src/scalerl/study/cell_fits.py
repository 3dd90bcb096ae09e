"""The fits of a cell: one for each seed, one for all seeds together, and what they say in four numbers.

Called by `analyse` and `differences`. A seed is described by the mean and the variance of its posterior draws of

    ceiling, exponent, log_midpoint, and value: the pass rate at one compute that is the same for all cells.

It asks the engine and knows nothing of folders, of jobs or of how cells are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scalerl.curves import Fit, fit
from scalerl.curves.fit import MIN_POINTS
from scalerl.curves.forecast import value_draws
from scalerl.curves.scale import Bounds
from scalerl.series import FloatArray, Series

QUANTITIES = ("ceiling", "exponent", "log_midpoint", "value")
REACHED = 0.95
"""A curve that got this far towards a compute was measured there, not extrapolated."""
TOGETHER = -1
"""Stands for all seeds of a cell whose curves are too short to be fitted one by one."""
NORMAL_TENTH = 1.2816
"""Upper tenth of a standard normal distribution."""
SPREAD = {"ceiling": 0.042, "exponent": 0.27, "log_midpoint": 0.63}
"""How much cells differ: the standard deviation over the eight runs of the paper's own table (ScaleRL, 32k, batches 512
and 2048, 8, 24 and 32 rollouts, Scout). The ceiling's is a share of the value's range."""


@dataclass(frozen=True)
class Measured:
    """One quantity of one curve."""

    mean: float
    variance: float
    """Of the posterior draws."""
    doubt: float
    """Variance of the error that all seeds share, so that their scatter cannot show it (see `differences`)."""


@dataclass(frozen=True)
class CellFits:
    """Everything fitted for one cell."""

    name: str
    series: Mapping[int, Series]
    """By seed; those without a single point are not here."""
    joint: Fit
    seeds: Mapping[int, Fit]
    """Those with enough points for a fit of their own."""

    def measured(self, at: float) -> dict[int, dict[str, Measured]]:
        """Each seed's quantities, the value at compute `at`; where no seed has a fit, those of the joint one."""
        return {seed: measure(one, at) for seed, one in self.units.items()}

    @property
    def last_compute(self) -> float:
        """As far as every seed was measured."""
        return min(one.last_compute for one in self.units.values())

    @property
    def units(self) -> Mapping[int, Fit]:
        """What stands for the seeds in a comparison."""
        return self.seeds or {TOGETHER: self.joint}


def fit_cell(
    name: str, series: Mapping[int, Series], *, level: float = 0.8, bounds: Bounds = (0.0, 1.0)
) -> CellFits | None:
    """All fits of a cell; None while its seeds together have too few points."""
    known = {seed: one for seed, one in sorted(series.items()) if len(one)}
    if sum(map(len, known.values())) < MIN_POINTS:
        return None
    joint = fit(list(known.values()), level=level, bounds=bounds, name=name)
    enough = {seed: one for seed, one in known.items() if len(one) >= MIN_POINTS}
    single = {seed: fit(one, level=level, bounds=bounds, name=f"{name}, seed {seed}") for seed, one in enough.items()}
    return CellFits(name, known, joint, single)


def measure(one: Fit, at: float) -> dict[str, Measured]:
    """The four quantities of one fit."""
    draws, prior = quantity_draws(one, at), _prior_variances(one)
    found = {}
    for name, values in draws.items():
        variance = float(values.var())
        if one.last_compute < REACHED * at:
            doubt = variance  # it ended early, as all seeds of its cell did: what the rest would have shown is open
        elif name == "value":
            doubt = 0.0
        else:
            scale = one.posterior.scale.width if name == "ceiling" else 1.0
            doubt = (min(1.0, _core_variance(values) / prior[name]) * SPREAD[name] * scale) ** 2
        found[name] = Measured(float(values.mean()), variance, doubt)
    return found


def quantity_draws(one: Fit, at: float) -> dict[str, FloatArray]:
    """Posterior draws of the four quantities."""
    draws = one.posterior.parameter_draws()
    return {
        "ceiling": draws["ceiling"],
        "exponent": draws["exponent"],
        "log_midpoint": np.log(draws["midpoint"]),
        "value": value_draws(one, np.array([at]))[:, 0],
    }


def _core_variance(values: FloatArray) -> float:
    """Of the middle four fifths, as for a normal: a thin tail up to the bound says little about where the bulk lies."""
    low, high = np.quantile(values, [0.1, 0.9])
    return float((high - low) / (2 * NORMAL_TENTH)) ** 2


def _prior_variances(one: Fit) -> dict[str, float]:
    """What the engine believed before it saw the curve, in the units of the quantities."""
    posterior = one.posterior
    (_, midpoint_sd), (_, exponent_sd) = posterior.shape.axes
    weight = np.array([belief.weight for belief in posterior.shape.beliefs])
    weight = weight / weight.sum()
    mean = np.array([belief.mean.sum() for belief in posterior.shape.beliefs])
    variance = np.array([belief.covariance.sum() for belief in posterior.shape.beliefs])
    ceiling = float(weight @ (variance + mean**2) - (weight @ mean) ** 2)
    exponent = float(posterior.parameter_draws()["exponent"].mean())
    return {
        "ceiling": ceiling * posterior.scale.width**2,
        "exponent": (exponent_sd * exponent) ** 2,
        "log_midpoint": midpoint_sd**2,
    }
