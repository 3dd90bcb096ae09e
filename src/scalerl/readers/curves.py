"""Any file, folder or log as `Series`: the one door through which numbers come in.

Called by the command line and by users. What is behind a path decides who reads it: one of our run directories
(`run_directory`), another trainer's log (`logs`), or a table (`table`). Knows nothing about laws or reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

from scalerl.errors import InputError
from scalerl.readers.logs.axis import Devices
from scalerl.readers.logs.curve import Wanted, read_log
from scalerl.readers.logs.open import find_logs, is_folder, log_name
from scalerl.readers.logs.records import Log, Tally
from scalerl.readers.logs.survey import Survey, survey
from scalerl.readers.logs.tracks import Restarts
from scalerl.readers.points import Duplicates, Places, collect, to_series
from scalerl.readers.run_directory import RunLog, RunRows, is_run_directory
from scalerl.readers.source import open_source
from scalerl.readers.table import table_series
from scalerl.series import Series

Bounds = tuple[float, float] | None
Curves = dict[str, list[Series]]
_DUPLICATES = ("mean", "last", "seeds")
_RESTARTS = ("replace", "continue")


class Options(TypedDict, total=False):
    """What can be said about the curves of a file."""

    x: str | None
    """The column or metric of compute; guessed from usual names when not given (see `columns` and `logs.axis`)."""
    y: str | None
    """The column or metric of the value; guessed likewise."""
    n: str | None
    """The column with the number of answers behind a value, or that number; "none" to read none. A cell may be empty:
    with some known, the others get the median of those; with none known, `Series.n` is None."""
    by: str | None
    """The column (or several, separated by commas) whose values name the curves of a table; without it the table is one
    curve, called like the file."""
    duplicates: Duplicates | None
    """What several rows at one compute are. None: an error; "mean": one measurement, averaged (by n if known); "last":
    the later row replaces the earlier; "seeds": runs of one recipe, named `curve#1`, `curve#2`, ..."""
    bounds: Bounds
    """Values outside are an error; None allows any. Default (0, 1)."""
    gpus: float | None
    """Compute is GPU-hours: the log's seconds times this."""
    params: float | None
    """Compute is FLOPs: the log's tokens times 8 times this."""
    gpu_hours_per_step: float | None
    """Compute is GPU-hours: the log's steps times this."""
    restarts: Restarts
    """When the steps of a log begin anew: "replace" (default) takes the later part, "continue" counts on."""
    progress: Callable[[int, int], None] | None
    """Called with bytes read and bytes in all while a log is read."""


@dataclass(frozen=True)
class _Asked:
    """`Options`, checked."""

    x: str | None = None
    y: str | None = None
    n: str | None = None
    by: str | None = None
    duplicates: Duplicates | None = None
    bounds: Bounds = (0.0, 1.0)
    devices: Devices = field(default_factory=Devices)
    restarts: Restarts = "replace"
    progress: Callable[[int, int], None] | None = None

    @classmethod
    def of(cls, options: Options) -> _Asked:
        rest = {name: value for name, value in options.items() if name not in _DEVICES}
        asked = cls(devices=Devices(*(options.get(name) for name in _DEVICES)), **rest)  # type: ignore[arg-type]  # a TypedDict
        if asked.duplicates is not None and asked.duplicates not in _DUPLICATES:
            raise InputError("unknown --duplicates", asked.duplicates, " or ".join(_DUPLICATES))
        if asked.restarts not in _RESTARTS:
            raise InputError("unknown --restarts", asked.restarts, " or ".join(_RESTARTS))
        bounds = asked.bounds
        if bounds is not None and not (all(map(math.isfinite, bounds)) and bounds[0] < bounds[1]):
            raise InputError("unusable --bounds", bounds, "two finite numbers, the lower first")
        return asked


_DEVICES = ("gpus", "params", "gpu_hours_per_step")


def read_table(path: str | Path, **options: Unpack[Options]) -> list[Series]:
    """Every curve of one file, in order of first appearance; see `Options`.

    A row at zero compute is the step-0 measurement (`Series.start`), not a point. `path` "-" is a table on standard
    input. It may be a run directory: then `x` is flops (default), tokens, device_hours or steps, and `y` the pass rate.
    """
    curves = _read(path, _Asked.of(options), _parts(path)[-1])
    return [series for seeds in curves.values() for series in seeds]


