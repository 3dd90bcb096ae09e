"""Folders that are either complete or not there: written under another name, then renamed.

Used by `tokenizer`, `tiny` and `sft`. The crash contract: whatever moment a process dies at, the final name holds the
whole content or nothing. What a dead process leaves behind is a folder with the ending `.partial`, which nobody reads.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalerl.errors import InputError


@contextmanager
def complete_folder(path: Path) -> Iterator[Path]:
    """A folder to write into; on success it becomes `path`, on failure it disappears.

    `FileExistsError` when `path` is there by then: another process may have been faster.
    """
    partial = _make_partial(path)
    try:
        yield partial
        for file in partial.rglob("*"):
            _flush(file)
        _rename(partial, path)
    except OSError as error:
        if isinstance(error, FileExistsError):
            raise
        raise InputError(f"the folder cannot be written ({error.strerror or error})", where=str(path)) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_writable(path: Path) -> None:
    """Whether the folder can be made, before the work that will fill it."""
    _make_partial(path).rmdir()


def refuse_existing(path: Path) -> None:
    """Nothing is overwritten: the name must be free, or an empty folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise InputError("the folder exists already", allowed="a new folder; nothing is overwritten", where=str(path))


def _make_partial(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{path.name}.", suffix=".partial", dir=path.parent))
        partial.chmod(0o777 & ~_umask())  # mkdtemp gives a folder to its owner alone
    except OSError as error:
        raise InputError(f"the folder cannot be made ({error.strerror})", where=str(path)) from None
    return partial


def _rename(partial: Path, path: Path) -> None:
    try:
        partial.rename(path)
    except OSError:
        if path.exists():
            raise FileExistsError(str(path)) from None
        raise


def _flush(file: Path) -> None:
    """To the disk, so that after a power cut the renamed folder is not full of empty files."""
    if file.is_file():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _umask() -> int:
    """There is no way to read it but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
