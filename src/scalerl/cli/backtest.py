"""`scalerl backtest`: how good the forecasts would have been on these very curves.

Called by the typer application. The scores are the engine's.
"""

from __future__ import annotations

from scalerl.cli import checks, options, sources
from scalerl.cli.output import Outcome, backtest_document, picture_line, text_of, to_json


def backtest(
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
    shares: options.Shares = "0.3,0.5",
    level: options.Level = "0.8",
    json: options.Json = False,
    plot: options.Plot = None,
) -> Outcome:
    """Fit the first part of each curve, forecast the rest, and score that against simple methods."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, example, (x, y, n, by), duplicates, limits, log)
    parts = checks.shares(shares)
    probability = checks.probability("--level", level)
    picture = checks.plot_path(plot, interactive=False)

    curves = sources.read(reading)
    series = [one for seeds in curves.seeds.values() for one in seeds]

    from scalerl import curves as engine

    result = engine.backtest(series, shares=parts, level=probability, bounds=limits)
    if picture is not None:
        from scalerl.report.figures import plot_backtest

        plot_backtest(result, picture)
    if json:
        return Outcome(to_json(backtest_document(result, curves.source(series))))
    from scalerl.report.terminal import render_backtest

    return Outcome(text_of([*sources.about(curves, ()), render_backtest(result), *picture_line(picture)]))
