"""The report as one plain dictionary: results in, JSON values out. Page, watch server and `--format json` share it.

    {"schema", "title", "created", "version", "command", "level", "runs": [RUN, ...], "comparison": {key: {...}} | null}
    RUN  = {"id", "name", "source", "state", "notes", "units": [UNIT, ...], "panels", "sets", "events", "provenance",
            "problem", "warning"}; "sets" are those of `set_documents`, "events" those of `runs.events`
    UNIT = {"key", "name", "points", "start", "fit", "curve", "log_f", "budget", "history"}

Who builds a `RunResult`: the report command, and the watch server each time a run has changed. This module asks the
engine for what a page must be able to interpolate and knows no file, no canvas and no colour. Missing is null. Names
come from strangers' files and stay text. Lines that are only drawn are rounded to five digits; points are exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from scalerl import __version__
from scalerl.curves import Fit, compare, decide, log_f
from scalerl.curves.decide import SCALE_AT, STOP_AT
from scalerl.curves.diagnose import ENOUGH_POINTS
from scalerl.curves.forecast import quantiles, value_draws
from scalerl.curves.results import Comparison
from scalerl.report import words
from scalerl.report.answers import DEFAULT_BUDGETS, Document, ask, fit_document, plain
from scalerl.report.history import Moment
from scalerl.report.thinning import evenly, rounded
from scalerl.series import FloatArray, Series

SCHEMA = 1
PAST_PLACES, FUTURE_PLACES = 60, 100
"""Places of the curve before and after the last fitted point; enough for a slider to interpolate."""
REACH = 10.0
"""The curve goes on to so many times the last compute, or to the budget."""
MOST_POINTS = 1000

State = Literal["finished", "running", "stopped", "unknown"]


@dataclass(frozen=True)
class UnitResult:
    """One run with its compute counted in one unit."""

    key: str
    """`flops`: equal for what can be compared."""
    name: str
    """`FLOPs`: for people."""
    series: tuple[Series, ...]
    fit: Fit | None
    budget: float | None = None
    """Where the slider stands at first; None: twice the last fitted compute."""
    targets: tuple[float, ...] = ()
    delta: float | None = None
    """Smallest gain worth the budget; None: the engine's default."""
    history: tuple[Moment, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    """`answers.source_document`."""


@dataclass(frozen=True)
class RunResult:
    """Everything known about one run."""

    id: str
    name: str
    source: str
    units: tuple[UnitResult, ...]
    """The first is the one shown at first."""
    state: State = "unknown"
    notes: tuple[str, ...] = ()
    panels: tuple[Document, ...] = ()
    provenance: Mapping[str, str] | None = None
    problem: str | None = None
    """Why there is no fit yet, in words."""
    warning: str | None = None
    """Why what is shown may be old, in words: the file cannot be read at the moment."""
    sets: tuple[Document, ...] = ()
    """Downstream sets and parts (`set_documents`)."""
    events: tuple[Document, ...] = ()
    """What happened to the run besides steps and evaluations (`runs.events`), oldest first."""


def unit_key(name: str) -> str:
    """`GPU-hours` and `gpu_hours` are one unit."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or name


def report_document(
    runs: Sequence[Document],
    comparison: Mapping[str, Document] | None,
    *,
    title: str,
    command: str,
    level: float,
    created: datetime | None = None,
    dated: bool = True,
) -> Document:
    """The whole report, of what `run_document` and `comparison_documents` made.

    `created` is now unless given; a picture is not `dated`: the same fits give the same bytes.
    """
    moment = (created or datetime.now(UTC)).isoformat(timespec="seconds") if dated else None
    document = {
        "schema": SCHEMA,
        "title": title,
        "created": moment,
        "version": __version__,
        "command": command,
        "level": level,
        "runs": list(runs),
        "comparison": None if not comparison else dict(comparison),
    }
    cleaned: Document = plain(document)
    return cleaned


def run_document(run: RunResult) -> Document:
    """One RUN, ready for JSON."""
    document = {
        "id": run.id,
        "name": run.name,
        "source": run.source,
        "state": run.state,
        "notes": list(run.notes),
        "units": [unit_document(unit) for unit in run.units],
        "panels": list(run.panels),
        "sets": list(run.sets),
        "events": list(run.events),
        "provenance": None if run.provenance is None else dict(run.provenance),
        "problem": run.problem,
        "warning": run.warning,
    }
    cleaned: Document = plain(document)
    return cleaned


def unit_document(unit: UnitResult) -> Document:
    """One UNIT; without a fit there are its points and nothing else."""
    budget = unit.budget
    if budget is None and unit.fit is not None:
        budget = 2 * unit.fit.last_compute
    document: Document = {
        "key": unit.key,
        "name": unit.name,
        "points": points_document(unit),
        "start": _start(unit.series),
        "fit": None,
        "curve": None,
        "log_f": None,
        "budget": budget,
        "history": [asdict(moment) for moment in unit.history],
    }
    if unit.fit is None or budget is None:
        return document
    asked = ask(unit.fit, _asked(unit.fit, budget), unit.targets, unit.delta, decide_at=budget)
    return document | {
        "fit": fit_document(asked, dict(unit.source)),
        "curve": curve_document(unit.fit, budget, asked.decision.delta),
        "log_f": _log_f(unit.fit),
    }


def points_document(unit: UnitResult) -> Document:
    """All seeds together, by compute, with the part each point has in the fit; thinned where there are very many."""
    low, high = (None, None) if unit.fit is None else unit.fit.window
    compute = np.concatenate([one.compute for one in unit.series] or [np.empty(0)])
    value = np.concatenate([one.value for one in unit.series] or [np.empty(0)])
    known = bool(unit.series) and all(one.n is not None for one in unit.series)
    n = np.concatenate([one.n for one in unit.series if one.n is not None]) if known else None
    order = np.argsort(compute, kind="stable")
    keep = order[evenly(order.size, MOST_POINTS)]
    return {
        "compute": compute[keep].tolist(),
        "value": value[keep].tolist(),
        "n": None if n is None else n[keep].tolist(),
        "role": [_role(place, low, high) for place in compute[keep].tolist()],
    }


def _role(compute: float, low: float | None, high: float | None) -> str:
    if low is not None and compute < low:
        return "before"
    return "held out" if high is not None and compute > high else "fitted"


def curve_document(fit: Fit, budget: float, delta: float) -> Document:
    """The law everywhere; from the last fitted point on the forecast, its interval, and the decision at each place.

    `probability` is the chance of a gain of `delta` or more; `action` what `scalerl decide` says for that budget.
    """
    ends = [float(s.compute[-1]) for s in fit.series if len(s)]
    farthest = max(REACH * fit.last_compute, 1.2 * budget, *ends)
    first = min(float(s.compute[0]) for s in fit.series if len(s))
    past = np.geomspace(first, fit.last_compute, PAST_PLACES)[:-1]
    future = np.geomspace(fit.last_compute, farthest, FUTURE_PLACES)
    compute = np.concatenate([past, future])
    low, median, high, chance = _forecasts(fit, future, delta)
    empty: list[float | None] = [None] * past.size
    return {
        "compute": rounded(compute, 7),
        "law": rounded(fit.value_at(compute)),
        "median": empty + rounded(median),
        "low": empty + ([None] * future.size if low is None else rounded(low)),
        "high": empty + ([None] * future.size if high is None else rounded(high)),
        "probability": empty + rounded(chance, 3),
        "action": [None] * past.size + _actions(fit, chance),
    }


def _forecasts(
    fit: Fit, future: FloatArray, delta: float
) -> tuple[FloatArray | None, FloatArray, FloatArray | None, FloatArray]:
    """(low, median, high, chance of the gain) at each place; the paper's procedure has no interval."""
    draws = value_draws(fit, future)
    chance = np.mean(draws - draws[:, :1] >= delta, axis=0)
    if fit.method == "paper":
        return None, fit.value_at(future), None, chance
    low, median, high = quantiles(draws, fit.level)
    return low, median, high, chance


def _actions(fit: Fit, chance: FloatArray) -> list[str | None]:
    """`decide` at every place: what overrides the probability does so whatever the budget."""
    made = decide(fit)
    if made.action == "UNSTABLE" or fit.points < ENOUGH_POINTS:
        return [made.action] * chance.size
    return ["SCALE" if p >= SCALE_AT else "STOP" if p <= STOP_AT else "NEED MORE DATA" for p in chance.tolist()]


def comparison_documents(fits: Mapping[str, Sequence[Fit]], reference: str | None = None) -> dict[str, Document]:
    """COMPARISON for each unit (by key) in which two runs or more have a fit that can be compared."""
    documents = {}
    for key, every in fits.items():
        able = [fit for fit in every if fit.law == "sigmoid" and fit.method == "varpro"]
        if len(able) > 1:
            named = reference if reference in {fit.name for fit in able} else None
            documents[key] = comparison_document(compare(able, reference=named), able[0].compute_name)
    return documents


def comparison_document(comparison: Comparison, unit: str) -> Document:
    document: Document = comparison.to_dict() | {"words": [words.pair(pair, unit) for pair in comparison.pairs]}
    return document


def _asked(fit: Fit, budget: float) -> tuple[float, ...]:
    """The budget first, then the usual multiples of the last compute that are not the same to the eye."""
    usual = [factor * fit.last_compute for factor in DEFAULT_BUDGETS]
    return (budget, *(one for one in usual if not 0.95 < one / budget < 1.05))


def _start(series: Sequence[Series]) -> Document | None:
    starts = [one.start for one in series if one.start is not None]
    if not starts:
        return None
    known = [start.n for start in starts if start.n is not None]
    return {"value": float(np.mean([start.value for start in starts])), "n": sum(known) if known else None}


def _log_f(fit: Fit) -> Document | None:
    """The paper's straightened plot; only the sigmoid has one."""
    if fit.law != "sigmoid":
        return None
    found = log_f(fit)
    compute = np.concatenate([one[0] for one in found] or [np.empty(0)])
    f = np.concatenate([one[1] for one in found] or [np.empty(0)])
    keep = evenly(compute.size, MOST_POINTS // 2)
    return {"compute": rounded(compute[keep], 7), "f": rounded(f[keep])} if compute.size else None
