"""Everything asked of one fit, and its JSON document: what `scalerl fit --json` prints and what a report is built on.

Called by the command line and by `document`. Asks the engine, reads no file, writes nothing. The keys of a document are
a promise. Unknown is null; NaN and infinity never appear once `plain` has seen the document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the engine takes a second to import, and some commands need only the documents
    from scalerl.curves import Fit
    from scalerl.curves.results import Decision, Estimate, Forecast, TargetForecast, WindowFit

Document = dict[str, Any]

DEFAULT_BUDGETS = (2.0, 4.0, 10.0)
"""Times the last compute of the fit."""


@dataclass(frozen=True)
class Answers:
    """Everything asked of one fit."""

    fit: Fit
    forecasts: tuple[Forecast, ...]
    targets: tuple[TargetForecast, ...]
    gains: tuple[tuple[float, Estimate], ...]
    decision: Decision
    held_out: tuple[Forecast, ...]
    """One forecast for each point of `held_out_points(fit)`, in the same order."""


def ask(
    fit: Fit,
    budgets: Sequence[float] = (),
    targets: Sequence[float] = (),
    delta: float | None = None,
    *,
    decide_at: float | None = None,
) -> Answers:
    """Everything there is to say about one fit.

    The decision is about `decide_at`, without it about the largest budget. One that the curve has passed already leaves
    nothing to decide, and then it is about twice the last compute, as without a budget.
    """
    from scalerl.curves import decide, forecast, marginal_gains, reach

    asked = budgets or tuple(factor * fit.last_compute for factor in DEFAULT_BUDGETS)
    ahead = [budget for budget in (budgets if decide_at is None else (decide_at,)) if budget > fit.last_compute]
    held_out = [compute for compute, _ in held_out_points(fit)]
    return Answers(
        fit=fit,
        forecasts=forecast(fit, asked),
        targets=tuple(reach(fit, target) for target in targets),
        gains=marginal_gains(fit),
        decision=decide(fit, max(ahead, default=None), delta=delta),
        held_out=forecast(fit, held_out) if held_out else (),
    )


def fit_document(answers: Answers, source: Document) -> Document:
    """`scalerl fit --json` for one curve; `source` says where it came from."""
    return (
        law_document(answers.fit)
        | {
            "forecast": [asdict(forecast) for forecast in answers.forecasts],
            "targets": [asdict(target) for target in answers.targets],
            "gains": [{"compute": compute} | estimate_document(gain) for compute, gain in answers.gains],
            "decision": asdict(answers.decision),
            "held_out": held_out_document(answers),
        }
        | source
    )


def law_document(fit: Fit) -> Document:
    """The fit itself: its parameters, its window, and what to know before trusting it."""
    return {
        "name": fit.name,
        "law": fit.law,
        "method": fit.method,
        "level": fit.level,
        "ceiling": optional_estimate(fit.ceiling),
        "exponent": optional_estimate(fit.exponent),
        "midpoint": optional_estimate(fit.midpoint),
        "floor": optional_estimate(fit.floor),
        "parameters": {name: estimate_document(value) for name, value in fit.parameters.items()},
        "identified": fit.identified,
        "points": fit.points,
        "seeds": len(fit.series),
        "sse": fit.sse,
        "r_squared": fit.r_squared,
        "window": {  # as asked for (null is open), and the compute of the first and last point inside
            "from": fit.window[0],
            "until": fit.window[1],
            "first": fit.first_compute,
            "last": fit.last_compute,
        },
        "windows": [window_document(window) for window in fit.windows],
        "diagnostics": [asdict(diagnostic) for diagnostic in fit.diagnostics],
        "x": fit.compute_name,
        "y": fit.value_name,
        "bounds": None if fit.bounds is None else list(fit.bounds),
    }


def source_document(files: Iterable[str], example: str | None = None, citation: str | None = None) -> Document:
    return {"files": list(dict.fromkeys(files)), "example": example, "citation": citation}


def estimate_document(estimate: Estimate) -> Document:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def optional_estimate(estimate: Estimate | None) -> Document | None:
    return None if estimate is None else estimate_document(estimate)


def window_document(window: WindowFit) -> Document:
    values = asdict(window)
    return {"from": values.pop("low"), "until": values.pop("high")} | values


def held_out_points(fit: Fit) -> list[tuple[float, float]]:
    """(compute, value) of every point after the window, over all seeds."""
    return [
        (float(compute), float(value))
        for series in fit.held_out
        for compute, value in zip(series.compute, series.value, strict=True)
    ]


def held_out_document(answers: Answers) -> list[Document]:
    """What came after the window against what was forecast for it."""
    return [
        {
            "compute": compute,
            "value": value,
            "forecast": forecast.value,
            "low": forecast.low,
            "high": forecast.high,
            "inside": _inside(value, forecast.low, forecast.high),
        }
        for (compute, value), forecast in zip(held_out_points(answers.fit), answers.held_out, strict=True)
    ]


def plain(value: Any) -> Any:
    """Plain JSON values: NaN and infinity become null, numpy scalars plain numbers."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _inside(value: float, low: float | None, high: float | None) -> bool | None:
    return None if low is None or high is None else low <= value <= high
