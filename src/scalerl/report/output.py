"""Where a picture, a page or a table goes: the formats by suffix, and writing a file whole or not at all.

Called by `figures` and `page` with finished bytes. It knows nothing about what is in them.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from scalerl.errors import InputError, StorageError
from scalerl.folder import DISK

FORMATS = ("png", "svg", "pdf", "html")


def format_of(path: Path, allowed: tuple[str, ...] = FORMATS) -> str:
    """The format that the suffix asks for."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in allowed:
        raise InputError("unknown picture format", path.suffix or "no suffix", ", ".join(allowed), str(path))
    return suffix


def check_target(path: Path) -> None:
    """Refuse early what cannot become a file, before time is spent on drawing."""
    if path.is_dir():
        raise InputError("cannot write the picture: this is a folder", allowed="a file name", where=str(path))
    if path.exists() and not path.is_file():
        raise InputError("cannot write the picture: this is not a regular file", allowed="a file name", where=str(path))


def write(path: Path, data: bytes) -> Path:
    """Write beside the target and rename: a reader sees the old file or the new one, a failure leaves nothing."""
    check_target(path)
    target = path.resolve()  # through a symbolic link, so that the link itself survives
    made = _missing_parents(target)
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    written = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(target)
        written = True
    except OSError as error:
        if error.errno in DISK:
            raise StorageError.of(error, path) from None
        reason = error.strerror or type(error).__name__
        raise InputError(f"cannot write the picture ({reason})", allowed="a writable place", where=str(path)) from error
    finally:
        if not written:
            _remove(temporary, made)
    return path


def _missing_parents(target: Path) -> list[Path]:
    """The folders that writing would create, innermost first."""
    return [folder for folder in target.parents if not os.path.lexists(folder)]


def _remove(temporary: Path, folders: list[Path]) -> None:
    for remove in (temporary.unlink, *(folder.rmdir for folder in folders)):
        try:
            remove()
        except OSError:  # it was never created, or somebody else uses it by now
            continue
