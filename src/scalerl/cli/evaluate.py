"""`scalerl evaluate`: a run's policy versions, or any model, on evaluation suites after the fact.

Called by the typer application. What is measured and how is `scalerl.pipeline.measure`; nothing is written, neither
into the run nor elsewhere.
"""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scalerl.cli import options
from scalerl.cli.output import Document, Outcome, text_of, to_json
from scalerl.cli.settings import Asked, resolve, suite_changes
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.config import RunConfig
    from scalerl.pipeline.measure import Watch
    from scalerl.pipeline.types import EvalPoint
    from scalerl.runs.scores import Results

Target = Annotated[
    str, typer.Argument(metavar="RUN|MODEL", help="A run directory, one of its checkpoints, or any model folder.")
]
Versions = Annotated[
    str | None,
    typer.Option(
        "--versions", metavar="N,...", rich_help_panel=options.WHAT,
        help="Policy versions of a run: 0, steps with a checkpoint, last. Default: last.",
    ),
]  # fmt: skip
MODEL_SCALE = "paper_8b"
"""Sizes for a model that no run says anything about, unless --scale names others."""


def evaluate(
    target: Target,
    suites: options.Suites = None,
    versions: Versions = None,
    scale: options.Scale = None,
    config: options.ConfigFile = None,
    sets: options.Sets = None,
    seed: options.Seed = None,
    json: options.Json = False,
) -> Outcome:
    """Measure versions of a run, or a model, on evaluation suites: mean@k and pass@k with errors over problems."""
    from scalerl.cli.train import check_installed

    folder, of_a_run = _run_of(Path(target))
    given = Asked(scale=scale, config=config, sets=tuple(sets or ()), seed=seed, suites=tuple(suites or ()))
    if versions is not None and (folder is None or of_a_run):
        raise InputError("--versions", versions, "with a run directory only; this is one policy", target)
    if folder is None:
        run, asked = _model_run(target, given), ["0"]
    else:
        run, asked = _measured_run(folder, given), of_a_run or (versions or "last").split(",")
    if not run.scale.evaluation.downstream:
        raise InputError("nothing to measure on", allowed="--suite NAME or --suite FILE.toml")
    check_installed()
    points = _measured(run, folder, [text.strip() for text in asked])
    document = _document(target, points)
    if json:
        return Outcome(to_json(document))
    from scalerl.cli.set_table import scores_table

    return Outcome(text_of([scores_table(document["measured"]), *_difference_lines(document)]))


def _run_of(path: Path) -> tuple[Path | None, list[str] | None]:
    """The run that a path is, or that a checkpoint belongs to, and then its version."""
    from scalerl.readers.run_directory import is_run_directory
    from scalerl.runs.layout import CHECKPOINTS, complete_checkpoints, step_of

    if is_run_directory(path):
        return path, None
    run, folder = path.absolute().parent.parent, path.absolute()
    if is_run_directory(run) and folder in complete_checkpoints(run / CHECKPOINTS):
        return run, [str(step_of(folder))]
    return None, None


def _measured_run(folder: Path, asked: Asked) -> RunConfig:
    """The run's own config, with the suites in the place of its sets; without any, its own sets."""
    from scalerl.config import patch
    from scalerl.config.layers import parse_override
    from scalerl.runs import RunDirectory

    if asked.from_presets or asked.seed is not None:
        raise InputError("--scale, --config and --seed", folder, "with a model only: a run has its own config")
    run = RunDirectory.open(folder).config
    if asked.suites:
        run = patch(run, {"scale.evaluation.downstream": {}})
    changes = {key: one for key, (one, _) in suite_changes(asked.suites).items()}
    changes |= {".".join(path): value for text in asked.sets for path, value in [parse_override(text)]}
    return patch(run, changes) if changes else run


