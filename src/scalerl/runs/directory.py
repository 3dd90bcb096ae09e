"""The run directory: the only memory of a run. Everything else is derived from it, by any process, at any time.

The pipeline writes it (`RunDirectory.check`, then `hold`); reports, resume and the command line read it (`open`).
Bytes and their crash contracts are the business of `store` and `scalerl.folder`; checkpoints are written by the
pipeline. A run is identified by its config without the budget, the frequency of checkpoints, the guards and the number
of processes: they may change when a run goes on, and config.json then holds the latest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from scalerl.config import RunConfig, diff, from_json, to_dict
from scalerl.errors import InputError, StorageError
from scalerl.folder import PARTIAL, check_writable, flush_names, make_folder, replace_file
from scalerl.plain_file import read_plain
from scalerl.readers.run_directory import is_run_directory
from scalerl.runs import layout
from scalerl.runs.lock import locked
from scalerl.runs.provenance import describe_session
from scalerl.runs.store import Records, plain

FORMAT = 1
_PROCESSES = ("trainers", "generators", "trainer_gpus", "generator_gpus", "device", "transfer")
"""Keys of `scale.launcher` that do not belong to the identity: who shares the work, and on what."""
_FREE = ("scale.budget.", "scale.checkpoint_every", "scale.guards.", *(f"scale.launcher.{key}" for key in _PROCESSES))
"""Beginnings of the dotted keys that do not belong to the identity."""
_FREE_PARTS = {"budget", "checkpoint_every", "guards"}
_MOST_NAMED = 3


@dataclass(frozen=True)
class RunDirectory:
    """One run. Build it with `create`, `open` or `hold`."""

    path: Path
    config: RunConfig

    @classmethod
    def create(cls, path: str | Path, config: RunConfig, *, provenance: bool = True) -> Self:
        """A new run directory; one that holds this very run already is opened as it is. Nothing is overwritten."""
        folder = Path(path)
        _refuse_strange(folder)
        if not is_run_directory(folder):
            make_folder(folder)
            with locked(folder / layout.LOCK):
                if not is_run_directory(folder):  # another process may have been faster
                    directory = cls(folder, config)
                    if provenance:
                        directory.add_provenance()
                    directory._write_config()
                    return directory
        directory = cls.open(folder)
        directory.check_same(config)
        return directory

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """A run directory that exists."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputError("no such run directory", allowed="a folder that a run has written", where=str(path))
        if not is_run_directory(folder):
            allowed = f"a folder with the {layout.CONFIG} of a run"
            raise InputError("the folder is no run directory", allowed=allowed, where=str(path))
        return cls(folder, _read_config(folder / layout.CONFIG))

    @classmethod
    def check(cls, path: str | Path, config: RunConfig, *, resume: bool = False) -> None:
        """Whether `hold` would work, before time is spent on anything: a new folder, or with `resume` this run."""
        folder = Path(path)
        if is_run_directory(folder):
            cls.open(folder).check_same(config)
            if not resume:
                raise _exists_already(path)
        elif resume:
            cls.open(folder)  # says what is wrong
        _refuse_strange(folder)
        check_writable(folder / layout.CHECKPOINTS if folder.is_dir() else folder)

    @classmethod
    @contextmanager
    def hold(cls, path: str | Path, config: RunConfig, *, resume: bool = True) -> Iterator[Self]:
        """Create the run, or open it and adopt the budget, and keep every other process out: this begins a session.

        Without `resume` a run that has recorded something is refused: another process was faster since `check`.
        Until `finish` is called the run counts as crashed once the process is gone.
        """
        existed = is_run_directory(path)
        directory = cls.create(path, config)
        with locked(directory.path / layout.LOCK):
            if not resume and (directory.evals.path.exists() or directory.metrics.path.exists()):
                raise _exists_already(path)
            if existed:
                directory = directory.adopt_budget(config)
                directory.add_provenance()
            _remove(directory.path / layout.STOPPED)
            yield directory

    @property
    def identity(self) -> str:
        """Equal for two configs that compute the same, one perhaps for longer."""
        return identity(self.config)

    @property
    def metrics(self) -> Records:
        """One record a step."""
        return Records(self.path / layout.METRICS)

    @property
    def evals(self) -> Records:
        """One record an evaluation."""
        return Records(self.path / layout.EVALS)

    @property
    def events(self) -> Records:
        """One record for whatever else happened. Unlike the others it is never cut back when a run goes on."""
        return Records(self.path / layout.EVENTS)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints; it need not be there yet."""
        return self.path / layout.CHECKPOINTS

    def check_same(self, config: RunConfig) -> None:
        """The error for a config that would compute something else names what differs."""
        changes = {key: change for key, change in diff(self.config, config).items() if not key.startswith(_FREE)}
        if not changes:
            return
        named = [f"{key} is {_shown(old)} there, {_shown(new)} here" for key, (old, new) in changes.items()]
        more = f", and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        raise InputError(
            f"a run directory that belongs to another config ({'; '.join(named[:_MOST_NAMED])}{more})",
            allowed="the same config, or a new folder; budget, checkpoint_every, guards, launcher's counts may change",
            where=str(self.path),
        )

    def adopt_budget(self, config: RunConfig) -> Self:
        """The same run with the budget (and frequency of checkpoints) of `config`, kept in config.json."""
        self.check_same(config)
        if not diff(self.config, config):
            return self
        adopted = type(self)(self.path, config)
        adopted._write_config()
        return adopted

    def write_evaluation(self, step: int, results: Mapping[str, Any]) -> Path:
        """The results by problem of the evaluation at this step; whole or not at all."""
        file = self.evaluation_file(step)
        make_folder(file.parent)
        replace_file(file, json.dumps(plain(results), allow_nan=False, ensure_ascii=False) + "\n")
        return file

    def evaluation_file(self, step: int) -> Path:
        return self.path / layout.EVALUATIONS / f"{layout.step_name(step)}.json"

    def write_inspection(self, step: int, lines: Iterable[Mapping[str, Any]]) -> Path:
        """The batch of a step that was skipped, for whoever wants to know why."""
        file = self.path / layout.INSPECTION / f"{layout.step_name(step)}.jsonl"
        make_folder(file.parent)
        text = "".join(json.dumps(plain(line), allow_nan=False, ensure_ascii=False) + "\n" for line in lines)
        replace_file(file, text)
        return file

    def finish(self, reason: str, step: int) -> None:
        """How the session ended: "budget", "exhausted", "interrupted" or "guard" (see `status`)."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"reason": reason, "step": step, "ended": ended}, indent=2)
        replace_file(self.path / layout.STOPPED, text + "\n")

    def add_provenance(self) -> None:
        """One more session in provenance.json."""
        sessions = [*read_sessions(self.path), describe_session()]
        text = json.dumps({"sessions": sessions}, indent=2, ensure_ascii=False)
        replace_file(self.path / layout.PROVENANCE, text + "\n")

    def _write_config(self) -> None:
        saved = {"format": FORMAT, "identity": self.identity, "config": to_dict(self.config)}
        replace_file(self.path / layout.CONFIG, json.dumps(saved, indent=2, ensure_ascii=False) + "\n")


