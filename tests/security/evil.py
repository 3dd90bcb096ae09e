"""Pickles and code that leave a mark when somebody runs them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path


class _Touch:
    """Unpickled, it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def evil_pickle(mark: Path) -> bytes:
    """Whoever loads it makes the folder `mark`."""
    return pickle.dumps(_Touch(mark), protocol=2)


def evil_module(mark: Path) -> str:
    """The source of a module that makes `mark` when it is imported."""
    return f"import os\nos.mkdir({str(mark)!r})\n"
