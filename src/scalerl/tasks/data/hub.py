"""Rows of a dataset on the Hugging Face hub, through the package `datasets`: the one place that imports it.

Called by `open` for paths like

    hub:openai/gsm8k:main:test          NAME[@REVISION][:CONFIG[:SPLIT]]; the split is train if nothing else is said

`datasets` downloads once and keeps an Arrow copy in its cache, so a second run needs no connection. Code that comes
with a dataset is never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from scalerl.errors import InputError, MissingDependencyError
from scalerl.tasks.data.arrow import rows_of
from scalerl.tasks.data.rows import BATCH_ROWS, Row, Unit, first_line

PREFIX = "hub:"
_ALLOWED = "hub:NAME[@REVISION][:CONFIG[:SPLIT]], such as hub:openai/gsm8k:main:test"
_INSTEAD = "the name of a dataset, its config and its split; without a connection: a local file, or one in the cache"


@dataclass(frozen=True)
class HubName:
    """What stands behind `hub:`."""

    name: str
    config: str | None
    split: str
    revision: str | None


def parse_hub(path: str) -> HubName:
    name, *rest = path.removeprefix(PREFIX).split(":")
    name, at, revision = name.partition("@")
    if not name or len(rest) > 2 or (at and not revision):
        raise InputError("no dataset of the hub", path, _ALLOWED)
    config, split = (*rest, "", "")[:2]
    return HubName(name, config or None, split or "train", revision or None)


class HubTable:
    """`Rows` of one split."""

    unit: Unit = "row"

    def __init__(self, path: str) -> None:
        self.label = path
        self._dataset = _load(path)
        self.columns: tuple[str, ...] = tuple(self._dataset.column_names)
        self._num_rows = len(self._dataset)
        self._read = 0
        if not self._num_rows:
            raise InputError("no rows in the dataset", allowed="at least one", where=path)
        self.num_bytes = int(self._dataset.dataset_size or 0) or self._num_rows

    def first(self, columns: Sequence[str]) -> Row:
        return next(self._cells(columns))

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:
        for row in self._cells(columns):
            self._read += 1
            yield self._read, row

    def done(self) -> int:
        return self.num_bytes * self._read // self._num_rows

    def _cells(self, columns: Sequence[str]) -> Iterator[Row]:
        tables = self._dataset.select_columns(list(columns)).with_format("arrow").iter(BATCH_ROWS)
        for table in tables:
            yield from rows_of(table, columns)


def _load(path: str) -> Any:
    wanted = parse_hub(path)
    if find_spec("datasets") is None:
        raise MissingDependencyError("datasets", "hub")
    datasets = import_module("datasets")
    try:
        return datasets.load_dataset(wanted.name, wanted.config, split=wanted.split, revision=wanted.revision)
    except ConnectionError as error:
        what = f"the Hugging Face hub cannot be reached ({first_line(error)})"
        raise InputError(what, allowed=_INSTEAD, where=path) from None
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise InputError(f"the dataset cannot be loaded ({first_line(error)})", allowed=_INSTEAD, where=path) from None
