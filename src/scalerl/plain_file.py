"""Whether a name in a folder is a plain file: asked before a file of ours is read or written.

A run directory may come from anybody, out of an archive or on a shared disk, and hold under the name of one of our
files a link, a pipe or a device. A pipe would be waited for without an end, a device may never end, and what is written
to a link is written elsewhere. Used by the readers of run directories and by `scalerl.runs`; what is in a file is not
known here. A path that a user names is not asked about: there a pipe may be wanted.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def check_readable(path: Path) -> None:
    """`OSError` for a pipe, a socket or a device. What is not there is left to whoever opens it."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # opening it says what is wrong
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))


def check_ours(path: Path) -> None:
    """`OSError` for what cannot be a file that we made ourselves: a link, a folder, a pipe, a device."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link, not a file", str(path))
    if path.is_dir():
        raise OSError(errno.EISDIR, "a folder, not a file", str(path))
    check_readable(path)


def read_plain(path: Path) -> bytes:
    """The content of a plain file."""
    check_readable(path)
    return path.read_bytes()