def _model_run(target: str, asked: Asked) -> RunConfig:
    """A config for a model that was not trained here: the sizes of a scale, and nothing that cuts thinking short."""
    model = f'{{source = "pretrained", name = {json_text.dumps(target)}, dtype = "float32"}}'
    own = {"scale.model": model, "scale.warm_start": '{kind = "none"}', "recipe.length": '{kind = "none"}'}
    said = {text.partition("=")[0].strip() for text in asked.sets}
    extra = tuple(f"{key}={value}" for key, value in own.items() if key not in said)
    return resolve(
        Asked(
            scale=asked.scale or MODEL_SCALE, config=asked.config, sets=(*extra, *asked.sets), seed=asked.seed,
            suites=asked.suites,
        )
    ).config  # fmt: skip


def _measured(run: RunConfig, folder: Path | None, asked: Sequence[str]) -> dict[int, dict[str, EvalPoint]]:
    """Version -> set -> point."""
    from scalerl.config.policy import PretrainedModel
    from scalerl.pipeline.computing import computing
    from scalerl.pipeline.measure import find_versions, measure, policy_of, tasks_to_measure
    from scalerl.policy.pretrained import resolve as resolve_policy
    from scalerl.runs import RunDirectory

    own = None if folder is None else RunDirectory.open(folder)
    found = {0: None} if own is None else find_versions(own.checkpoints, asked)
    trained = run if own is None else own.config  # step 0 is that of the run, whatever it is measured on now
    if isinstance(run.scale.model, PretrainedModel) and Path(run.scale.model.name).exists():
        resolve_policy(run.scale.model.name)  # a folder without a model is refused before a hub is asked for questions
    tasks = tasks_to_measure(run, trained=folder is not None)
    # as it was trained: answers depend on it in the last digit
    with nullcontext() if folder is None else computing(run), _bar() as watch:
        return {step: measure(run, policy_of(trained, at), step, tasks, watch) for step, at in found.items()}


@contextmanager
def _bar() -> Iterator[Watch]:
    """A line on standard error, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("loading the policy", total=None)

        def watch(name: str, version: int, done: int, wanted: int) -> None:
            progress.update(task, description=f"version {version:,}, {name}", completed=done, total=wanted)

        yield watch


def _document(target: str, points: Mapping[int, Mapping[str, EvalPoint]]) -> Document:
    measured = [_one(version, name, point) for version, sets in points.items() for name, point in sets.items()]
    return {"target": target, "measured": measured, "differences": _differences(points)}


def _one(version: int, name: str, point: EvalPoint) -> Document:
    from dataclasses import asdict

    from scalerl.runs.scores import usual_ks

    results = _results(point)
    passed = {k: score for k in usual_ks(point.num_samples) if (score := results.pass_at(k)) is not None}
    return {
        "version": version,
        "set": name,
        "k": point.num_samples,
        "mean_at_k": point.pass_rate,
        "standard_error": point.standard_error,
        "num_problems": point.num_problems,
        "num_judged": point.num_judged,
        "truncation_rate": point.truncation_rate,
        "mean_length": point.mean_length,
        "pass_at": {str(k): asdict(score) for k, score in passed.items()},
        "problems": {key: {"correct": one[0], "judged": one[1]} for key, one in point.per_problem.items()},
    }


def _differences(points: Mapping[int, Mapping[str, EvalPoint]]) -> list[Document]:
    """The last version against the first, problem by problem."""
    from dataclasses import asdict

    from scalerl.runs.scores import paired_difference

    first, last = min(points), max(points)
    if first == last:
        return []
    found = {
        name: paired_difference(_results(points[first][name]), _results(points[last][name])) for name in points[last]
    }
    return [{"set": name, "from": first, "to": last, **asdict(one)} for name, one in found.items() if one is not None]


def _results(point: EvalPoint) -> Results:
    from scalerl.runs.scores import Results

    return Results(point.num_samples, point.per_problem)


def _difference_lines(document: Document) -> list[str]:
    lines = []
    for one in document["differences"]:
        error = "" if one["standard_error"] is None else f" +- {one['standard_error']:.3f}"
        gain = f"{one['value']:+.3f}"
        lines.append(
            f"{one['set']}: {gain}{error} from version {one['from']:,} to {one['to']:,}, paired over "
            f"{one['num_problems']:,} problems"
        )
    return lines
