"""results.json: the analysis of a study as one plain document, the same bytes for the same curves.

Written when a study has run and whenever it is reported; read by the report, in all its formats. No time, no path and
no name of a machine is in it; numbers have ten significant digits; what is not known is null. The curves are in it too,
so that everything can be drawn and fitted again from this file alone.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scalerl.curves import Fit
from scalerl.curves.results import Estimate
from scalerl.series import Series
from scalerl.study.analyse import Analysis, Curves, Settings, analyse, curves_of, full_of, settings_of
from scalerl.study.downstream import CellDownstream, downstream
from scalerl.study.extrapolation import Extrapolated, summarise
from scalerl.study.folder import StudyFolder
from scalerl.study.gather import Gathered, gather
from scalerl.study.jobs import Cell
from scalerl.study.runner import Runner

SCHEMA = 1
DIGITS = 10
_DECISION = ("rung", "cell", "action", "probability", "reason", "seeds", "freed")

Document = dict[str, Any]


def write_results(folder: StudyFolder, runner: Runner | None = None) -> Document:
    """Analyse what has ended, and keep it as results.json."""
    document = results_document(gather(folder, runner))
    folder.write_results(to_text(document))
    return document


def to_text(document: Mapping[str, Any]) -> str:
    """JSON with sorted keys."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def results_document(gathered: Gathered) -> Document:
    """The whole analysis, ready for JSON."""
    analysis = analyse(gathered.curves, gathered.base, gathered.full, gathered.settings)
    config = gathered.folder.config
    document = {
        "schema": SCHEMA,
        "study": config.name,
        "question": config.question,
        "base": gathered.base,
        "seeds": list(config.seeds),
        **_axes(gathered),
        **asdict(analysis.settings),
        **_found(analysis),
        "prune": config.prune.model_dump(mode="json"),
        "jobs": _jobs(gathered),
        "cells": [_cell(cell, gathered, analysis) for cell in gathered.folder.plan.cells],
        "stability": _stability(gathered),
        "downstream": _downstream(gathered.downstream, gathered.curves, gathered.full, gathered.settings),
        "decisions": [{key: line[key] for key in _DECISION if key in line} for line in gathered.decisions],
    }
    found: Document = rounded(document)
    return found


def refitted(document: Document) -> Document:
    """The same curves, analysed by this version. What is no fit stays; a replay of the race is left out."""
    curves, full, settings = curves_of(document), full_of(document), settings_of(document)
    analysis = analyse({cell: seeds for cell, seeds in curves.items() if seeds}, document["base"], full, settings)
    again = document | {
        **_found(analysis),
        "cells": [cell | _fitted(cell["name"], curves[cell["name"]], analysis) for cell in document["cells"]],
        "downstream": _downstream(_sets_of(document), curves, full, settings),
    }
    found: Document = rounded({key: value for key, value in again.items() if key != "replay"})
    return found