def read_curves(paths: Sequence[str | Path], **options: Unpack[Options]) -> Curves:
    """Every curve of several files by name; the seeds of one curve are together in its list.

    Options as in `read_table`. Without `by` each file is one curve, called like the file, with as many parent folders
    as tell the files apart. With `by`, a name that occurs in several files gets its file's name in front.
    """
    asked = _Asked.of(options)
    curves: Curves = {}
    names = _file_names(paths)
    read = {name: _read(path, asked, name) for name, path in zip(names, paths, strict=True)}
    labels = [label for found in read.values() for label in found]
    for name, found in read.items():
        for label, seeds in found.items():
            unique = label if labels.count(label) == 1 else f"{name}/{label}"
            curves[unique] = seeds if unique == label else [replace(s, name=f"{name}/{s.name}") for s in seeds]
    return curves


@dataclass(frozen=True)
class Listing:
    """What `scalerl read --list` shows of one log."""

    name: str
    kind: str
    survey: Survey

    @property
    def notes(self) -> list[str]:
        found = self.survey.restarts
        times = f"{len(found.found):,} times" if len(found.found) > 1 else "once"
        back = [] if not found.found else [f"the step went back {times}"]
        return back + self.survey.tally.notes()


def list_metrics(path: str | Path, *, progress: Callable[[int, int], None] | None = None) -> list[Listing]:
    """Every metric of a log, a table or a run directory, with counts and ranges."""
    logs: list[Log] | None = [RunLog(path)] if is_run_directory(path) else find_logs(path, tables_too=True)
    if logs is None:
        with open_source(path) as source:  # says what is wrong with it
            raise InputError("nothing to list", source.format, "a log, a table or a run directory", str(path))
    name = _parts(path)[-1]
    return [
        Listing(name if len(logs) == 1 else log.name or f"{name}#{i}", log.kind, survey(log, Tally(progress)))
        for i, log in enumerate(logs, 1)
    ]


def _read(path: str | Path, asked: _Asked, name: str) -> Curves:
    if is_run_directory(path):
        return {name: _run(path, asked, name)}
    logs = find_logs(path, tables_too=asked.devices.given)
    if logs is None:
        parts = table_series(
            path, asked.x, asked.y, asked.n, asked.by, duplicates=asked.duplicates, bounds=asked.bounds, name=name
        )
        return dict(parts)
    if asked.by is not None:
        raise InputError("--by", asked.by, "nothing: a log is one curve for each run", str(path))
    wanted = Wanted(
        asked.x, asked.y, asked.n, asked.devices, asked.restarts, asked.duplicates, asked.bounds, asked.progress
    )
    names = [name] if len(logs) == 1 else [log.name or f"{name}#{i}" for i, log in enumerate(logs, 1)]
    return {one: read_log(log, wanted, one) for one, log in zip(names, logs, strict=True)}


def _run(path: str | Path, asked: _Asked, name: str) -> list[Series]:
    if asked.devices.given:
        option = next(option for option, value in asked.devices.options.items() if value is not None)
        allowed = "--x flops, tokens, device_hours or steps: a run directory has its own ledger"
        raise InputError(f"{option} does not go with a run directory", allowed=allowed, where=str(path))
    run = RunRows(path)
    picked, places = run.pick(x=asked.x, y=asked.y, n=asked.n, by=asked.by), Places(run.label, run.unit)
    (points,) = collect(run.chunks(picked), picked, places, asked.bounds, name)
    return to_series(points, picked, places, asked.duplicates, run.named)


def _parts(path: str | Path) -> tuple[str, ...]:
    """The folders and the name; of a file without its ending (a folder may have a dot in its name)."""
    if str(path) == "-":
        return ("stdin",)
    online = log_name(path)
    if online is not None:
        return online
    whole = Path(path).absolute()
    if whole.name == "..":
        whole = whole.resolve()
    return (*whole.parts[1:-1], whole.name if is_folder(whole) else whole.stem)


def _file_names(paths: Sequence[str | Path]) -> list[str]:
    """Stems, with as many parent folders in front as tell them apart."""
    whole = [_parts(path) for path in paths]
    for depth in range(1, max(map(len, whole), default=0) + 1):
        names = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(names)) == len(names):
            return names
    if not paths:
        return []
    repeated = next(p for i, p in enumerate(paths) if whole[i] in whole[:i])
    raise InputError("two files with one name", str(repeated), "each file once, names that differ before the dot")
