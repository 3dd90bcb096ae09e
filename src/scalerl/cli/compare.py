"""`scalerl compare`: which recipe has the higher ceiling, which is only faster, and how sure that is.

Called by the typer application. The comparison itself is the engine's.
"""

from __future__ import annotations

from scalerl.cli import checks, options, sources
from scalerl.cli.output import Outcome, comparison_document, picture_line, text_of, to_json
from scalerl.errors import InputError


def compare(
    files: options.Files = None,
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
    start: options.From = None,
    until: options.Until = None,
    floor: options.Floor = None,
    ceiling: options.Ceiling = None,
    level: options.Level = "0.8",
    reference: options.Reference = None,
    margin: options.Margin = None,
    json: options.Json = False,
    plot: options.Plot = None,
) -> Outcome:
    """Compare recipes: does one move the ceiling, or only the efficiency? With intervals of the differences."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, None, (x, y, n, by), duplicates, limits, log)
    fitting = checks.fitting((start, until), floor, ceiling, "sigmoid", "varpro", level, limits)
    equal_within = None if margin is None else checks.positive("--margin", margin)
    picture = checks.plot_path(plot)

    curves = sources.read(reading)
    names = list(curves.seeds)
    if len(names) < 2:
        raise InputError("nothing to compare", f"one curve, {names[0]}", "two curves or more (several FILEs, or --by)")
    if reference is not None and reference not in names:
        raise InputError("--reference", reference, "one of " + ", ".join(names))
    fits = sources.fit_all(curves, fitting)

    from scalerl import curves as engine

    comparison = engine.compare(fits, reference=reference, margin=equal_within)
    if picture is not None:
        from scalerl.report.figures import plot_comparison

        plot_comparison(fits, picture, comparison=comparison)
    if json:
        documents = [curves.source(fit.series) for fit in fits]
        return Outcome(to_json(comparison_document(fits, comparison, documents)))
    from scalerl.report.terminal import render_comparison

    parts = [*sources.about(curves, ()), render_comparison(comparison, fits), *picture_line(picture)]
    return Outcome(text_of(parts))
