"""What a picture of a fit contains, as plain arrays: points, forecast with its band, law, ceiling, budgets, target.

`drawing` and `chart` each put the same `Picture` on their own canvas. This module asks the engine for
forecasts and decides what is worth showing; it knows no canvas or colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalerl.curves import Fit, forecast, reach
from scalerl.curves.results import Estimate, Forecast, TargetForecast
from scalerl.errors import InputError
from scalerl.series import FloatArray, Series

MOST_MARKERS = 1200
MOST_BANDS = 8  # with more curves than that, bands over bands show nothing
_PER_SLICE = 4
_GOLDEN = 0.6180339887
_DIFFERS = 0.006  # share of the picture's height: a law closer than that to the median is the same line to the eye


@dataclass(frozen=True)
class Points:
    """Measurements of one kind, thinned out to what a picture can show."""

    compute: FloatArray
    value: FloatArray
    total: int
    """How many there are; more than `compute.size` when thinned."""


@dataclass(frozen=True)
class Picture:
    """One fit, ready to be drawn."""

    fit: Fit
    level: float
    before: Points
    fitted: Points
    held_out: Points
    past: FloatArray
    """Grid over the compute of the fitted points."""
    fitted_law: FloatArray
    """The least-squares law there."""
    future: FloatArray
    """Grid from the last fitted point on; forecasts live here, and only here."""
    median: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    extended: tuple[FloatArray, FloatArray]
    """(compute, value) of the law left and right of the fitted points; NaN to the right if the median is the same."""
    budgets: tuple[Forecast, ...]
    target: TargetForecast | None

    @property
    def ceiling(self) -> Estimate | None:
        """Only when it may be quoted."""
        return self.fit.ceiling if self.fit.identified else None

    @property
    def floor(self) -> Estimate | None:
        return self.fit.floor


@dataclass(frozen=True)
class Frame:
    """The part of the plane that holds every curve of a picture."""

    left: float
    right: float
    bottom: float
    top: float


def pictures_of(
    fits: Sequence[Fit], budgets: Sequence[float] = (), target: float | None = None, *, resolution: int = 200
) -> tuple[list[Picture], Frame]:
    """Every fit over the same range of compute, and the frame around them."""
    _check(fits, budgets, target)
    ends = _span(fits, budgets)
    pictures = [_picture(fit, budgets, target, ends, resolution) for fit in fits]
    bottom, top = _height(pictures, target)
    return pictures, Frame(*ends, bottom, top)


def title_of(fits: Sequence[Fit]) -> str:
    if len(fits) > 1:
        return f"{len(fits)} curves: {value_name_of(fits)} against {fits[0].compute_name}"
    return f"{fits[0].name}: {law_of(fits[0])} on {fits[0].points:,} points"


def law_of(fit: Fit) -> str:
    """The law in words."""
    names = {"sigmoid": "sigmoid", "power": "power law", "loglinear": "log-linear law", "flat": "constant"}
    return names[fit.law]


def value_name_of(fits: Sequence[Fit]) -> str:
    return " / ".join(dict.fromkeys(fit.value_name for fit in fits))


def _check(fits: Sequence[Fit], budgets: Sequence[float], target: float | None) -> None:
    if not fits:
        raise InputError("nothing to plot", allowed="at least one fit")
    units = sorted({fit.compute_name for fit in fits})
    if len(units) > 1:
        raise InputError("the curves measure compute differently", ", ".join(units), "one measure for one picture")
    for budget in budgets:
        if not (math.isfinite(budget) and budget > 0):
            raise InputError("unusable budget", budget, "a positive number")
    if target is not None and not math.isfinite(target):
        raise InputError("unusable target", target, "a finite number")


def _span(fits: Sequence[Fit], budgets: Sequence[float]) -> tuple[float, float]:
    """From the first measurement to the furthest thing asked about, at least one doubling past each fit."""
    computes = [series.compute[[0, -1]] for fit in fits for series in fit.series if len(series)]
    low = min(float(ends[0]) for ends in computes)
    high = max(float(ends[1]) for ends in computes)
    high = max(high, *budgets, *(() if budgets else [2 * fit.last_compute for fit in fits]))
    margin = (high / low) ** 0.03
    return min(low, *budgets, low) / margin, high * margin


def _picture(
    fit: Fit, budgets: Sequence[float], target: float | None, ends: tuple[float, float], resolution: int
) -> Picture:
    past = np.geomspace(fit.first_compute, fit.last_compute, resolution)
    future = np.geomspace(fit.last_compute, ends[1], resolution // 2)
    forecasts = forecast(fit, future)
    low, high = _band(forecasts)
    median = np.array([one.value for one in forecasts])
    return Picture(
        fit=fit,
        level=fit.level,
        before=_thin(_before(fit), ends),
        fitted=_thin(fit.fitted, ends),
        held_out=_thin(fit.held_out, ends),
        past=past,
        fitted_law=fit.value_at(past),
        future=future,
        median=median,
        low=low,
        high=high,
        extended=_extended(fit, ends[0], future, median),
        budgets=forecast(fit, budgets) if budgets else (),
        target=None if target is None else reach(fit, target),
    )


def _extended(fit: Fit, left: float, future: FloatArray, median: FloatArray) -> tuple[FloatArray, FloatArray]:
    before = np.geomspace(left, fit.first_compute, 40) if fit.first_compute > left else np.empty(0)
    law = fit.value_at(future)
    height = np.ptp(np.concatenate([median, *(series.value for series in fit.series)]))
    differs = np.abs(law - median) > _DIFFERS * height
    beyond = law if differs.any() else np.full_like(law, np.nan)
    gap = np.full(1, np.nan)
    return np.concatenate([before, gap, future]), np.concatenate([fit.value_at(before), gap, beyond])


def _before(fit: Fit) -> tuple[Series, ...]:
    low = fit.window[0]
    if low is None:
        return ()
    return tuple(series.window(None, float(np.nextafter(low, 0.0))) for series in fit.series)


def _band(forecasts: Sequence[Forecast]) -> tuple[FloatArray | None, FloatArray | None]:
    """None when no interval is known; NaN at single places where it is not."""
    low = np.array([np.nan if f.low is None else f.low for f in forecasts])
    high = np.array([np.nan if f.high is None else f.high for f in forecasts])
    return (None, None) if np.isnan(low + high).all() else (low, high)


def _thin(series: Sequence[Series], ends: tuple[float, float]) -> Points:
    """About `MOST_MARKERS` points over the whole width: a few in each of many slices of ln compute.

    The lowest and the highest of a slice are always among them, so that spread and outliers survive.
    """
    compute = np.concatenate([s.compute for s in series]) if series else np.empty(0)
    value = np.concatenate([s.value for s in series]) if series else np.empty(0)
    slices = np.floor(np.log(compute / ends[0]) / math.log(ends[1] / ends[0]) * MOST_MARKERS / _PER_SLICE)
    if compute.size <= MOST_MARKERS // 4 or compute.size <= _PER_SLICE * np.unique(slices).size:
        return Points(compute, value, compute.size)
    order = np.lexsort((value, slices))
    first = np.flatnonzero(np.diff(slices[order], prepend=-1.0))
    last = np.append(first[1:], compute.size) - 1
    rank = np.array([0.0, 1.0, *([0.0] * (_PER_SLICE - 2))]) + np.zeros((first.size, 1))
    rank[:, 2:] = (np.arange(rank[:, 2:].size).reshape(first.size, -1) * _GOLDEN) % 1  # even, without a visible pattern
    keep = np.unique(order[first[:, None] + np.round((last - first)[:, None] * rank).astype(int)])
    return Points(compute[keep], value[keep], compute.size)


def _height(pictures: Sequence[Picture], target: float | None) -> tuple[float, float]:
    parts = [] if target is None else [np.array([target])]
    for picture in pictures:
        parts += [picture.before.value, picture.fitted.value, picture.held_out.value]
        parts += [picture.fitted_law, picture.median]
        if len(pictures) <= MOST_BANDS:
            parts += [part for part in (picture.low, picture.high) if part is not None]
        parts += [] if picture.ceiling is None or len(pictures) > 1 else [_ends(picture.ceiling)]
    values = np.concatenate(parts)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    floor = pictures[0].floor
    if len(pictures) == 1 and floor is not None and low - 0.5 * (high - low) < floor.value < low:
        low = floor.value  # worth its room unless it lies far below everything measured
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin


def _ends(estimate: Estimate) -> FloatArray:
    return np.array([v for v in (estimate.value, estimate.low, estimate.high) if v is not None])
