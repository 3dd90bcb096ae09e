"""Several files as one table: shards in a folder, and the folders that `datasets.save_to_disk` writes.

Called by `open`, which also says how one file is opened. Reads two small JSON files of `datasets`, which is not needed
for that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from scalerl.errors import InputError
from scalerl.tasks.data.rows import Row, Rows, Unit, first_line

ENDINGS = (".parquet", ".arrow", ".jsonl")
_SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}")

Open = Callable[[Path], AbstractContextManager[Rows]]


class Shards:
    """`Rows` of several files of one table, one after the other; rows are counted through."""

    unit: Unit = "row"

    def __init__(self, label: str, paths: Sequence[Path], open_one: Open) -> None:
        self.label = label
        self._paths = paths
        self._open_one = open_one
        self.num_bytes = sum(path.stat().st_size for path in paths)
        self._before = 0
        self._now: Rows | None = None
        with open_one(paths[0]) as rows:
            self.columns = rows.columns

    def first(self, columns: Sequence[str]) -> Row:
        with self._open_one(self._paths[0]) as rows:
            return rows.first(columns)

    def read(self, columns: Sequence[str]) -> Iterator[tuple[int, Row | InputError]]:
        number = 0
        for path in self._paths:
            with self._open_one(path) as self._now:
                if missing := sorted({*columns} - {*self._now.columns}):
                    allowed = f"the columns of {self._paths[0].name} in every file"
                    raise InputError("no such column in this file", ", ".join(missing), allowed, str(path))
                for _, row in self._now.read(columns):
                    number += 1
                    yield number, row
                self._before += self._now.num_bytes
            self._now = None

    def done(self) -> int:
        return self._before if self._now is None else min(self.num_bytes, self._before + self._now.done())


def folder_files(folder: Path) -> list[Path]:
    """The files of one split in a folder: as `datasets.save_to_disk` leaves it, or shards `train-00000-of-00002`."""
    if (folder / "dataset_dict.json").is_file():
        return _of_one_split(folder)
    if (folder / "state.json").is_file():
        names = [
            _plain(one.get("filename") if isinstance(one, dict) else one, folder)
            for one in _list(folder / "state.json", "_data_files")
        ]
        return _existing([folder / name for name in names], folder)
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
    splits = {_split_name(path) for path in found}
    if len(splits) > 1:
        allowed = f"one of its files, or a folder with the files of one split; here are {', '.join(sorted(splits))}"
        raise InputError("a folder with several tables", allowed=allowed, where=str(folder))
    return _existing(found, folder)


def _of_one_split(folder: Path) -> list[Path]:
    splits = [_plain(name, folder) for name in _list(folder / "dataset_dict.json", "splits")]
    if len(splits) == 1 and (folder / splits[0]).is_dir():
        return folder_files(folder / splits[0])
    if len(splits) == 1:
        raise InputError("a split of this dataset is missing", splits[0], "a folder of that name", str(folder))
    allowed = "one of " + ", ".join(str(folder / split) for split in splits)
    raise InputError("a folder with several splits", allowed=allowed, where=str(folder))


def _plain(name: object, folder: Path) -> str:
    """A name in this very folder: a dataset from elsewhere does not say which other files are read."""
    text = str(name)
    if not isinstance(name, str) or text in {"", ".", ".."} or {*text} & {"\0", "\\"} or Path(text).name != text:
        raise InputError("a file of this dataset", text, "the name of one in the same folder", str(folder))
    return text


def _split_name(path: Path) -> str:
    shard = _SHARD.fullmatch(path.stem)
    return shard[1] + path.suffix if shard else path.name


def _existing(paths: list[Path], folder: Path) -> list[Path]:
    if not paths:
        allowed = f"{', '.join(ENDINGS)} files, or what datasets.save_to_disk writes"
        raise InputError("a folder without data", allowed=allowed, where=str(folder))
    for path in paths:
        if not os.path.isfile(path):  # noqa: PTH113  Path.is_file raises for a name that is too long
            raise InputError("a file of this dataset is missing", path.name, "all that state.json names", str(folder))
    return paths


def _list(path: Path, key: str) -> list[Any]:
    """The list under a key of a JSON object; empty when it is not there."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"broken dataset folder ({first_line(error)})", where=str(path)) from None
    found = document.get(key, []) if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise InputError("broken dataset folder", allowed=f"a JSON object with a list {key}", where=str(path))
    return found
