"""`scalerl study run` and `scalerl study add-seed`: run what a study has planned, or go on with it; plan more seeds.

Registered by `study`. They turn options into a folder and start `study.execute`; everything else is its business.
Exit codes: 0 every job finished or was stopped by the race, 3 some failed, 130 the user stopped it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scalerl.cli import options, study_options
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.cli.study_status import StudyPath, next_line
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.config.study import StudyConfig
    from scalerl.study.execute import Asked
    from scalerl.study.folder import StudyFolder
    from scalerl.study.status import StudyStatus

FAILED, INTERRUPTED = 3, 130

StudyOrFolder = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="A built-in study, a .toml file, or the folder of a study to go on with."),
]
NumWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", rich_help_panel=options.WHERE,
        help="Jobs at a time, one thread each. Default: one for each core; 1 for a command.",
    ),
]  # fmt: skip
Prune = Annotated[
    bool,
    typer.Option(
        "--prune", metavar="", rich_help_panel=options.WHAT,
        help="Race the cells: stop hopeless ones early, by forecast, and give their compute to the undecided.",
    ),
]  # fmt: skip
RetryFailed = Annotated[
    bool,
    typer.Option("--retry-failed", metavar="", rich_help_panel=options.WHAT, help="Try failed jobs once more."),
]
Reuse = Annotated[
    list[str] | None,
    typer.Option(
        "--reuse", metavar="DIR", rich_help_panel=options.WHERE,
        help="The folder of another study: what it has finished and this one would run too is copied; repeatable.",
    ),
]  # fmt: skip
NewSeeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="N,...", rich_help_panel=options.WHAT, help="Which. Default: the next number."),
]


def run(
    study: StudyOrFolder,
    out: study_options.StudyOut = None,
    seeds: study_options.Seeds = None,
    sets: study_options.BaseSets = None,
    budget: study_options.StudyBudget = None,
    prune: Prune = False,
    retry_failed: RetryFailed = False,
    reuse: Reuse = None,
    workers: NumWorkers = None,
    live: options.LiveView = None,
    json: options.Json = False,
) -> Outcome:
    """Run a study, or go on with it: finished jobs are never run again, a failed one does not stop the others."""
    from scalerl.study.execute import Asked
    from scalerl.study.folder import StudyFolder

    if workers is not None and workers < 1:
        raise InputError("--workers", workers, "at least 1")
    others = [StudyFolder.open(path) for path in reuse or ()]
    folder = _folder(study, out, seeds, sets, budget)
    _check_trainer(folder.config)
    num_workers = workers or _default_workers(folder.config)
    return _run(folder, Asked(num_workers, prune, retry_failed, tuple(others)), live, json)


def add_seed(folder: StudyPath, seeds: NewSeeds = None) -> Outcome:
    """Plan one more seed of every cell (or those of --seeds); `scalerl study run` then runs what is new."""
    from scalerl.config.study import changed
    from scalerl.study.folder import StudyFolder

    before = StudyFolder.open(folder).config
    new = [max(before.seeds) + 1] if seeds is None else study_options.parse_seeds(seeds)
    added = [seed for seed in new if seed not in before.seeds]
    if not added:
        raise InputError("--seeds", seeds, f"others than {', '.join(map(str, before.seeds))}, which it has", folder)
    opened = StudyFolder.create_or_open(folder, changed(before, seeds=(*before.seeds, *added)))
    line = (
        f"{'; '.join(opened.added)}: {len(opened.plan.jobs)} jobs now. Run: scalerl study run {shlex.quote(folder)}\n"
    )
    return Outcome(line)


def _own_folder(name: str) -> Path:
    """`studies/NAME`; a name from a file does not lead anywhere else."""
    if name in {".", ".."} or not name.isprintable() or "\\" in name or Path(name).name != name:
        raise InputError("the name of the study is no name of a folder", name, "another name, or --out DIR")
    return Path("studies") / name


def _folder(study: str, out: str | None, seeds: str | None, sets: list[str] | None, budget: str | None) -> StudyFolder:
    """A folder as the study: that one, with its own settings. Otherwise the study, in its folder: so is a built-in name
    with --out, although a folder may be called like it (`run batch --out batch` must go on when it is given again)."""
    from scalerl.config.study import changed
    from scalerl.presets import names
    from scalerl.study.folder import STUDY, StudyFolder

    if not (Path(study) / STUDY).is_file() or (out is not None and study in names("study")):
        config = study_options.asked_study(study, seeds, sets, budget)
        return StudyFolder.create_or_open(out or _own_folder(config.name), config)
    given = {"--out": out, "--set": sets, "--budget": budget}
    for option, value in given.items():
        if value is not None:
            raise InputError(option, str(value), "nothing: the folder of a study has its own settings", study)
    before = StudyFolder.open(study)
    if seeds is None:
        return before
    return StudyFolder.create_or_open(study, changed(before.config, seeds=study_options.parse_seeds(seeds)))


def _check_trainer(config: StudyConfig) -> None:
    from scalerl.cli.train import check_installed

    if config.runner.kind == "scalerl":
        check_installed()


def _default_workers(config: StudyConfig) -> int:
    """A command may well use all cores, or the one GPU."""
    if config.runner.kind == "command":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(folder: StudyFolder, asked: Asked, live: bool | None, json: bool) -> Outcome:
    from scalerl.cli.study_view import StudyView
    from scalerl.study.execute import execute
    from scalerl.study.results import write_results
    from scalerl.study.runner import open_runner
    from scalerl.study.status import study_status

    runner = open_runner(folder.config)
    with folder.hold():
        view = StudyView(lambda: study_status(folder, runner), live)
        with view.shown():
            complete = execute(folder, runner, asked, view)
        if complete:
            write_results(folder, runner)
    found = study_status(folder, runner)
    notes = () if view.failure is None else (f"the view failed ({view.failure}); the study itself did not",)
    return _said(folder, found, complete, (*folder.added, *notes), json)


def _said(folder: StudyFolder, found: StudyStatus, complete: bool, notes: tuple[str, ...], json: bool) -> Outcome:
    from rich.text import Text

    from scalerl.cli.study_tables import status_parts

    code = INTERRUPTED if not complete else FAILED if "failed" in found.counts else 0
    if json:
        return Outcome(to_json({"folder": str(folder.path), **found.to_dict()}), notes, code)
    return Outcome(text_of([status_parts(found), Text(next_line(found, str(folder.path)))]), notes, code)
