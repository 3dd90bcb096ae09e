"""What the commands print: the JSON documents, as pure functions of results, and the text of the human output.

Used by the command modules. Reads no file, fits nothing, writes nothing. The keys of a document are a promise: `SCHEMA`
grows when one of them changes its meaning or goes away. Unknown is null; NaN and infinity never appear.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from scalerl.curves import Fit
    from scalerl.curves.results import (
        Backtest,
        Comparison,
        Decision,
        Estimate,
        Forecast,
        TargetForecast,
        WindowFit,
    )

SCHEMA = 1

Document = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a command has to say, once all its work is done."""

    text: str
    notes: tuple[str, ...] = ()
    """For stderr, one line each."""
    code: int = 0


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


def to_json(document: Document) -> str:
    """One JSON document and a newline."""
    return json.dumps(_clean({"schema": SCHEMA} | document), indent=2, allow_nan=False) + "\n"


def one_or_many(documents: Sequence[Document]) -> Document:
    """One curve stands at the top level; several are a list under `curves`."""
    return documents[0] if len(documents) == 1 else {"curves": list(documents)}


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


def _inside(value: float, low: float | None, high: float | None) -> bool | None:
    return None if low is None or high is None else low <= value <= high


def decision_document(fit: Fit, decision: Decision, question: str, source: Document) -> Document:
    """`scalerl decide --json` for one curve."""
    return law_document(fit) | {"question": question, "decision": asdict(decision)} | source


def comparison_document(fits: Sequence[Fit], comparison: Comparison, sources: Sequence[Document]) -> Document:
    """`scalerl compare --json`."""
    curves = [law_document(fit) | source for fit, source in zip(fits, sources, strict=True)]
    return comparison.to_dict() | {"curves": curves}


def backtest_document(backtest: Backtest, source: Document) -> Document:
    """`scalerl backtest --json`: a summary by method and share, and every single score."""
    from scalerl.report.words import summaries

    summary = [asdict(row) for row in summaries(backtest)]
    return {"level": backtest.level, "summary": summary, "scores": backtest.to_dict()["scores"]} | source


def picture_line(picture: Path | None) -> list[RenderableType]:
    """Where the picture went, as the last line of the human output."""
    from rich.text import Text

    return [] if picture is None else [Text(f"Picture: {picture}")]


def text_of(parts: Iterable[RenderableType]) -> str:
    """The parts as this terminal shows them, in colour where it has colours."""
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()


def _clean(value: Any) -> Any:
    """Plain JSON values: NaN and infinity become null, numpy scalars plain numbers."""
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
