"""The folder of a study: its only memory. Everything else is derived from it, by any process, at any time.

    study.json               the config of the study, what identifies it, the version of scalerl
    jobs/NAME/job.json       the job: cell, seed, identity, settings; written before it starts
    jobs/NAME/run/           the run directory, or {out} of a command
    jobs/NAME/output.txt     what the runner printed
    jobs/NAME/outcome.json   how it ended; written last, missing while it has not ended
    decisions.jsonl          one line for each decision of the race
    results.json             the analysis
    lock                     held by the process that runs the study

Written by whoever runs the study, read by status and analysis. Every file is whole or not there (`scalerl.folder`). A
study is known by its name, its base and its cells: seeds and cells may be added, nothing may change or go away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from scalerl import __version__
from scalerl.config.layers import check_plain
from scalerl.config.study import StudyConfig, changed, study_from, study_values
from scalerl.errors import InputError, StorageError
from scalerl.folder import PARTIAL, make_folder, replace_file
from scalerl.readers.json_lines import Record
from scalerl.runs.lock import locked
from scalerl.runs.store import Records, plain
from scalerl.study.jobs import Job, Outcome
from scalerl.study.plan import Plan, plan

STUDY, LOCK, JOBS, DECISIONS, RESULTS = "study.json", "lock", "jobs", "decisions.jsonl", "results.json"
JOB, RUN, OUTPUT, OUTCOME = "job.json", "run", "output.txt", "outcome.json"
FORMAT = 1
_MOST_NAMED = 3


@dataclass(frozen=True)
class StudyFolder:
    """One study on disk. Build it with `create_or_open` or `open`."""

    path: Path
    plan: Plan
    """The whole study: what the folder held and what was added."""
    added: tuple[str, ...] = ()
    """What this opening added to a study that was there, in words."""

    @property
    def config(self) -> StudyConfig:
        """The whole study, as study.json says."""
        return self.plan.config

    @classmethod
    def create_or_open(cls, path: str | Path, config: StudyConfig) -> Self:
        """A new folder, or that of this study, with new seeds and cells added; that of another is refused.

        Seeds that the folder has and `config` has not stay part of the study.
        """
        folder, asked = Path(path), plan(config)
        found = cls.peek(folder, asked)
        if found is None:
            return cls._write(folder, asked)
        if study_values(found.config) == study_values(_read(folder).config):
            return found
        return cls._write(folder, found.plan, found.added)

    @classmethod
    def peek(cls, path: str | Path, asked: Plan) -> Self | None:
        """What `create_or_open` would give, without writing; None where it would begin a new folder."""
        folder = Path(path)
        if not _is_study(folder):
            _refuse_strange(folder)
            return None
        before = _read(folder)
        _check_same(before, asked, folder)
        seeds = (*before.config.seeds, *(seed for seed in asked.config.seeds if seed not in before.config.seeds))
        whole = asked if seeds == asked.config.seeds else plan(changed(asked.config, seeds=seeds))
        return cls(folder, whole, _additions(before, whole))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The folder of a study that exists; no config needed."""
        folder = Path(path)
        if not _is_study(folder):
            raise InputError("not the folder of a study", allowed=f"a folder with a {STUDY}", where=str(path))
        before = _read(folder)
        found = plan(before.config)
        if dict(found.digests) != before.digests:
            name = next(name for name in before.digests if found.digests.get(name) != before.digests[name])
            what = f"cell {name} no longer resolves to the config that the study began with (scalerl {before.version})"
            allowed = f"the presets and files of that time; this is scalerl {__version__}"
            raise InputError(what, allowed=allowed, where=str(folder))
        return cls(folder, found)

    def job_path(self, job: Job) -> Path:
        """The job's own folder; it need not be there yet."""
        return self.path / JOBS / job.name

    def run_path(self, job: Job) -> Path:
        """The run directory, or {out} of a command."""
        return self.job_path(job) / RUN

    def output_path(self, job: Job) -> Path:
        """What the runner printed."""
        return self.job_path(job) / OUTPUT

    @property
    def results_path(self) -> Path:
        """The analysis."""
        return self.path / RESULTS

    def write_job(self, job: Job) -> None:
        """Make the job's folder, with its job.json; one that is there stays as it is."""
        file = self.job_path(job) / JOB
        if not file.exists():
            make_folder(file.parent)
            replace_file(file, job_text(job))

    def started(self, job: Job) -> bool:
        """Whether the job ever began."""
        return (self.job_path(job) / JOB).exists()

    def outcome(self, job: Job) -> Outcome | None:
        """How the job ended; None while it has not."""
        file = self.job_path(job) / OUTCOME
        try:
            return Outcome(**json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, RecursionError) as error:
            raise _broken(file, error) from None

    def write_outcome(self, job: Job, outcome: Outcome) -> None:
        """The last thing that is written about a job."""
        replace_file(self.job_path(job) / OUTCOME, _text(asdict(outcome)))

    def clear_outcome(self, job: Job) -> None:
        """The job has not ended after all: it is tried again, or goes on."""
        file = self.job_path(job) / OUTCOME
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError.of(error, file) from None

    def add_decision(self, decision: Mapping[str, Any]) -> None:
        """One more line; the very same decision, made again after a crash, is not written twice."""
        self.add_decisions([decision])

    def add_decisions(self, decisions: Iterable[Mapping[str, Any]]) -> None:
        """The same for many: what is there is read once."""
        known = {_text(line) for line in self.decisions()}
        for decision in decisions:
            if _text(decision) not in known:
                self._decisions.append(decision)
        self._decisions.offset()  # on the disk before anything is stopped by them

    def decisions(self) -> list[Record]:
        """What the race decided, in order."""
        return self._decisions.read() if self._decisions.path.exists() else []

    def write_results(self, text: str) -> None:
        """The analysis, whole or not at all."""
        replace_file(self.results_path, text)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One process runs a study at a time; the kernel lets go when it dies."""
        with locked(self.path / LOCK):
            yield

    @property
    def _decisions(self) -> Records:
        return Records(self.path / DECISIONS)

    @classmethod
    def _write(cls, folder: Path, whole: Plan, added: tuple[str, ...] = ()) -> Self:
        make_folder(folder)
        saved = {
            "format": FORMAT,
            "scalerl": __version__,
            "digest": whole.digest,
            "cells": dict(whole.digests),
            "config": study_values(whole.config),
        }
        replace_file(folder / STUDY, _text(saved))
        return cls(folder, whole, added)


def job_text(job: Job) -> str:
    """The content of job.json."""
    return _text(asdict(job))


@dataclass(frozen=True)
class _Saved:
    """What study.json says."""

    config: StudyConfig
    digest: str
    digests: Mapping[str, str]
    version: str


def _read(folder: Path) -> _Saved:
    file = folder / STUDY
    try:
        saved = dict(json.loads(file.read_bytes()))
        form, config, digests = saved["format"], saved["config"], dict(saved["cells"])
        digest, version = str(saved["digest"]), str(saved["scalerl"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _broken(file, error) from None
    if form != FORMAT:
        raise InputError("format of the study", form, f"{FORMAT} in this version", str(file))
    check_plain(config, str(file))
    return _Saved(study_from(config, str(file)), digest, digests, version)


def _is_study(folder: Path) -> bool:
    return (folder / STUDY).is_file()


def _check_same(before: _Saved, asked: Plan, folder: Path) -> None:
    """The error for another study says what differs."""
    changes: list[str] = []
    if before.config.name != asked.config.name:
        changes.append(f"it is called {before.config.name} there, {asked.config.name} here")
    elif before.digest != asked.digest:
        changes.append("the base is another one" + _base_words(before.config, asked.config))
    else:
        gone = [name for name in before.digests if name not in asked.digests]
        other = [name for name, found in before.digests.items() if asked.digests.get(name, found) != found]
        changes += [f"cell {name} is not here" for name in gone] + [f"cell {name} is another one" for name in other]
    if changes:
        more = f", and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
        what = f"the folder belongs to another study ({'; '.join(changes[:_MOST_NAMED])}{more})"
        raise InputError(what, allowed="the same study, seeds and cells added, or a new folder", where=str(folder))


def _base_words(before: StudyConfig, asked: StudyConfig) -> str:
    """Which table says so, as far as the files tell: presets may have changed instead."""
    old, new = (_flat(study_values(config)["base"]) for config in (before, asked))
    keys = [key for key in [*old, *(key for key in new if key not in old)] if old.get(key) != new.get(key)]
    if not keys:
        return ""
    key = keys[0]
    return f": {key} is {_shown(old.get(key))} there, {_shown(new.get(key))} here"


def _flat(base: Mapping[str, Any]) -> dict[str, Any]:
    return {"recipe": base["recipe"], "scale": base["scale"], **base["set"]}


def _additions(before: _Saved, whole: Plan) -> tuple[str, ...]:
    seeds = [str(seed) for seed in whole.config.seeds if seed not in before.config.seeds]
    cells = [name for name in whole.digests if name not in before.digests]
    words = [f"seeds added: {', '.join(seeds)}"] if seeds else []
    return (*words, *([f"cells added: {', '.join(cells)}"] if cells else []))


def _refuse_strange(folder: Path) -> None:
    """Nothing is written into a folder with other things in it."""
    if folder.exists() and not folder.is_dir():
        raise InputError("a file, not a folder", allowed="a new folder for the study", where=str(folder))
    strange = [] if not folder.is_dir() else [file.name for file in folder.iterdir() if not file.name.endswith(PARTIAL)]
    if strange:
        allowed = "a new or empty folder, or that of this study; nothing is overwritten"
        raise InputError("the folder holds other things", min(strange), allowed, str(folder))


def _broken(file: Path, error: Exception) -> InputError:
    return InputError(f"broken file ({error!r})", allowed="what a study has written", where=str(file))


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
