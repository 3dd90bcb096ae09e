"""Transaction logs of Weights & Biases (`run-ID.wandb`), read without a server: of offline runs and of online ones.

Called by `open`. The one place that imports wandb's protocol buffers; frames are read by `leveldb`. A message is a
`Record`; those of kind "history" hold what the trainer logged, the one of kind "run" the name. Everything else (console
output, system statistics, summaries) is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.leveldb import is_transaction_log, messages
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.wandb_values import STEP, to_records

_PATTERN = "run-*.wandb"
_RUN_AMONG_FIRST = 100
"""The message that names the run is the second of a log; a damaged log need not be read to its end to find none."""

__all__ = ["WandbLog", "find_wandb_files", "find_wandb_logs", "is_transaction_log"]


def find_wandb_files(folder: Path) -> list[Path]:
    """Every transaction log below a folder, each once (`latest-run` is a link to another folder), oldest first."""
    found = {path.resolve(): path for path in folder.rglob(_PATTERN) if path.is_file()}
    # a run's folder starts with its time, but for this prefix
    return sorted(found.values(), key=lambda path: (path.parent.name.removeprefix("offline-"), path))


def find_wandb_logs(folder: Path, label: str) -> list[WandbLog]:
    """One log for each run id; the folders of a resumed run are its sessions, in the order of their time stamps."""
    by_id: dict[str, list[Path]] = {}
    for path in find_wandb_files(folder):
        by_id.setdefault(path.name, []).append(path)
    if len(by_id) == 1:
        return [WandbLog(paths, label) for paths in by_id.values()]
    return [WandbLog(paths, str(paths[0].parent)) for paths in by_id.values()]


class WandbLog:
    """One run of W&B."""

    kind = "W&B transaction log"

    def __init__(self, paths: Path | Sequence[Path], label: str) -> None:
        self.label = label
        self.paths = (paths,) if isinstance(paths, Path) else tuple(paths)

    @property
    def name(self) -> str | None:
        """The name that the web page would show, else the run id."""
        with suppress(OSError):
            for _, message in islice(_messages(self.paths[0], Tally()), _RUN_AMONG_FIRST):
                if message.WhichOneof("record_type") == "run":
                    return str(message.run.display_name or message.run.run_id) or None
        return None

    def records(self, tally: Tally) -> Iterator[Record]:
        total = sum(map(_size, self.paths))
        done = 0
        for session, path in enumerate(self.paths):
            try:
                yield from to_records(_history(path, done, total, tally), session)
            except OSError as error:
                if len(self.paths) == 1:
                    raise InputError(f"the file cannot be read ({error.strerror})", where=str(path)) from None
                tally.skip("files that cannot be read", path.name)
            done += _size(path)
            tally.read(done, max(done, total))


def _history(path: Path, done: int, total: int, tally: Tally) -> Iterator[dict[str, Any]]:
    """Every row; `done` bytes of `total` were read before this file."""
    for end, message in _messages(path, tally):
        tally.read(done + end, total)
        if message.WhichOneof("record_type") == "history":
            yield _row(message.history)


def _messages(path: Path, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Every message that can be decoded, with the offset of its end."""
    message_type, decode_error = _message_type()
    with path.open("rb") as stream:
        size = _size(path)
        if size == 0:
            tally.skip("empty files", path.name)
        for end, data in messages(stream, size, path.name, tally):
            try:
                yield end, message_type.FromString(data)
            except decode_error:
                tally.skip("messages that cannot be decoded", f"{path.name}, before byte {end + 1:,}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _row(history: Any) -> dict[str, Any]:
    """A row as a dict of dicts, because the parts of a histogram come one by one and only one of them is `_type`."""
    row: dict[str, Any] = {}
    for item in history.item:
        *folders, name = item.nested_key or [item.key]
        place = row
        for folder in folders:
            inner = place.setdefault(folder, {})
            place = inner if isinstance(inner, dict) else {}  # a number and a dict of the same name: the number stays
        place[name] = _value(item)
    row.setdefault(STEP, history.step.num)
    return row


def _value(item: Any) -> Any:
    """What was logged: as JSON in most versions of wandb; the newest know typed fields too."""
    if item.value_json:
        try:
            return json.loads(item.value_json)
        except (ValueError, RecursionError):
            return None
    kind = item.WhichOneof("value") if "value" in item.DESCRIPTOR.oneofs_by_name else None
    return getattr(item, kind) if kind in {"integer", "number", "boolean"} else None


def _message_type() -> tuple[Any, type[Exception]]:
    try:
        from google.protobuf.message import DecodeError

        module = import_module("wandb.proto.wandb_internal_pb2")  # generated: its names are made at run time
    except ImportError:
        raise MissingDependencyError("wandb", "wandb") from None
    return module.Record, DecodeError
