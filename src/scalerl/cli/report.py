"""`scalerl report`: one page (or document, or picture) about one or several runs, to put in front of others.

Called by the typer application. It reads and fits like the other commands and hands the results to the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.cli import checks, options, places, sources
from scalerl.cli.output import Outcome
from scalerl.cli.repeat import command_line
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.cli.checks import Fitting, Reading
    from scalerl.cli.places import Place
    from scalerl.curves import Fit
    from scalerl.report.answers import Document
    from scalerl.report.gather import Asked, Gathered
    from scalerl.series import Series

FORMATS = ("html", "md", "png", "svg", "pdf", "json")
_TEXT = ("md", "json")
"""Without -o these go to standard output."""
_DEFAULTS = {"--bounds": "0,1", "--law": "sigmoid", "--method": "varpro", "--level": "0.8", "--restarts": "replace"}


def report(
    files: options.Files = None,
    example: options.Example = None,
    x: options.X = None,
    y: options.Y = None,
    n: options.N = None,
    by: options.By = None,
    duplicates: options.Repeats = None,
    bounds: options.Bounds = "0,1",
    gpus: options.Gpus = None,
    params: options.Params = None,
    gpu_hours_per_step: options.GpuHoursPerStep = None,
    restarts: options.RestartsName = "replace",
    as_seeds: options.AsSeeds = False,
    start: options.From = None,
    until: options.Until = None,
    floor: options.Floor = None,
    ceiling: options.Ceiling = None,
    law: options.LawName = "sigmoid",
    method: options.MethodName = "varpro",
    level: options.Level = "0.8",
    budget: options.Budget = None,
    target: options.Targets = None,
    delta: options.Delta = None,
    reference: options.Reference = None,
    title: options.Title = None,
    kind: options.ReportFormat = None,
    out: options.ReportFile = None,
) -> Outcome:
    """Write a report: curves, forecast with a budget slider, decision, comparison, diagnostics, on one offline page."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, example, (x, y, n, by), duplicates, limits, log)
    fitting = checks.fitting((start, until), floor, ceiling, law, method, level, limits)
    asked_budget = None if budget is None else places.budget(budget)
    targets = tuple(checks.finite("--target", text, limits) for text in target or ())
    smallest_gain = None if delta is None else checks.positive("--delta", delta)
    form, path = _place(kind, out, files or ())
    given = {
        "--example": example, "--x": x, "--y": y, "--n": n, "--by": by, "--duplicates": duplicates, "--bounds": bounds,
        "--gpus": gpus, "--params": params, "--gpu-hours-per-step": gpu_hours_per_step, "--restarts": restarts,
        "--as-seeds": as_seeds, "--from": start, "--until": until, "--floor": floor, "--ceiling": ceiling,
        "--law": law, "--method": method, "--level": level, "--budget": budget, "--target": target, "--delta": delta,
        "--reference": reference, "--title": title, "--format": kind, "-o": out,
    }  # fmt: skip
    command = command_line("report", reading.files, given, _DEFAULTS)

    curves = sources.read(reading, as_seeds=as_seeds)
    _check_reference(reference, list(curves.seeds))
    fitting, advice = sources.with_advice(fitting, curves)

    asked = _asked(reading, curves, fitting, asked_budget, targets, smallest_gain)
    gathered = _gather(curves, asked)
    if form in ("png", "svg", "pdf"):
        assert path is not None
        return _picture(gathered, asked, path, reference, title, advice)
    document = _document(gathered, reference, title or _title(list(curves.seeds)), command, fitting.level)
    return _written(document, form, path, (*advice, *_problems(gathered)))


def _asked(
    reading: Reading,
    curves: sources.Curves,
    fitting: Fitting,
    budget: Place | None,
    targets: tuple[float, ...],
    delta: float | None,
) -> Asked:
    from scalerl.report.gather import Asked

    def fit(name: str, seeds: Sequence[Series]) -> Fit:
        (made,) = sources.fit_all(sources.Curves({name: list(seeds)}), fitting)
        return made

    def amount(seeds: Sequence[Series]) -> float | None:
        return None if budget is None else places.amount(budget, places.last_compute(seeds))

    return Asked(
        fit=fit, budget=amount, source=curves.source, y=reading.y, n=reading.n, bounds=reading.bounds, targets=targets,
        delta=delta,
    )  # fmt: skip


