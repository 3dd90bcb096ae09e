"""TensorBoard event files, as torch's SummaryWriter, Lightning, Hugging Face and most trainers write them.

Called by `open`. The one place that imports the tensorboard package, for its protocol buffers; frames are read by
`tfrecord`. Events are streamed: its EventAccumulator would keep every value of every metric in memory.

Read are scalars in both styles: `simple_value`, and the tensors of TensorFlow 2 that the plugin "scalars" owns. Images,
histograms, texts and graphs are passed over without a word: they are no metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.tfrecord import payloads

_VERSION = b"brain.Event:"
_NAME = "tfevents"
_TOGETHER_S = 1.0
"""Values of one step that were written within this time are one record: a trainer logs them one by one."""


def is_event_file(head: bytes) -> bool:
    """By content: the first event names the format, behind a length whose high bytes are zero.

    The checksum is not looked at, so that a file with a damaged first record is still known for what it is.
    """
    return _VERSION in head[:64] and b"\0\0\0\0" in head[:12]


def find_event_files(folder: Path) -> list[Path]:
    """Every event file below a folder, empty ones too, by TensorBoard's own rule for names. Sorted."""
    return sorted(path for path in folder.rglob(f"*{_NAME}*") if path.is_file())


def find_event_logs(folder: Path, label: str) -> list[TensorBoardLog]:
    """One log for each folder that holds event files, as TensorBoard sees runs; named by the path below `folder`."""
    by_folder: dict[Path, list[Path]] = {}
    for path in find_event_files(folder):
        by_folder.setdefault(path.parent, []).append(path)
    if len(by_folder) == 1:
        return [TensorBoardLog(paths, label) for paths in by_folder.values()]
    names = {place: place.relative_to(folder).as_posix() for place in by_folder}
    return [
        TensorBoardLog(paths, label if names[place] == "." else f"{label.rstrip('/')}/{names[place]}", names[place])
        for place, paths in by_folder.items()
    ]


class TensorBoardLog:
    """The event files of one run; each is a session, in the order of their first events."""

    kind = "TensorBoard event files"

    def __init__(self, paths: Sequence[Path], label: str, name: str | None = None) -> None:
        self.label = label
        self.name = name
        self.paths = tuple(paths)

    def records(self, tally: Tally) -> Iterator[Record]:
        sizes = {path: _size(path) for path in self.paths}
        total, done, num_read = sum(sizes.values()), 0, 0
        scalar_tags: set[str] = set()
        for session, path in enumerate(sorted(self.paths, key=_first_time_s)):
            try:
                for end, record in _read(path, sizes[path], session, scalar_tags, tally):
                    yield record
                    tally.read(done + end, total)
                num_read += 1
            except OSError as error:
                self._skip(path, error, tally)
            done += sizes[path]
            tally.read(done, total)
        if not num_read:
            raise InputError("none of the event files can be read", allowed="readable files", where=self.label)

    def _skip(self, path: Path, error: OSError, tally: Tally) -> None:
        if len(self.paths) == 1:
            raise InputError(f"the file cannot be read ({error.strerror})", where=str(path)) from None
        tally.skip("files that cannot be read", path.name)


def _read(path: Path, size: int, session: int, scalar_tags: set[str], tally: Tally) -> Iterator[tuple[int, Record]]:
    """Records with how far the file has been read: the values of one step that come together are one record."""
    values: dict[str, float] = {}
    step, time_s, end = 0, 0.0, 0
    for end, event in _events(path, size, tally):
        scalars = _scalars(event, scalar_tags)
        if not scalars:
            continue
        together = event.step == step and 0 <= event.wall_time - time_s <= _TOGETHER_S
        if values and not (together and values.keys().isdisjoint(scalars)):  # a metric that comes again starts anew
            yield end, Record(values, float(step), time_s, session)
            values = {}
        if not values:
            step, time_s = event.step, event.wall_time
        values.update(scalars)
    if values:
        yield end, Record(values, float(step), time_s, session)


def _events(path: Path, size: int, tally: Tally) -> Iterator[tuple[int, Any]]:
    """Every event that can be decoded."""
    event_type, decode_error = _event_type()
    with path.open("rb") as stream:
        if size == 0:
            tally.skip("empty files", path.name)
        for end, payload in payloads(stream, size, path.name, tally):
            try:
                event = event_type.FromString(payload)
            except decode_error:
                tally.skip("records that are no events", f"{path.name}, byte {end - len(payload):,}")
                continue
            yield end, event


def _scalars(event: Any, scalar_tags: set[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for value in event.summary.value:
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            values[value.tag] = value.simple_value
        elif kind == "tensor":
            # TensorFlow 1 names the plugin only at the first value of a metric
            if value.metadata.plugin_data.plugin_name == "scalars":
                scalar_tags.add(value.tag)
            if value.tag in scalar_tags and (number := _number(value.tensor)) is not None:
                values[value.tag] = number
    return values


def _number(tensor: Any) -> float | None:
    """The one number of a tensor; None when it has several or none."""
    if len(tensor.float_val) == 1:  # what nearly every writer does: no need for an array
        return float(tensor.float_val[0])
    if any(dim.size != 1 for dim in tensor.tensor_shape.dim):  # a shape alone can ask for any amount of memory
        return None
    from tensorboard.util import tensor_util

    try:
        array = tensor_util.make_ndarray(tensor)
        return float(array.item()) if array.size == 1 else None
    except (TypeError, ValueError):  # a type that is no number, or bytes that do not fill the shape
        return None


def _first_time_s(path: Path) -> float:
    """When a file was begun; files in which nothing can be read come last."""
    with suppress(OSError):
        for _, event in _events(path, _size(path), Tally()):
            return float(event.wall_time)
    return math.inf


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _event_type() -> tuple[Any, type[Exception]]:
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto import event_pb2
    except ImportError:
        raise MissingDependencyError("tensorboard", "tensorboard") from None
    return event_pb2.Event, DecodeError
