"""From the curves that were read to `RunResult`s: fits in every unit of compute, the forecast's history, what a run of
our own tells beside its curve.

Called by the report command, which passes in how to fit and what was asked. Reads only what our own run directories
hold beside the curve; writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalerl.curves import Fit
from scalerl.errors import InputError
from scalerl.readers.run_directory import VALUE
from scalerl.report.answers import Document
from scalerl.report.document import RunResult, UnitResult, unit_key
from scalerl.report.history import moments
from scalerl.report.own_run import OwnRun, is_run_directory, other_units, read_own_run, unit_name
from scalerl.report.set_documents import set_documents
from scalerl.series import Series

Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class Asked:
    """What the user wants to know, and how to fit."""

    fit: Callable[[str, Sequence[Series]], Fit]
    """The law of one curve, by its name."""
    budget: Callable[[Sequence[Series]], float | None]
    """The budget for a curve in its own unit; None when none was given."""
    source: Callable[[Sequence[Series]], Document]
    """Where a curve came from: `answers.source_document`."""
    y: str | None = None
    n: str | None = None
    bounds: Bounds = (0.0, 1.0)
    targets: tuple[float, ...] = ()
    delta: float | None = None


@dataclass(frozen=True)
class Gathered:
    """One run, its fits by unit, and why there is none if there is none."""

    run: RunResult
    fits: Mapping[str, Fit] = field(default_factory=dict)
    error: InputError | None = None


def gather(name: str, seeds: Sequence[Series], asked: Asked) -> Gathered:
    """Everything about one curve. One that cannot be fitted is in the report with the reason."""
    own = _own(seeds)
    try:
        first = asked.fit(name, seeds)
    except InputError as error:
        unit = UnitResult(unit_key(seeds[0].compute_name), unit_name(seeds[0].compute_name), tuple(seeds), None)
        return Gathered(_run(name, seeds, own, (unit,), str(error), asked), error=error)
    sets = _sets(seeds, own, first.level, asked)
    budget = _budget(first, own, asked)
    units = [_unit(first, budget, asked, history=True)]
    for others in _elsewhere(seeds, asked):
        made = _fit_or_none(name, others, asked)
        if made is not None:
            units.append(_unit(made, budget / first.last_compute * made.last_compute, asked))
    fits = {unit.key: unit.fit for unit in units if unit.fit is not None}
    return Gathered(replace(_run(name, seeds, own, tuple(units), None, asked), sets=sets), fits)


def fits_by_unit(gathered: Sequence[Gathered]) -> dict[str, list[Fit]]:
    """For the comparison: every unit, with the fits of the runs that are measured in it."""
    keys = dict.fromkeys(key for one in gathered for key in one.fits)
    return {key: [one.fits[key] for one in gathered if key in one.fits] for key in keys}


def _own(seeds: Sequence[Series]) -> OwnRun | None:
    """What a run directory of ours tells beside its curve; several seeds are several runs, which have no panels."""
    folder = _folder(seeds[0])
    return read_own_run(folder) if len(seeds) == 1 and folder is not None else None


def _folder(series: Series) -> Path | None:
    folder = Path(series.source).parent
    return folder if series.source and is_run_directory(folder) else None


def _sets(seeds: Sequence[Series], own: OwnRun | None, level: float, asked: Asked) -> tuple[Document, ...]:
    """What a run was measured on beside the curve of the report, if that is its held-out value."""
    folder = _folder(seeds[0])
    if own is None or folder is None or seeds[0].value_name != VALUE:
        return ()
    return tuple(set_documents(folder, asked.fit, level, asked.bounds))


def _elsewhere(seeds: Sequence[Series], asked: Asked) -> list[list[Series]]:
    """The same curve in every other unit that all its seeds know."""
    folders = [_folder(series) for series in seeds]
    if not all(folders):
        return []
    present = seeds[0].compute_name
    found = [
        other_units(folder, present, y=asked.y, n=asked.n, bounds=asked.bounds)
        for folder in folders
        if folder is not None
    ]
    return [[one[key] for one in found] for key in found[0] if all(key in one for one in found)]


def _fit_or_none(name: str, seeds: Sequence[Series], asked: Asked) -> Fit | None:
    try:
        return asked.fit(name, seeds)
    except InputError:  # a window in FLOPs need not hold a point in hours
        return None


def _budget(fit: Fit, own: OwnRun | None, asked: Asked) -> float:
    """As asked; else the end of a run that is under way; else twice what there is."""
    given = asked.budget(fit.series)
    if given is None and own is not None:
        given = own.planned(unit_key(fit.compute_name), fit.last_compute)
    return 2 * fit.last_compute if given is None or given <= fit.last_compute else given


def _unit(fit: Fit, budget: float, asked: Asked, *, history: bool = False) -> UnitResult:
    moved = tuple(moments(fit, budget, delta=asked.delta)) if history else ()
    return UnitResult(
        key=unit_key(fit.compute_name), name=unit_name(fit.compute_name), series=fit.series, fit=fit, budget=budget,
        targets=asked.targets, delta=asked.delta, history=moved,
        source=asked.source(fit.series),
    )  # fmt: skip


def _run(
    name: str,
    seeds: Sequence[Series],
    own: OwnRun | None,
    units: tuple[UnitResult, ...],
    problem: str | None,
    asked: Asked,
) -> RunResult:
    sources = ", ".join(dict.fromkeys(series.source for series in seeds if series.source))
    example = asked.source(seeds).get("example")
    notes = dict.fromkeys(note for series in seeds for note in series.notes)
    return RunResult(
        id=f"{name} @ {sources}", name=name, source=f"example {example}" if example else sources, units=units,
        state="unknown" if own is None else own.state, notes=(*notes, *(() if own is None else own.notes)),
        panels=() if own is None else own.panels, provenance=None if own is None else own.provenance, problem=problem,
        events=() if own is None else own.events,
    )  # fmt: skip
