"""Where each cell of a study is heading: its value at one compute ahead, in the mean over its seeds.

Used by the race, by the live status and by the extrapolation table, so that all three say the same. The draws are
posterior predictive ones of one joint fit for each cell, to which the variation between seeds is added as it stands at
the present end of the curves (see `differences`): a joint fit alone believes that seeds differ by nothing but noise.
Pure: curves in, draws out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scalerl.curves import fit
from scalerl.curves.fit import MIN_POINTS
from scalerl.curves.forecast import value_draws
from scalerl.curves.scale import Bounds
from scalerl.series import FloatArray, Series
from scalerl.study.differences import moderated, sample_variance, usual

ENOUGH_POINTS = 8
"""A cell with fewer evaluations over all its seeds has no forecast: it would be the prior's."""
LAST_POINTS = 3
"""Evaluations that say where a seed stands now."""
_SEED = 5

Curves = Mapping[str, Sequence[Series]]
"""The seeds of each cell."""


def final_draws(curves: Curves, at: Mapping[str, float], *, bounds: Bounds = (0.0, 1.0)) -> dict[str, FloatArray]:
    """For each cell with enough evaluations: independent draws of its value at its compute `at`."""
    known = {cell: [series for series in curves[cell] if len(series)] for cell in sorted(curves)}
    known = {cell: seeds for cell, seeds in known.items() if sum(map(len, seeds)) >= max(ENOUGH_POINTS, MIN_POINTS)}
    present = {cell: np.array([one.value[-LAST_POINTS:].mean() for one in seeds]) for cell, seeds in known.items()}
    pooled = usual(sample_variance(values) for values in present.values())
    found = {}
    for index, (cell, seeds) in enumerate(known.items()):
        # the engine draws every posterior with one random stream: shuffled, those of two cells are independent
        rng = np.random.default_rng([_SEED, index])
        values = rng.permutation(value_draws(fit(seeds, bounds=bounds, name=cell), np.array([at[cell]]))[:, 0])
        variance = moderated(sample_variance(present[cell]), pooled)
        if variance is not None:
            values = values + np.sqrt(variance.value / len(seeds)) * rng.standard_t(variance.freedom, values.size)
        found[cell] = np.clip(values, *(bounds or (-np.inf, np.inf)))
    return found
