"""`scalerl train`: a recipe at a scale, from the warm start to the last checkpoint, watched on the screen.

Called by the typer application. It turns options into a config, starts the pipeline, and says what came out. How a run
is trained is the pipeline's business, what its curve promises the engine's.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from scalerl.cli import options
from scalerl.cli.checks import positive
from scalerl.cli.output import Outcome, text_of, to_json
from scalerl.cli.settings import Asked, default_folder, resolve, resolve_again
from scalerl.errors import InputError, MissingDependencyError
from scalerl.portable import check_start

if TYPE_CHECKING:
    from scalerl.cli.live import View
    from scalerl.config import Resolved, RunConfig
    from scalerl.pipeline.session import TrainResult

INTERRUPTED = 130


@dataclass(frozen=True)
class Place:
    """Which cluster, and how long one waits for room in it."""

    address: str | None
    patience_s: float | None = None


def train(
    recipe: options.Recipe = None,
    scale: options.Scale = None,
    config: options.ConfigFile = None,
    sets: options.Sets = None,
    suites: options.Suites = None,
    seed: options.Seed = None,
    budget: options.TrainBudget = None,
    launcher: options.LauncherName = None,
    trainers: options.Trainers = None,
    generators: options.Generators = None,
    address: options.Address = None,
    patience: options.Patience = None,
    out: options.OutFolder = None,
    resume: options.Resume = False,
    dry_run: options.DryRun = False,
    live: options.LiveView = None,
    json: options.Json = False,
) -> Outcome:
    """Train a policy with a recipe, and leave a run directory whose curve `scalerl fit` can read."""
    asked = Asked(
        recipe, scale, config, tuple(sets or ()), seed, budget, launcher, trainers, generators, tuple(suites or ())
    )
    if resume:
        folder = Path(out) if out else default_folder(asked)
        resolved = _saved(folder, asked)
    else:
        resolved = resolve(asked)
        folder = Path(out) if out else default_folder(asked, resolved.config.seed)
    if dry_run:
        return _dry_run(resolved, folder, json, "the saved run" if resume else "the presets")
    where = place_of(address, patience)
    if resolved.config.scale.launcher.kind == "ray":
        from scalerl.pipeline.launch.ray.cluster import check_address

        check_address(address)
    elif address is not None:
        raise InputError("--address", address, "with --launcher ray only")
    return _train(resolved.config, folder, resume, live, json, where)


def place_of(address: str | None, patience: str | None) -> Place:
    """A cluster of its own is as large as it must be: there is nobody to wait for."""
    if patience is None:
        return Place(address)
    if address is None:
        raise InputError("--patience", patience, "with --address only")
    return Place(address, positive("--patience", patience))


def _saved(folder: Path, asked: Asked) -> Resolved:
    """The config of the run in a folder, with what may change when it goes on."""
    from scalerl.runs import RunDirectory

    directory = RunDirectory.open(folder)
    resolved = resolve_again(asked, directory.config)
    directory.check_same(resolved.config)
    return resolved


def _dry_run(resolved: Resolved, folder: Path, json: bool, base: str) -> Outcome:
    from scalerl.cli.dry_run import dry_run_document, dry_run_parts

    if json:
        return Outcome(to_json(dry_run_document(resolved, folder)))
    return Outcome(text_of(dry_run_parts(resolved, folder, base)))


def _train(run: RunConfig, folder: Path, resume: bool, live: bool | None, json: bool, where: Place) -> Outcome:
    check_installed()
    if run.scale.launcher.portable:
        check_start()
    from scalerl.cli.live import view_for
    from scalerl.cli.summary import summary_document, summary_parts

    _check_folder(run, folder, resume)
    view = view_for(run, live)
    with view.shown(), _asking_to_stop(view):
        result = _session(run, folder, resume, view, where)
    notes = () if view.failure is None else (f"the view of the run failed ({view.failure}); the run itself did not",)
    code = INTERRUPTED if result.reason == "interrupted" else 0
    if json:
        return Outcome(to_json(summary_document(run, result, view.state, where.address)), notes, code)
    return Outcome(text_of(summary_parts(run, result, view.state, where.address)), notes, code)


def _session(run: RunConfig, folder: Path, resume: bool, view: View, where: Place) -> TrainResult:
    def should_stop() -> bool:
        return view.state.stopping

    if run.scale.launcher.kind == "ray":
        from scalerl.pipeline.launch.ray.drive import train_on_ray

        return train_on_ray(
            run, folder, watcher=view, resume=resume, should_stop=should_stop, address=where.address,
            patience_s=where.patience_s,
        )  # fmt: skip
    from scalerl.pipeline.session import train as train_here

    return train_here(run, folder, resume=resume, observer=view, should_stop=should_stop, progress=view.preparing)


def check_installed() -> None:
    """One line instead of a traceback where the extra `train` is missing."""
    from importlib.util import find_spec

    for package in ("torch", "transformers", "tokenizers", "safetensors"):
        if find_spec(package) is None:
            raise MissingDependencyError(package, "train")


def _check_folder(run: RunConfig, folder: Path, resume: bool) -> None:
    """Before torch is loaded, and in words that name the options."""
    from scalerl.readers.run_directory import is_run_directory
    from scalerl.runs import RunDirectory

    if not resume and is_run_directory(folder):
        RunDirectory.open(folder).check_same(run)
        allowed = "--resume to go on with it, or another folder with --out"
        raise InputError("the run exists already", allowed=allowed, where=str(folder))


@contextmanager
def _asking_to_stop(view: View) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) asks, the second ends at once; before the first step there is nothing to save."""

    def ask(number: int, frame: FrameType | None) -> None:
        if view.state.started_s is None or view.state.stopping:
            signal.default_int_handler(number, frame)
        view.ask_to_stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
