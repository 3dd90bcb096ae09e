"""The forecast for the end of a run's budget, from the evaluations so far; or why there is none yet.

Asked after each evaluation by whoever shows a run, and once more for the summary. The x axis is FLOPs of generation and
training, as in `scalerl fit RUN`. The law and the interval are the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalerl import numbers
from scalerl.errors import ScaleRLError

if TYPE_CHECKING:
    from scalerl.curves import Fit
    from scalerl.curves.results import Forecast
    from scalerl.pipeline.types import EvalPoint
    from scalerl.series import Series

LEVEL = 0.8
PLACES_AHEAD = 12
MIN_POINTS_TO_FIT = 5
"""What the engine asks for, beside step 0."""


@dataclass(frozen=True)
class Outlook:
    """`forecast` and `fit`, or the reason why they are missing."""

    fit: Fit | None = None
    forecast: Forecast | None = None
    """At the end of the budget."""
    way: tuple[Forecast, ...] = ()
    """From now to the end, for a picture."""
    reason: str = ""

    @property
    def words(self) -> str:
        """`0.862 [0.841, 0.885]`, or the reason."""
        if self.forecast is None:
            return self.reason
        value, interval = numbers.ranged(self.forecast.value, self.forecast.low, self.forecast.high)
        return f"{value} {interval}"


def series_of(points: Sequence[EvalPoint], name: str = "run") -> Series:
    """The curve of a run; the evaluation of step 0 is its measured start."""
    from scalerl.series import Series

    return Series.of(
        [0.0 if point.step == 0 else point.ledger.total.flops for point in points],
        [point.pass_rate for point in points],
        [float(point.num_judged) for point in points],
        name=name,
        compute_name="flops",
        value_name="pass_rate",
    )


def fit_of(points: Sequence[EvalPoint], name: str = "run") -> Fit | None:
    """The law, or None where there are too few points."""
    if _num_trained(points) < MIN_POINTS_TO_FIT:
        return None
    from scalerl.curves import fit

    return fit(series_of(points, name), level=LEVEL)


def look_ahead(points: Sequence[EvalPoint], end_flops: float | None) -> Outlook:
    """The value expected when the budget ends, at `end_flops`; None: nobody knows where that is."""
    from scalerl.curves import fit, forecast
    from scalerl.curves.diagnose import ENOUGH_POINTS

    missing = ENOUGH_POINTS - _num_trained(points)
    if missing > 0:
        return Outlook(reason=f"after {missing} more evaluation{'s' if missing > 1 else ''}")
    if end_flops is None or end_flops <= points[-1].ledger.total.flops:
        return Outlook(reason="the budget is used up")
    try:
        law = fit(series_of(points), level=LEVEL)
        now = law.last_compute
        way = forecast(law, [now + (end_flops - now) * (i + 1) / PLACES_AHEAD for i in range(PLACES_AHEAD)])
    except ScaleRLError as error:  # a curve that no law can be fitted to is no reason to stop training
        return Outlook(reason=f"not possible ({error})")
    return Outlook(law, way[-1], way)


def end_of_budget(used: float, budget: float, flops: float) -> float | None:
    """FLOPs at the end of the budget, at the rate so far; None before anything is used."""
    return flops * budget / used if used > 0 and flops > 0 else None


def _num_trained(points: Sequence[EvalPoint]) -> int:
    return sum(point.step > 0 for point in points)