def _place(kind: str | None, out: str | None, inputs: Sequence[str]) -> tuple[str, Path | None]:
    """The format, and where the report goes; None is standard output."""
    suffix = "" if out is None else Path(out).suffix.lower().removeprefix(".")
    suffix = {"markdown": "md", "htm": "html"}.get(suffix, suffix)
    if kind is None and out is not None and suffix not in FORMATS:
        allowed = "a file name ending in " + ", ".join(f".{one}" for one in FORMATS) + ", or --format"
        raise InputError("-o", out, allowed)
    form = kind or suffix or "html"
    if out is None:
        return form, None if form in _TEXT else Path(f"report.{form}")
    path = checks.output_path("-o", out, (suffix, Path(out).suffix.lower().removeprefix(".")), inputs)
    if form in ("png", "svg", "pdf") and suffix != form:
        raise InputError("-o", out, f"a file name ending in .{form}, as --format says")
    return form, path


def _check_reference(reference: str | None, names: list[str]) -> None:
    if reference is not None and reference not in names:
        raise InputError("--reference", reference, "one of " + ", ".join(names))


def _gather(curves: sources.Curves, asked: Asked) -> list[Gathered]:
    """Every run; a report about nothing but runs that cannot be fitted is an error."""
    from scalerl.report.gather import gather

    gathered = [gather(name, seeds, asked) for name, seeds in curves.seeds.items()]
    errors = [one.error for one in gathered if one.error is not None]
    if len(errors) == len(gathered):
        raise errors[0]
    return gathered


def _document(gathered: Sequence[Gathered], reference: str | None, title: str, command: str, level: float) -> Document:
    from scalerl.report.document import comparison_documents, report_document, run_document
    from scalerl.report.gather import fits_by_unit

    comparison = comparison_documents(fits_by_unit(gathered), reference) if len(gathered) > 1 else None
    runs = [run_document(one.run) for one in gathered]
    return report_document(runs, comparison, title=title, command=command, level=level)


def _title(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{len(names)} runs compared"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _written(document: Document, form: str, path: Path | None, notes: tuple[str, ...]) -> Outcome:
    """The report in a file, or as the output of the command."""
    import json

    from scalerl.report import output
    from scalerl.report.markdown import report_markdown
    from scalerl.report.page import report_page

    if form == "html":
        text = report_page(document)
    elif form == "md":
        text = report_markdown(document)
    else:
        text = json.dumps(document, allow_nan=False, indent=1) + "\n"
    if path is None:
        return Outcome(text, notes)
    data = text.encode(errors="backslashreplace")
    output.write(path, data)
    runs = len(document["runs"])
    size = f"{len(data) / 1e6:.1f} MB" if len(data) > 1e5 else f"{len(data) / 1e3:.0f} kB"
    return Outcome(f"Report: {path} ({runs} {'run' if runs == 1 else 'runs'}, {size})\n", notes)


def _picture(
    gathered: Sequence[Gathered],
    asked: Asked,
    path: Path,
    reference: str | None,
    title: str | None,
    notes: Sequence[str],
) -> Outcome:
    """The figure of the other commands' --plot, of each run's first unit."""
    from scalerl.curves import compare
    from scalerl.report.figures import plot_comparison, plot_fits

    fits = [one.run.units[0].fit for one in gathered]
    made = [fit for fit in fits if fit is not None]
    budgets = list(dict.fromkeys(at for fit in made if (at := asked.budget(fit.series)) is not None))
    if len(made) > 1 and all(fit.law == "sigmoid" and fit.method == "varpro" for fit in made):
        plot_comparison(made, path, comparison=compare(made, reference=reference), budgets=budgets, title=title)
    else:
        sets = gathered[0].run.sets if len(gathered) == 1 else ()
        plot_fits(made, path, budgets=budgets, target=next(iter(asked.targets), None), title=title, sets=sets)
    return Outcome(f"Picture: {path}\n", (*notes, *_problems(gathered)))


def _problems(gathered: Sequence[Gathered]) -> tuple[str, ...]:
    return tuple(f"no forecast for {one.run.name}: {one.error}" for one in gathered if one.error is not None)