def rounded(value: Any) -> Any:
    """Plain JSON values with ten significant digits; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _stability(gathered: Gathered) -> list[Document]:
    """Cell by cell, however the jobs were ordered."""
    order = {cell.name: index for index, cell in enumerate(gathered.folder.plan.cells)}
    return [asdict(one) for one in sorted(gathered.stability, key=lambda one: (order[one.cell], one.seed))]


def _found(analysis: Analysis) -> Document:
    """What the analysis says of the study as a whole."""
    return {
        "at": analysis.at,
        "choices": [asdict(choice) for choice in analysis.choices],
        "ranking": list(analysis.ranking),
        "extrapolation": _extrapolation(analysis),
    }


def _sets_of(document: Document) -> dict[str, dict[str, dict[int, Series]]]:
    """Downstream set -> cell -> seed -> curve."""
    names = {"source": "", "name": "", "compute_name": document["compute_name"], "value_name": document["value_name"]}
    return {
        one["name"]: {
            cell["name"]: {seed["seed"]: Series.from_dict(seed["curve"] | names) for seed in cell["seeds"]}
            for cell in one["cells"]
        }
        for one in document["downstream"]
    }


def _downstream(
    sets: Mapping[str, Curves], curves: Curves, full: Mapping[str, float], settings: Settings
) -> list[Document]:
    """Each set; empty for a study without any."""
    return [
        {
            "name": one.name,
            "correlation": None if one.correlation is None else asdict(one.correlation),
            "ranked": one.ranked,
            "reason": one.reason,
            "cells": [_on_set(cell) for cell in one.cells],
        }
        for one in downstream(sets, curves, full, settings)
    ]


def _on_set(cell: CellDownstream) -> Document:
    return {
        "name": cell.cell,
        "in_distribution": asdict(cell.in_distribution),
        "value": asdict(cell.value),
        "whole": cell.whole,
        "joint": _of(cell.joint),
        "seeds": [{"seed": seed, **asdict(end), "curve": _curve(cell.curves[seed])} for seed, end in cell.ends.items()],
    }


def _axes(gathered: Gathered) -> Document:
    """What stands on the axes, as the curves say."""
    every = [series for seeds in gathered.curves.values() for series in seeds.values()]
    return {
        "compute_name": every[0].compute_name if every else gathered.folder.config.fit.x,
        "value_name": every[0].value_name if every else "value",
    }


def _jobs(gathered: Gathered) -> Document:
    counted = Counter(job.state for job in gathered.jobs)
    states = {state: counted[state] for state in ("finished", "pruned", "failed", "missing")}
    failed = [
        {"cell": job.cell, "seed": job.seed, "error": job.error} for job in gathered.jobs if job.state == "failed"
    ]
    return {"planned": len(gathered.jobs), **states, "failures": failed}


def _cell(cell: Cell, gathered: Gathered, analysis: Analysis) -> Document:
    changes = gathered.folder.plan.diffs.get(cell.name, {})
    return {
        "name": cell.name,
        "recipe": cell.recipe,
        "changes": {key: list(pair) for key, pair in changes.items()},
        "paper": cell.paper,
        "full": gathered.full.get(cell.name),
        "share": gathered.shares.get(cell.name),
        **_fitted(cell.name, gathered.curves[cell.name], analysis),
    }


def _fitted(name: str, curves: Mapping[int, Series], analysis: Analysis) -> Document:
    """The curves of a cell and their fits."""
    fits = analysis.fits.get(name)
    return {
        "means": {quantity: asdict(one) for quantity, one in analysis.means.get(name, {}).items()},
        "joint": None if fits is None else _fit(fits.joint),
        "seeds": [
            {"seed": seed, "curve": _curve(series), "fit": None if fits is None else _of(fits.seeds.get(seed))}
            for seed, series in sorted(curves.items())
        ],
    }


def _of(fit: Fit | None) -> Document | None:
    return None if fit is None else _fit(fit)


def _fit(fit: Fit) -> Document:
    names = ("floor", "ceiling", "exponent", "midpoint")
    estimates: Mapping[str, Estimate] = fit.parameters
    return {
        **{name: asdict(estimates[name]) for name in names},
        "points": fit.points,
        "identified": fit.identified,
        "diagnostics": [{"code": one.code, "message": one.message} for one in fit.diagnostics],
    }


def _curve(series: Series) -> Document:
    values = series.to_dict()
    return {name: values[name] for name in ("compute", "value", "n", "start")}


def _extrapolation(analysis: Analysis) -> Document:
    rows = analysis.extrapolation
    single, joint = [row for row in rows if row.seed is not None], [row for row in rows if row.seed is None]
    return {
        "share": analysis.settings.share,
        "rows": [_row(row) for row in rows],
        "seeds": asdict(summarise(single)),
        "cells": asdict(summarise(joint)),
    }


def _row(row: Extrapolated) -> Document:
    return asdict(row) | {"error": row.error, "inside": row.inside}
