"""Repair of a run directory: only what loses nothing that can be kept, each change said in a line.

Called by the command line. What is done, in this order; doing it again does nothing:

    remove what has the ending `.partial`: a process died while writing it, and nobody reads it
    finish the replacement of a checkpoint by `step-....next`, if that is whole
    rename a damaged checkpoint to `step-....damaged`, if another one can be used: going on takes that one
    cut the torn end off a log: it has no newline, so it never was a record

Nothing else is cut or removed. None of it needs space: it works on a full disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from scalerl.errors import StorageError
from scalerl.folder import PARTIAL, discard_folder, flush_names, rename_folder
from scalerl.runs import layout
from scalerl.runs.lock import locked
from scalerl.runs.store import Records
from scalerl.runs.verify_checkpoints import checkpoint_folders, look_at, look_at_all
from scalerl.runs.verify_files import leftovers

_LOGS = (layout.METRICS, layout.EVALS, layout.EVENTS)


def repair(folder: Path) -> list[str]:
    """What was done, a line each. `InputError` while a process holds the run, `StorageError` when the disk refuses."""
    with locked(folder / layout.LOCK):
        try:
            return [*_remove_partial(folder), *_finish_replacements(folder), *_set_aside(folder), *_cut_ends(folder)]
        except StorageError:
            raise
        except OSError as error:
            raise StorageError.of(error, error.filename or folder) from None


def _remove_partial(folder: Path) -> Iterator[str]:
    for path in leftovers(folder):
        if not path.name.endswith(PARTIAL):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        flush_names(path.parent)
        yield f"removed {_name(folder, path)}: it was never complete"


def _finish_replacements(folder: Path) -> Iterator[str]:
    for path in checkpoint_folders(folder / layout.CHECKPOINTS):
        if not path.name.endswith(layout.NEXT) or look_at(path).problem is not None:
            continue
        final = path.with_name(path.name.removesuffix(layout.NEXT))
        if final.exists():
            discard_folder(final)
        path.rename(final)
        flush_names(final.parent)
        yield f"finished the replacement of {_name(folder, final)}"


def _set_aside(folder: Path) -> Iterator[str]:
    found = look_at_all(folder / layout.CHECKPOINTS)
    another = any(saved.problem is None for saved in found)
    for saved in found:
        if saved.problem is not None and (another or not saved.complete):
            aside = rename_folder(saved.folder, layout.aside_of(saved.folder).name)
            yield f"renamed {_name(folder, saved.folder)} to {aside.name}: {saved.problem}"


def _cut_ends(folder: Path) -> Iterator[str]:
    for name in _LOGS:
        log = Records(folder / name)
        whole = log.offset()
        size = log.path.stat().st_size if log.path.exists() else 0
        if size > whole:
            log.truncate(whole)
            yield f"cut {size - whole:,} bytes of a torn line off {name}"


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
