"""Every other command that writes, refused once at each operation: what it says, what it leaves, whether it can go on.

A `Writer` is a command with what it reads and what it is to leave behind. It is called in a folder of its own that
holds everything that it writes to, its cache and its temporary files too, and so every write of it is a point
(`write_points`). Runs are `failures`; both are the campaign `writes` of `python -m tests.faults`.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import books, inputs
from .failures import Failure, Outcome, words_of
from .nursery import Nursery, Ran
from .small import Small

_TRAIN = tuple(Small(steps=1, sets=("scale.warm_start.steps=10",)).begin("run"))
HIDDEN = (".partial", ".tmp", "tmp", ".damaged")
"""Ends of names that nobody takes for a result."""
_MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_TIMES = ("wall_s", "device_s", "time", "session", "measured")
"""Keys of JSON files whose values no two calls share."""


@dataclass(frozen=True)
class Writer:
    """One command."""

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    """Files and folders, by pattern, that must be there in the end and be the same whatever happened."""
    prepare: Callable[[Nursery, Path], None]
    """Puts what the command reads into a folder."""
    done: str = "exists already"
    """What it says where its work is done already, and that is no offer to go on."""
    watched: str = "."
    """Where writes are points: the rest of `train` is the business of `failures`."""

    def call(self, nursery: Nursery, folder: Path, **options: Any) -> Ran:
        (folder / "tmp").mkdir(exist_ok=True)
        own = {"SCALERL_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        return nursery.run(self.arguments, folder, environment=own, **options)


WRITERS = (
    Writer("train, warm start", _TRAIN, ("cache/*", "run/evals.jsonl"), inputs.nothing, watched="cache"),
    Writer("sft", ("sft", "--out", "policy", "--no-live", *_TRAIN[5:]), ("cache/*", "policy"), inputs.nothing),
    Writer(
        "sft --model",
        ("sft", "--model", "model", "--data", "traces.jsonl", "--out", "policy", "--learning-rate", "1e-2", "--no-live",
         "--set", "row_tokens=256", "--batch-tokens", "1024", "--set", "checkpoint_every=2"),
        ("policy",),
        inputs.model_and_traces,
    ),
    Writer(
        "study run",
        (*inputs.STUDY, "--prune"),
        ("study/study.json", "study/decisions.jsonl", "study/results.json", "study/jobs/*/job.json",
         "study/jobs/*/outcome.json", "study/jobs/*/run/log.csv"),
        inputs.study,
    ),
    Writer(
        "study run --reuse",
        ("study", "run", "study.toml", "--out", "again", "--reuse", "study", "--workers", "1", "--no-live"),
        ("again/study.json", "again/results.json", "again/jobs/*/job.json", "again/jobs/*/outcome.json"),
        inputs.finished_study,
    ),
    Writer(
        "study add-seed", ("study", "add-seed", "study", "--seeds", "1"), ("study/study.json",), inputs.finished_study,
        done="which it has",
    ),
    Writer("study report", ("study", "report", "study", "-o", "new/page.md"), ("new/page.md",), inputs.finished_study),
    Writer("fit --plot", ("fit", "curve.csv", "--plot", "new/curve.svg"), ("new/curve.svg",), inputs.curve),
    Writer("report", ("report", "curve.csv", "-o", "new/page.html"), ("new/page.html",), inputs.curve),
    Writer("read --to", ("read", "curve.csv", "--to", "new/curve.jsonl"), ("new/curve.jsonl",), inputs.curve),
    Writer("plan --plot", ("plan", *inputs.PLAN, "--plot", "new/plan.html"), ("new/plan.html",), inputs.nothing),
    Writer("export-config", ("export-config", "trl", "--out", "new/trl.yaml"), ("new/trl.yaml",), inputs.nothing),
    Writer("models get", ("models", "get", "tiny.gguf", "--out", "new/policy"), ("new/policy",), inputs.gguf),
    Writer("runs verify --repair", ("runs", "verify", "run", "--repair"), ("run",), inputs.torn_run),
)  # fmt: skip
BY_NAME = {writer.name: writer for writer in WRITERS}


@dataclass(frozen=True)
class Ground:
    """A command that nothing happened to."""

    writer: Writer
    given: Path
    """What it reads."""
    folder: Path
    """The same after the command."""
    points: tuple[str, ...]


def undisturbed(nursery: Nursery, base: Path, writer: Writer) -> Ground:
    """Every operation by which the command writes, and what it leaves."""
    given, folder, log = base / "given", base / "done", base / "points.json"
    given.mkdir(parents=True)
    writer.prepare(nursery, given)
    shutil.copytree(given, folder)
    ran = writer.call(nursery, folder, tampering=[("writes", {"root": str(folder / writer.watched), "log": str(log)})])
    assert ran.code == 0, ran.err
    return Ground(writer, given, folder, tuple(map(str, books.read_json(log))))


def strike(nursery: Nursery, folder: Path, failure: Failure, ground: Ground) -> Outcome:
    """The call that meets the failure, and the same call on a disk that works again."""
    started, writer, point = time.monotonic(), ground.writer, ground.points[failure.at - 1]
    shutil.copytree(ground.given, folder, dirs_exist_ok=True)
    options = {
        "root": str(folder / writer.watched),
        "at": failure.at,
        "error": failure.error,
        "lasting": failure.lasting,
    }
    ran = writer.call(nursery, folder, tampering=[("writes", options)])
    outcome = Outcome(failure, point, ran.code, ran.refusal, command=writer.name)
    outcome.wrong += words_of(ran, failure, _places(point, writer)) + _half_written(folder, ground)
    if ran.code != 0:
        whole = not _differences(folder, ground)
        again = writer.call(nursery, folder)
        if again.code != 0 and not (whole and writer.done in again.err):
            outcome.wrong.append(f"it does not go on: {again.err[-500:]!r}")
    outcome.wrong += _differences(folder, ground) + _left_behind(folder, failure, point)
    outcome.wall_s = round(time.monotonic() - started, 3)
    return outcome


def _places(point: str, writer: Writer) -> tuple[str, ...]:
    """One of them stands in the line: the file, or the folder that it was to become a part of."""
    path = Path(point.partition(" ")[2].replace(".*", ""))
    own = tuple(name.partition("/")[0] for name in writer.results)  # where the next one failed, or it was to be made
    return (*own, *(name.removesuffix(".partial") for name in path.parts))


def _half_written(folder: Path, ground: Ground) -> list[str]:
    """Files under a name of their own that can be neither what they were nor what they are to become."""
    found = []
    for path in _files(folder):
        given = ground.given / path.relative_to(folder)
        if given.is_file() and given.read_bytes() == path.read_bytes():  # damage that was to be repaired
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".safetensors" and _tensors_end(path) != path.stat().st_size:
                found.append(f"half written: {path.relative_to(folder)}")
        except ValueError:
            found.append(f"half written: {path.relative_to(folder)}")
    results = {path for pattern in ground.writer.results for path in folder.glob(pattern) if path.is_file()}
    for path in results:
        name = path.relative_to(folder)
        if path.suffix in {".jsonl", ".json", ".csv"}:  # grow by lines; or replaced as a whole, more than once
            continue
        wanted = [place for place in (ground.folder, ground.given) if (place / name).exists()]
        if _timeless(path, folder) not in [_timeless(place / name, place) for place in wanted]:
            found.append(f"half written: {name}")
    return found


def _tensors_end(path: Path) -> int:
    """Where a file of safetensors says that it ends."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return start + max((item["data_offsets"][1] for key, item in header.items() if key != "__metadata__"), default=0)


