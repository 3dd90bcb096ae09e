"""`scalerl decide`: go on, stop, or measure more; as text, as JSON, or as an exit code for scripts.

Called by the typer application. The decision itself is the engine's.
"""

from __future__ import annotations

from scalerl.cli import checks, options, places, sources
from scalerl.cli.output import Outcome, decision_document, one_or_many, text_of, to_json
from scalerl.errors import InputError

EXIT_CODES = {"SCALE": 0, "STOP": 10, "NEED MORE DATA": 11, "UNSTABLE": 12}


def decide(
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
    level: options.Level = "0.8",
    budget: options.Budget = None,
    delta: options.Delta = None,
    question: options.QuestionName = "value",
    json: options.Json = False,
    exit_code: options.ExitCode = False,
) -> Outcome:
    """Is a larger budget worth it? SCALE, STOP, NEED MORE DATA or UNSTABLE, with the probability and the reason."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, example, (x, y, n, by), duplicates, limits, log)
    fitting = checks.fitting((start, until), floor, None, "sigmoid", "varpro", level, limits)
    asked = () if budget is None else (places.budget(budget),)
    smallest_gain = None if delta is None else checks.positive("--delta", delta)

    curves = sources.read(reading, as_seeds=as_seeds)
    if exit_code and len(curves.seeds) > 1:
        raise InputError("--exit-code with several curves", len(curves.seeds), "one curve")
    fitting, advice = sources.with_advice(fitting, curves)
    fits = sources.fit_all(curves, fitting)

    from scalerl import curves as engine

    decisions = [
        engine.decide(fit, next(iter(places.amounts(asked, fit.series)), None), delta=smallest_gain, question=question)
        for fit in fits
    ]
    code = EXIT_CODES[decisions[0].action] if exit_code else 0
    if json:
        documents = [
            decision_document(fit, decision, question, curves.source(fit.series))
            for fit, decision in zip(fits, decisions, strict=True)
        ]
        return Outcome(to_json(one_or_many(documents)), advice, code)
    from scalerl.report.terminal import render_decision

    parts = [render_decision(decision, fit) for fit, decision in zip(fits, decisions, strict=True)]
    return Outcome(text_of([*sources.about(curves, advice), *parts]), code=code)
