"""Downstream sets and parts of one run as JSON values: measurements, rank correlation with held-out, a law of its own.

    {"metric", "name", "kind", "k", "words": [...], "missing": [...], "first": {"step", "value", "error"}, "last": ...,
     "pass_at_k": {"value", "error"} | null, "correlation": {"value", "low", "high"} | null, "evaluations",
     "against": {"held_out", "held_out_error", "value", "error", "step"},
     "curve": {"unit", "compute", "value", "law_compute", "law"} | null, "law": {...} | null}

Built by `gather` for the report; drawn by its page, its picture and its Markdown. The correlation is that of a study
(`scalerl.study.downstream`), here over the evaluations of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.results import Estimate
from scalerl.errors import InputError
from scalerl.readers import read_table
from scalerl.report.answers import Document
from scalerl.report.own_run import unit_name
from scalerl.report.set_results import Measured, SetResult, read_sets
from scalerl.report.thinning import evenly, rounded
from scalerl.runs.directory import RunDirectory
from scalerl.series import Series
from scalerl.study.downstream import FEWEST_TO_RANK, rank_correlation

LAW_PLACES = 60
MOST_POINTS = 1000
Fitter = Callable[[str, Sequence[Series]], Fit]


def set_documents(path: Path, fitted: Fitter, level: float, bounds: Any = (0.0, 1.0)) -> list[Document]:
    """One for each set and part of a run; `fitted` makes the law of a curve as the report makes its own."""
    return [_document(one, path, fitted, level, bounds) for one in read_sets(RunDirectory.open(path))]


def _document(one: SetResult, path: Path, fitted: Fitter, level: float, bounds: Any) -> Document:
    # a part is in the held-out value itself
    correlation, reason = _correlation(one.measured, level) if one.kind == "downstream" else (None, None)
    fit, missing = _law(one, path, fitted, bounds)
    passed = None if one.passed is None else {"value": one.passed.value, "error": one.passed.standard_error}
    return {
        "metric": one.metric,
        "name": one.name,
        "kind": one.kind,
        "k": one.num_samples,
        "first": _point(one.measured[0]),
        "last": _point(one.last),
        "pass_at_k": passed,
        "correlation": None if correlation is None else asdict(correlation),
        "evaluations": len(one.measured),
        "against": _against(one.measured),
        "curve": None if fit is None else _curve(fit),
        "law": None if fit is None else _parameters(fit),
        "words": [line for line in (_correlation_words(one, correlation), _law_words(fit)) if line],
        "missing": [line for line in (reason, missing) if line],
    }


def score_words(value: float, error: float | None) -> str:
    """`0.412 ± 0.031`."""
    return numbers.number(value) + ("" if error is None else f" ± {numbers.number(error, 2)}")


def _point(measured: Measured) -> Document:
    return {"step": measured.step, "value": measured.value, "error": measured.error}


def _against(measured: Sequence[Measured]) -> Document:
    keys = ("step", "value", "error", "held_out", "held_out_error")
    kept = [measured[i] for i in evenly(len(measured), MOST_POINTS).tolist()]
    return {key: [getattr(one, key) for one in kept] for key in keys}


def _correlation(measured: Sequence[Measured], level: float) -> tuple[Estimate | None, str | None]:
    x, y = np.array([one.held_out for one in measured]), np.array([one.value for one in measured])
    if len(measured) < FEWEST_TO_RANK:
        times = f"it was measured {len(measured)} times, and ranks need {FEWEST_TO_RANK}"
        return None, f"no rank correlation: {times}"
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None, f"no rank correlation: {'the held-out' if np.ptp(x) == 0 else 'its own'} value never changed"
    return rank_correlation(x, y, level), None


def _correlation_words(one: SetResult, found: Estimate | None) -> str | None:
    if found is None:
        return None
    return f"rank correlation with the held-out value {numbers.estimate(found)} over {len(one.measured)} evaluations"


def _law(one: SetResult, path: Path, fitted: Fitter, bounds: Any) -> tuple[Fit | None, str | None]:
    try:
        (series,) = read_table(path, y=one.metric, bounds=bounds)
        return fitted(one.name, [series]), None
    except InputError as error:
        return None, f"no law of its own: {error.what}, {error.value} ({error.allowed})"


def _law_words(fit: Fit | None) -> str | None:
    if fit is None:
        return None
    own = f"its own {fit.law} law, over {fit.points} points"
    if fit.ceiling is None:
        return f"{own}, has no ceiling"
    return f"{own}: " + (f"ceiling {numbers.estimate(fit.ceiling)}" if fit.identified else "ceiling not identified yet")


def _parameters(fit: Fit) -> Document:
    names = ("floor", "ceiling", "exponent", "midpoint")
    found = {name: getattr(fit, name, None) for name in names}
    values = {name: asdict(one) if isinstance(one, Estimate) else None for name, one in found.items()}
    return values | {"law": fit.law, "identified": fit.identified, "points": fit.points}


def _curve(fit: Fit) -> Document:
    """The points, and the law between the first and the last of them."""
    compute = np.concatenate([one.compute for one in fit.series])
    value = np.concatenate([one.value for one in fit.series])
    between = np.geomspace(compute.min(), compute.max(), LAW_PLACES)
    kept = evenly(compute.size, MOST_POINTS)
    return {
        "unit": unit_name(fit.compute_name),
        "compute": compute[kept].tolist(),
        "value": value[kept].tolist(),
        "law_compute": rounded(between, 7),
        "law": rounded(fit.value_at(between)),
    }
