"""Any other trainer in a study: a command with names to fill in, and the log that it leaves.

Opened by `runner.open_runner`. The command is split like a shell would split it and then filled in, part by part, so
that no value can become two arguments; no shell is involved. {out} is a folder of the job's own; {seed}, {budget} and
{share} come from the study, all other names are the parameters of base and cell. A command that says it resumes finds
its {out} as it left it; for any other, what an earlier start left is moved aside.
"""

from __future__ import annotations

import json
import shlex
import shutil
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalerl.config.study_parts import CommandTrainer, placeholders
from scalerl.errors import InputError, StorageError
from scalerl.folder import make_folder
from scalerl.readers.curves import read_table
from scalerl.redaction import command_without_secrets
from scalerl.series import Series
from scalerl.study.jobs import Job
from scalerl.study.plan import GIVEN
from scalerl.study.process import Child, start_child
from scalerl.study.runner import RUN, Progress


class CommandRunner:
    """`Runner` for jobs whose settings are {"parameters": ...}."""

    def __init__(self, trainer: CommandTrainer) -> None:
        self._trainer = trainer

    def check(self, jobs: Sequence[Job], prune: bool) -> None:
        asked = placeholders(self._trainer.command)
        if prune and not asked & {"budget", "share"}:
            allowed = "a command with {budget} or {share}: it is asked for parts of the budget first"
            raise InputError("--prune: runner.command", self._trainer.command, allowed)
        if len({job.seed for job in jobs}) > 1 and "seed" not in asked:
            raise InputError("runner.command", self._trainer.command, "a command with {seed}: there are several")

    def start(self, job: Job, place: Path, share: float) -> Child:
        if not self._trainer.resumes:
            _set_aside(place / RUN)
        make_folder(place / RUN)
        values = self._values(job, place, share)
        command = [fill(part, values) for part in shlex.split(self._trainer.command)]
        shown = shlex.join(command_without_secrets(command))
        return start_child(command, place, f"{job.name}, {share:.4g} of the budget: {shown}")

    def curve(self, job: Job, place: Path) -> list[Series]:
        return [self._read(job, place, {})]

    def downstream(self, job: Job, place: Path) -> dict[str, Series]:
        return {name: self._read(job, place, {"y": metric}) for name, metric in self._trainer.downstream.items()}

    def progress(self, job: Job, place: Path) -> Progress:  # noqa: ARG002  # the protocol's
        """A log of another trainer can be large: nothing is read at a glance."""
        return Progress()

    def _read(self, job: Job, place: Path, asked: Mapping[str, Any]) -> Series:
        log = fill(self._trainer.log, self._values(job, place, 1.0))
        if not Path(log).exists() or (Path(log).is_dir() and not any(Path(log).iterdir())):
            raise InputError("the command left no log (runner.log)", where=log)
        found = read_table(log, **{**self._trainer.reading, **asked})
        if len(found) != 1:
            raise InputError("curves in the log of one job (runner.log)", len(found), "one curve", log)
        return replace(found[0], name=f"{job.cell}, seed {job.seed}")

    def _values(self, job: Job, place: Path, share: float) -> dict[str, Any]:
        given = (job.seed, str((place / RUN).absolute()), self._trainer.budget_at(share), share)
        return {**_parameters(job), **dict(zip(GIVEN, given, strict=True))}


def _set_aside(run: Path) -> None:
    """Keep what an earlier start left, of several the last."""
    if run.is_dir() and any(run.iterdir()):
        before = run.with_name(f"{run.name}.before")
        try:
            if before.exists():
                shutil.rmtree(before)
            run.rename(before)
        except OSError as error:
            raise StorageError.of(error, before) from None


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with a value in the place of each name; unlike `str.format`, a dot is part of the name."""
    parts = []
    for literal, name, spec, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is not None:
            parts.append(_text(values[name]) if not spec else format(values[name], spec))
    return "".join(parts)


def _text(value: Any) -> str:
    """As a command line has it: texts as they are, everything else as JSON (true, 3e-05, [1, 2])."""
    return value if isinstance(value, str) else json.dumps(value)


def _parameters(job: Job) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = job.settings["parameters"]
    return parameters
