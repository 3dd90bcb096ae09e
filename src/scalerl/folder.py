"""Files and folders that are either complete or not there: written under another name, then renamed.

Used by the policies (tokenizer, warm start), the run directory and the checkpoints; knows nothing of what is inside.
The crash contract: whatever moment a process dies at, or the power goes, the final name holds the whole content, or
what it held before (for a folder: nothing). What a dead process leaves behind has the ending `.partial`, which nobody
reads. When a function here returns, its result is on the disk: the bytes by an fsync of the file, its name by one of
the folder that holds it, and so on upwards for folders that are new. Who may read what is written, the umask says, of
every file alike.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scalerl.errors import InputError, StorageError

PARTIAL = ".partial"
"""Ending of what is not complete."""

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Full, over quota, beyond the limit of a file, broken."""


@contextmanager
def complete_folder(path: Path) -> Iterator[Path]:
    """A folder to write into; on success it becomes `path`, on failure it disappears.

    `FileExistsError` when `path` is there by then: another process may have been faster.
    """
    partial = _make_partial(path)
    try:
        yield partial
        _flush_all(partial)
        _rename(partial, path)
    except OSError as error:
        if isinstance(error, FileExistsError | StorageError):
            raise
        raise _refusal("the folder cannot be written", error, path) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_file(path: Path, data: str | bytes) -> None:
    """Write a file, on the disk when this returns; a reader sees the old content or the new one, never a part."""
    content = data.encode(errors="backslashreplace") if isinstance(data, str) else data  # a path may be no UTF-8
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
        with suppress(OSError):  # on a broken disk the first error is the one to tell
            partial.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing; their names are on the disk when this returns."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing or [path]:  # one that is there may have been made by a process that died just then
            flush_names(folder.parent)
    except OSError as error:
        raise StorageError.of(error, path) from None


def rename_folder(path: Path, name: str) -> Path:
    """Another name in the same place, on the disk when this returns."""
    try:
        renamed = path.rename(path.with_name(name))
        flush_names(path.parent)
    except OSError as error:
        raise StorageError.of(error, path) from None
    return renamed


def discard_folder(path: Path) -> None:
    """Remove a folder, first its name, then its content: half of it is never taken for the whole."""
    gone = rename_folder(path, f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    shutil.rmtree(gone, ignore_errors=True)


def flush_names(folder: Path) -> None:
    """The names in a folder to the disk: a file that was renamed is otherwise not safe from a power cut.

    One that we may enter and not read cannot be asked; then the system decides when.
    """
    if os.name == "posix":
        try:
            handle = os.open(folder, os.O_RDONLY)
        except PermissionError:
            return
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(path: Path) -> None:
    """Whether the folder can be made, before the work that will fill it."""
    partial = _make_partial(path)
    try:
        partial.rmdir()
    except OSError as error:
        raise _refusal("the folder cannot be made", error, path) from None


def refuse_existing(path: Path) -> None:
    """Nothing is overwritten: the name must be free, or an empty folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise InputError("the folder exists already", allowed="a new folder; nothing is overwritten", where=str(path))


def _make_partial(path: Path) -> Path:
    partial = None
    try:
        make_folder(path.parent)
        partial = Path(tempfile.mkdtemp(prefix=f"{path.name}.", suffix=PARTIAL, dir=path.parent))
        partial.chmod(0o777 & ~_umask())  # mkdtemp gives a folder to its owner alone
    except OSError as error:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
        raise _refusal("the folder cannot be made", error, path) from None
    return partial


def _refusal(what: str, error: OSError, path: Path) -> InputError | StorageError:
    """A bad place is the user's input; a full disk is not."""
    if error.errno in DISK:
        return StorageError.of(error, path)
    return InputError(f"{what} ({error.strerror or error})", where=str(path))


def _rename(partial: Path, path: Path) -> None:
    try:
        partial.rename(path)
    except OSError:
        if path.exists():
            raise FileExistsError(str(path)) from None
        raise
    try:
        flush_names(path.parent)
    except OSError:
        with suppress(OSError):  # who is told that it failed does not find it there the next time
            path.rename(partial)
        raise


def _flush_all(folder: Path) -> None:
    """Every file and every name to the disk: after a power cut the renamed folder is neither empty nor full of empty
    files."""
    mask = _umask()
    for entry in folder.rglob("*"):
        entry.chmod((0o777 if entry.is_dir() else 0o666) & ~mask)  # safetensors gives files to their owner alone
        if entry.is_file():
            with entry.open("rb") as stream:
                os.fsync(stream.fileno())
        elif entry.is_dir():
            flush_names(entry)
    flush_names(folder)


def _umask() -> int:
    """There is no way to read it but to set it. To the strictest: another thread may make a file at this moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
