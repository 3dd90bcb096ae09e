"""The difference of a cell to the base, with an interval that includes the variation between seeds.

Called by `analyse` with each seed's estimates; plain statistics, no curves and no folders here.

    d_s    the seed's estimate in the cell minus that in the base (posterior means), s = 1 ... k
    D      their mean: the difference
    S^2    their sample variance, k - 1 degrees of freedom. It holds the variation between seeds AND the error of each
           estimate, so neither is counted twice
    s^2    (S^2 + m^2) / 2 with 2 (k - 1) degrees of freedom, where m^2 is what is usual in this study: the median of
           S^2 over its cells, divided by the median of chi^2/(k - 1). Three seeds alone know their variance badly
    D ~ t_{2(k-1)} with scale s / sqrt(k), plus a normal part of variance a^2

Cells with the same seeds as the base are paired by seed, because they start from the same policy. Otherwise both sides
have their own s^2 / k, and the degrees of freedom are Welch and Satterthwaite's. Fewer than three cells give no m^2,
and then s^2 = S^2. The moderated variance is that of Smyth (2004, "Linear models and empirical Bayes methods for
assessing differential expression in microarray experiments"), with a prior that counts as much as the cell's own seeds.

a^2 is for what seeds cannot show because all of them share it. A parameter that the curves have not pinned down is
drawn towards the prior in every seed alike: with posterior variance v and prior variance P the estimate keeps the share
1 - v/P of how it differs from others, and misses v/P of it. So a^2 is the sum over both sides of (v/P)^2 times the
variance between cells (`cell_fits.SPREAD`). It vanishes once the curves have bent. A cell whose curves end before the
compute at which values are compared (it was stopped, or has not got there) has its whole posterior variance in a^2.
Coverage is measured by benchmarks/study_coverage.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from scalerl.curves.results import Estimate
from scalerl.series import FloatArray
from scalerl.study.cell_fits import Measured

FEWEST_TO_POOL = 3
"""Cells with two seeds or more from which on the study's usual variance is known well enough to help."""
NUM_DRAWS = 4000


@dataclass(frozen=True)
class Variance:
    """A sample variance with its degrees of freedom."""

    value: float
    freedom: float


@dataclass(frozen=True)
class Seeds:
    """One quantity of one cell: an estimate for each seed."""

    by_seed: Mapping[int, Measured]

    @property
    def values(self) -> FloatArray:
        return np.array([one.mean for one in self.by_seed.values()])

    @property
    def doubt(self) -> float:
        """Variance of the error that the seeds share."""
        return float(np.mean([one.doubt for one in self.by_seed.values()]))

    @property
    def within(self) -> float:
        """Posterior variance of their mean, if seeds differed by nothing else."""
        return float(np.mean([one.variance for one in self.by_seed.values()])) / len(self.by_seed)


@dataclass(frozen=True)
class Difference:
    """What is believed about a difference: a t distribution and a normal one added."""

    value: float
    scale: float
    freedom: float
    doubt_sd: float
    between: str
    """How the variation between seeds came in: "paired", "unpaired", or "unknown" (one seed, nothing to pool)."""

    def draws(self) -> FloatArray:
        """Evenly spread over the distribution: no luck, the same each time."""
        share = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
        spread = ndtri(share) if np.isinf(self.freedom) else stdtrit(self.freedom, share)
        other = np.random.default_rng(3).permutation(ndtri(share))
        drawn: FloatArray = self.value + self.scale * spread + self.doubt_sd * other
        return drawn

    def estimate(self, level: float) -> Estimate:
        """The difference with its interval."""
        if self.scale == 0 and self.doubt_sd == 0:
            return Estimate(self.value)
        low, high = np.quantile(self.draws(), [(1 - level) / 2, (1 + level) / 2])
        return Estimate(self.value, float(low), float(high))

    def chance_above(self, limit: float) -> float:
        """Ties count half, so that two equal sides without any spread are not called different."""
        drawn = self.draws()
        return float(np.mean(drawn > limit) + 0.5 * np.mean(drawn == limit))