def _differences(folder: Path, ground: Ground) -> list[str]:
    """Between what there is and what there should be."""
    found = []
    for pattern in ground.writer.results:
        one, other = (_contents(place, pattern) for place in (folder, ground.folder))
        assert other, f"{ground.writer.name} leaves no {pattern}"
        found += [f"{name} is missing" for name in sorted(other.keys() - one.keys())]
        found += [f"{name} is too much" for name in sorted(one.keys() - other.keys())]
        found += [f"{name} differs" for name in sorted(one.keys() & other.keys()) if one[name] != other[name]]
    return found


def _contents(folder: Path, pattern: str) -> dict[str, Any]:
    """Files of the results by name, without what depends on the clock."""
    chosen = [path for path in folder.glob(pattern) if not _hidden(path.relative_to(folder))]
    files = [file for path in chosen for file in ([path] if path.is_file() else _files(path))]
    return {str(file.relative_to(folder)): _timeless(file, folder) for file in files if file.name != "lock"}


def _timeless(file: Path, folder: Path) -> Any:
    content = _MOMENT.sub(b"TIME", file.read_bytes().replace(str(folder).encode(), b"FOLDER"))
    try:
        if file.suffix == ".json":
            return _without_times(json.loads(content))
        if file.suffix == ".jsonl":
            return [_without_times(json.loads(line)) for line in content.splitlines()]
    except ValueError:  # torn, as it was given
        return content
    return content


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in _TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _left_behind(folder: Path, failure: Failure, point: str) -> list[str]:
    """Half of something, although nothing kept the command from removing it."""
    if point.startswith(("remove", "rmdir", "rename")) or (failure.lasting and failure.error == "EIO"):
        return []
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.name.endswith((".partial", ".tmp"))]
    return [f"left behind: {name}" for name in names] + [f"left behind: {path}" for path in (folder / "tmp").iterdir()]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder))]


def _hidden(name: Path) -> bool:
    return any(part.endswith(HIDDEN) for part in name.parts)
