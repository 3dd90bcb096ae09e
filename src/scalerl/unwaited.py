"""Threads that compute for somebody who may leave at any moment, and an end of the process that they cannot spoil.

Used by what follows running jobs: a fit, a comparison, the reading of a large file. Up to 3.13 Python ends a daemon
thread where it next asks for the interpreter; inside C++ code, of which array libraries have much, that aborts the
whole process. So the command line has `end` leave without asking such a thread. Threads that hold anything that must be
put away are not for this.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any


class Unwaited(threading.Thread):
    """A thread that need not come to its end."""

    def __init__(self, work: Callable[..., object], *arguments: Any) -> None:
        super().__init__(target=work, args=arguments, daemon=True)


def end(code: int) -> None:
    """Leave the process with this code if there is unwaited work; otherwise nothing, and Python ends as always."""
    if any(isinstance(thread, Unwaited) for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
