"""The rows behind a path: a file recognised by its content, a folder, or a name on the Hugging Face hub.

Called by `records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.source import ALLOWED as TABLES
from scalerl.readers.source import Source, open_source
from scalerl.tasks.data.arrow import ARROW_FILE, ARROW_STREAM, ArrowTable, ParquetTable
from scalerl.tasks.data.folder import Shards, folder_files
from scalerl.tasks.data.hub import PREFIX, HubTable
from scalerl.tasks.data.jsonl import JsonLines
from scalerl.tasks.data.rows import Rows

ALLOWED = "JSONL or Parquet or Arrow, a folder of datasets.save_to_disk, or hub:NAME"


@contextmanager
def open_rows(path: str | Path) -> Iterator[Rows]:
    """Open it, or say in one line why that cannot be done."""
    name = str(path)
    if name.startswith(PREFIX):
        yield HubTable(name)
    elif Path(name).is_dir():
        yield Shards(name, folder_files(Path(name)), open_rows)
    else:
        try:
            with open_source(name) as source:
                yield _table(source)
        except InputError as error:
            if error.allowed != TABLES:
                raise
            raise InputError(error.what, error.value, ALLOWED, error.where) from None


def _table(source: Source) -> Rows:
    if source.head.startswith((ARROW_FILE, ARROW_STREAM)):
        return ArrowTable(source)
    match source.format:
        case "jsonl":
            return JsonLines(source)
        case "parquet":
            return ParquetTable(source)
        case "csv":
            raise InputError("not a task file", allowed=ALLOWED, where=source.label)
