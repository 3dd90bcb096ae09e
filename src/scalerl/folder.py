"""Files and folders that are either complete or not there: written under another name, then renamed.

Used by the policies (tokenizer, warm start), the run directory and the checkpoints; knows nothing of what is inside.
The crash contract: whatever moment a process dies at, the final name holds the whole content, or what it held before
(for a folder: nothing). What a dead process leaves behind has the ending `.partial`, which nobody reads.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalerl.errors import InputError, StorageError

PARTIAL = ".partial"
"""Ending of what is not complete."""

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Full, over quota, beyond the limit of a file, broken."""


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
        if isinstance(error, FileExistsError | StorageError):
            raise
        raise _refusal("the folder cannot be written", error, path) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_file(path: Path, data: str | bytes) -> None:
    """Write a file, on the disk when this returns; a reader sees the old content or the new one, never a part."""
    content = data.encode() if isinstance(data, str) else data
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        flush_names(path.parent)
    except OSError as error:
        raise StorageError.of(error, path) from None
    finally:
        partial.unlink(missing_ok=True)


def flush_names(folder: Path) -> None:
    """The names in a folder to the disk: a file that was renamed is otherwise not safe from a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
        partial = Path(tempfile.mkdtemp(prefix=f"{path.name}.", suffix=PARTIAL, dir=path.parent))
        partial.chmod(0o777 & ~_umask())  # mkdtemp gives a folder to its owner alone
    except OSError as error:
        raise _refusal("the folder cannot be made", error, path) from None
    return partial


def _refusal(what: str, error: OSError, path: Path) -> InputError | StorageError:
    """A bad place is the user's input; a full disk is not."""
    if error.errno in _DISK:
        return StorageError.of(error, path)
    return InputError(f"{what} ({error.strerror or error})", where=str(path))


def _rename(partial: Path, path: Path) -> None:
    try:
        partial.rename(path)
    except OSError:
        if path.exists():
            raise FileExistsError(str(path)) from None
        raise
    flush_names(path.parent)


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