def identity(config: RunConfig) -> str:
    """SHA-256 of the config without what `_FREE` names."""
    return _digest(to_dict(config))


def _digest(values: Mapping[str, Any]) -> str:
    scale = {key: value for key, value in values["scale"].items() if key not in _FREE_PARTS}
    scale["launcher"] = {key: value for key, value in scale["launcher"].items() if key not in _PROCESSES}
    text = json.dumps({**values, "scale": scale}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """What provenance.json says about each session, the first one first; empty when there is none."""
    file = path / layout.PROVENANCE
    try:
        return _checked_sessions(json.loads(read_plain(file))["sessions"])
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror})", where=str(file)) from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"broken provenance ({error})", allowed="what a run has written", where=str(file)) from None


def _checked_sessions(found: object) -> list[dict[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(session, dict) for session in found):
        raise TypeError("no list of sessions")
    return found


def _read_config(file: Path) -> RunConfig:
    saved = json.loads(read_plain(file))  # recognised before: it is an object with these keys
    if saved.get("format") != FORMAT:
        raise InputError("format of the run directory", saved.get("format"), f"{FORMAT} in this version", str(file))
    config = from_json(json.dumps(saved["config"]), str(file))
    if _digest(saved["config"]) != saved["identity"]:  # of what is stored: a later version may know more keys
        allowed = "the config that the run began with; begin a new run for another one"
        raise InputError("the config was changed by hand", allowed=allowed, where=str(file))
    return config


def _exists_already(path: str | Path) -> InputError:
    return InputError("the run exists already", allowed="--resume to go on with it, or a new folder", where=str(path))


def _refuse_strange(folder: Path) -> None:
    """Nothing is written into a folder with other things in it."""
    if folder.exists() and not folder.is_dir():
        raise InputError("a file, not a folder", allowed="a new folder for the run", where=str(folder))
    if not folder.is_dir() or is_run_directory(folder):
        return
    ours = {layout.LOCK, layout.PROVENANCE}  # left by a process that died while creating the run
    strange = [file.name for file in folder.iterdir() if file.name not in ours and not file.name.endswith(PARTIAL)]
    if strange:
        allowed = "a new or empty folder, or a run directory; nothing is overwritten"
        raise InputError("the folder holds other things", min(strange), allowed, str(folder))


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
        flush_names(file.parent)
    except OSError as error:
        raise StorageError.of(error, file) from None


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
