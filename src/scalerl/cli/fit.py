"""`scalerl fit`: the law of each curve, what it forecasts, and whether to go on.

Called by the typer application. It asks the engine and hands the answers to `output` or to the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalerl.cli import checks, options, places, sources
from scalerl.cli.output import Outcome, one_or_many, picture_line, text_of, to_json
from scalerl.cli.places import Place
from scalerl.report.answers import Answers, ask, fit_document

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from scalerl.curves import Fit

MOST_IN_FULL = 4
"""Curves shown one by one; beyond that a table says more than many screens."""


def fit(
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
    budget: options.Budgets = None,
    target: options.Targets = None,
    delta: options.Delta = None,
    json: options.Json = False,
    plot: options.Plot = None,
) -> Outcome:
    """Fit a scaling law to each curve: ceiling, efficiency, forecasts with intervals, and a decision."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(files, example, (x, y, n, by), duplicates, limits, log)
    fitting = checks.fitting((start, until), floor, ceiling, law, method, level, limits)
    budgets = tuple(places.budget(text) for text in budget or ())
    targets = tuple(checks.finite("--target", text, limits) for text in target or ())
    smallest_gain = None if delta is None else checks.positive("--delta", delta)
    picture = checks.plot_path(plot)

    curves = sources.read(reading, as_seeds=as_seeds)
    fitting, advice = sources.with_advice(fitting, curves)
    answers = [answer(one, budgets, targets, smallest_gain) for one in sources.fit_all(curves, fitting)]
    if picture is not None:
        from scalerl.report.figures import plot_fits

        marked = dict.fromkeys(at for one in answers for at in places.amounts(budgets, one.fit.series))
        plot_fits([one.fit for one in answers], picture, budgets=[*marked], target=targets[0] if targets else None)
    if json:
        documents = [fit_document(one, curves.source(one.fit.series)) for one in answers]
        return Outcome(to_json(one_or_many(documents)), advice)
    return Outcome(_text(answers, curves, advice, picture))


def answer(fit: Fit, budgets: Sequence[Place], targets: Sequence[float], delta: float | None) -> Answers:
    """Everything the command says about one fit."""
    return ask(fit, places.amounts(budgets, fit.series), targets, delta)


def _text(answers: Sequence[Answers], curves: sources.Curves, advice: Sequence[str], picture: Path | None) -> str:
    """Each curve in full, as long as they are few; then all of them side by side."""
    from rich.text import Text

    from scalerl.cli.overview import overview

    parts = sources.about(curves, advice)
    if len(answers) <= MOST_IN_FULL:
        for one in answers:
            parts += _in_full(one)
    if len(answers) > 1:
        parts.append(overview(answers))
    if len(answers) > MOST_IN_FULL:
        parts.append(Text("Fit one curve alone, or use --json, to see everything about it."))
    return text_of([*parts, *picture_line(picture)])


def _in_full(answers: Answers) -> list[RenderableType]:
    from rich.text import Text

    from scalerl.cli.overview import held_out_line
    from scalerl.report.terminal import render_fit

    whole = render_fit(
        answers.fit,
        forecasts=answers.forecasts,
        decision=answers.decision,
        targets=answers.targets,
        gains=answers.gains,
    )
    line = held_out_line(answers)
    return [whole, Text(line)] if line else [whole]
