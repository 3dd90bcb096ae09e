"""A progress bar on standard error while a large log is read; nothing for what is read at once.

Used by `sources` and `read`. The readers call a plain function with bytes done and bytes in all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_S = 0.7
"""What is over sooner needs no bar."""


class _Bar:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = clock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def show(self, done: int, total: int) -> None:
        if self._progress is None:
            if self._clock() - self._since_s < QUIET_S:
                return
            self._start()
        assert self._progress is not None
        assert self._task is not None
        self._progress.update(self._task, completed=done, total=total)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("reading")
        self._progress.start()

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def reading_bar(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[int, int], None]]:
    """The function to hand to the readers. rich itself shows nothing where standard error is no terminal."""
    bar = _Bar(clock)
    try:
        yield bar.show
    finally:
        bar.stop()