def paired(cell: Seeds, base: Seeds) -> bool:
    """Whether seed stands against seed."""
    return len(cell.by_seed) > 1 and cell.by_seed.keys() == base.by_seed.keys()


def sample_variance(values: FloatArray) -> Variance | None:
    """None for a single value."""
    return Variance(float(values.var(ddof=1)), values.size - 1.0) if values.size > 1 else None


def usual(variances: Iterable[Variance | None]) -> Variance | None:
    """What is usual in the study: robust, because a cell that collapsed must not widen every interval."""
    known = [one for one in variances if one is not None]
    if len(known) < FEWEST_TO_POOL:
        return None
    freedom = float(np.median([one.freedom for one in known]))
    middle = float(chdtri(freedom, 0.5)) / freedom
    return Variance(float(np.median([one.value for one in known])) / middle, freedom)


def differences(sides: Mapping[str, tuple[Seeds, Seeds]]) -> dict[str, Difference]:
    """For each name (base, cell): the cell minus the base, in one quantity. All of them say what is usual."""
    in_pairs = {name: _paired_values(cell, base) for name, (base, cell) in sides.items() if paired(cell, base)}
    usual_of_pairs = usual(sample_variance(values) for values in in_pairs.values())
    every = {id(side): side for pair in sides.values() for side in pair}  # the base is mostly the same one
    usual_of_sides = usual(sample_variance(side.values) for side in every.values())
    found = {}
    for name, (base, cell) in sides.items():
        if name in in_pairs:
            found[name] = _from_pairs(in_pairs[name], usual_of_pairs, _doubt(cell, base))
        else:
            found[name] = _from_sides(cell, base, usual_of_sides)
    return found


def mean_of(one: Seeds, pooled: Variance | None) -> Difference:
    """The mean of a cell itself, with the same kind of interval."""
    term = _term(one, pooled)
    between = "unknown" if term is None else "unpaired"
    variance = term or Variance(one.within, np.inf)
    return Difference(
        float(one.values.mean()), float(np.sqrt(variance.value)), variance.freedom, float(np.sqrt(one.doubt)), between
    )


def _paired_values(cell: Seeds, base: Seeds) -> FloatArray:
    return np.array([cell.by_seed[seed].mean - base.by_seed[seed].mean for seed in cell.by_seed])


def _from_pairs(values: FloatArray, pooled: Variance | None, doubt: float) -> Difference:
    variance = moderated(sample_variance(values), pooled)
    assert variance is not None  # pairs are two or more
    scale = float(np.sqrt(variance.value / values.size))
    return Difference(float(values.mean()), scale, variance.freedom, float(np.sqrt(doubt)), "paired")


def _from_sides(cell: Seeds, base: Seeds, pooled: Variance | None) -> Difference:
    value = float(cell.values.mean() - base.values.mean())
    terms = [_term(side, pooled) for side in (cell, base)]
    doubt = float(np.sqrt(_doubt(cell, base)))
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):  # one seed and nothing to learn the variation from: within-seed error alone
        return Difference(value, float(np.sqrt(cell.within + base.within)), np.inf, doubt, "unknown")
    total = sum(term.value for term in known)
    return Difference(value, float(np.sqrt(total)), _satterthwaite(known), doubt, "unpaired")


def _term(side: Seeds, pooled: Variance | None) -> Variance | None:
    """Variance of the side's mean."""
    variance = moderated(sample_variance(side.values), pooled)
    return None if variance is None else Variance(variance.value / len(side.by_seed), variance.freedom)


def moderated(own: Variance | None, pooled: Variance | None) -> Variance | None:
    """The cell's own variance and the usual one, weighed by their degrees of freedom."""
    if own is None or pooled is None:
        return own or pooled
    freedom = own.freedom + pooled.freedom
    return Variance((own.freedom * own.value + pooled.freedom * pooled.value) / freedom, freedom)


def _satterthwaite(terms: Sequence[Variance]) -> float:
    total = sum(term.value for term in terms)
    if total == 0:
        return min(term.freedom for term in terms)
    return total**2 / sum(term.value**2 / term.freedom for term in terms)


def _doubt(cell: Seeds, base: Seeds) -> float:
    return cell.doubt + base.doubt
