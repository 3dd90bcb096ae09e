"""The analysis of a study: fits, differences to the base, verdicts, ranking, and how well its forecasts did.

Called by `results` with the curves of a folder, and by `replay` with curves cut short. Pure: curves in, `Analysis` out,
the same for the same curves. It knows no folder and no text; `cell_fits`, `verdicts`, `differences` and `extrapolation`
have the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalerl.curves import Comparison, Estimate, compare
from scalerl.curves.scale import Bounds
from scalerl.series import Series
from scalerl.study.cell_fits import QUANTITIES, CellFits, fit_cell
from scalerl.study.differences import Seeds, mean_of, sample_variance, usual
from scalerl.study.extrapolation import Extrapolated, extrapolate
from scalerl.study.verdicts import Choice, Terms, choices

Curves = Mapping[str, Mapping[int, Series]]
"""Cell -> seed -> curve."""


@dataclass(frozen=True)
class Settings:
    """How a study is analysed: its `fit` table, and the range of the value."""

    share: float = 0.5
    level: float = 0.8
    margin: float = 0.02
    bounds: Bounds = (0.0, 1.0)


@dataclass(frozen=True)
class Analysis:
    """What the curves of a study say."""

    base: str
    settings: Settings
    at: float | None
    """Compute at which values are compared: the base's full budget; None without any curve."""
    full: Mapping[str, float]
    """The full budget of each cell, in compute."""
    fits: Mapping[str, CellFits]
    """Cells with enough points; the base first."""
    means: Mapping[str, Mapping[str, Estimate]]
    """Cell -> quantity -> mean over its seeds, with the variation between seeds."""
    choices: tuple[Choice, ...]
    """In the order of the cells; empty while the base has no fit."""
    ranking: tuple[str, ...]
    """By the paper's rule: the higher ceiling, among equal ones the larger exponent."""
    extrapolation: tuple[Extrapolated, ...]

    @property
    def best(self) -> str | None:
        """First in the ranking among cells whose ceiling is known; None: no ceiling is."""
        return next((cell for cell in self.ranking if self.fits[cell].joint.identified), None)

    def verdicts(self) -> dict[str, str]:
        return {choice.cell: choice.verdict for choice in self.choices}


def analyse(curves: Curves, base: str, full: Mapping[str, float], settings: Settings | None = None) -> Analysis:
    """Everything that can be said of these curves. `full`: each cell's full budget, in the curves' unit of compute."""
    settings = settings or Settings()
    fits = _fits(curves, base, settings)
    at = _compared_at(base, full, fits)
    compared = _compared(fits, base, settings)
    rows = extrapolate({cell: one.series for cell, one in fits.items()}, full, settings.share, settings.level,
                       settings.bounds)  # fmt: skip
    return Analysis(
        base=base,
        settings=settings,
        at=at,
        full={cell: full[cell] for cell in fits},
        fits=fits,
        means={} if at is None else _means(fits, at, settings.level),
        choices=() if compared is None or at is None else _choices(fits, base, compared, at, settings),
        ranking=tuple(fits) if compared is None else compared.ranking,
        extrapolation=tuple(rows),
    )


def curves_of(results: Mapping[str, Any]) -> dict[str, dict[int, Series]]:
    """The curves that a results document holds."""
    names = {"source": "", "compute_name": results["compute_name"], "value_name": results["value_name"]}
    return {
        cell["name"]: {
            one["seed"]: Series.from_dict(one["curve"] | names | {"name": f"{cell['name']}, seed {one['seed']}"})
            for one in cell["seeds"]
        }
        for cell in results["cells"]
    }


def settings_of(results: Mapping[str, Any]) -> Settings:
    """How a results document was made."""
    bounds = results["bounds"]
    return Settings(
        share=results["share"], level=results["level"], margin=results["margin"],
        bounds=None if bounds is None else (bounds[0], bounds[1]),
    )  # fmt: skip


def full_of(results: Mapping[str, Any]) -> dict[str, float]:
    """The full budget of each cell with a curve, as a results document holds it."""
    return {cell["name"]: cell["full"] for cell in results["cells"] if cell["full"] is not None}


def _fits(curves: Curves, base: str, settings: Settings) -> dict[str, CellFits]:
    order = [cell for cell in (base, *curves) if cell in curves]
    found = {}
    for cell in dict.fromkeys(order):
        one = fit_cell(cell, curves[cell], level=settings.level, bounds=settings.bounds)
        if one is not None:
            found[cell] = one
    return found


def _compared_at(base: str, full: Mapping[str, float], fits: Mapping[str, CellFits]) -> float | None:
    """One compute for all: at equal compute the recipe is compared, not the size of its batches."""
    if base in fits:
        return full[base]
    return max((full[cell] for cell in fits), default=None)


def _compared(fits: Mapping[str, CellFits], base: str, settings: Settings) -> Comparison | None:
    """The engine's comparison of the joint fits, with the paper's rule; None when there is nothing to compare."""
    if base not in fits or len(fits) < 2:
        return None
    return compare([one.joint for one in fits.values()], reference=base, margin=max(settings.margin, 1e-9))


def _choices(
    fits: Mapping[str, CellFits], base: str, compared: Comparison, at: float, settings: Settings
) -> tuple[Choice, ...]:
    others = {cell: one for cell, one in fits.items() if cell != base}
    pairs = {pair.challenger: pair for pair in compared.pairs}
    return tuple(choices(fits[base], others, pairs, Terms(at, settings.level, settings.margin)))


def _means(fits: Mapping[str, CellFits], at: float, level: float) -> dict[str, dict[str, Estimate]]:
    measured = {cell: one.measured(at) for cell, one in fits.items()}
    means: dict[str, dict[str, Estimate]] = {cell: {} for cell in measured}
    for quantity in QUANTITIES:
        seeds = {
            cell: Seeds({seed: one[quantity] for seed, one in by_seed.items()}) for cell, by_seed in measured.items()
        }
        pooled = usual(sample_variance(one.values) for one in seeds.values())
        for cell, one in seeds.items():
            means[cell][quantity] = mean_of(one, pooled).estimate(level)
    return means
