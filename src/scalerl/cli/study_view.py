"""A study on the screen while it runs: read from its folder now and then, like anybody else would.

Called by `study_run`. It is the `Watch` of `study.workers`: a table that is drawn again on a terminal, a line for each
job that ends elsewhere, both on standard error. It also takes the user's Ctrl-C. There is no thread in here: the study
calls `tick`. What cannot be shown is kept as a note and never ends the study.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from scalerl.cli.live import ViewConsole
from scalerl.cli.study_tables import headline, status_parts
from scalerl.study.status import ENDED

if TYPE_CHECKING:
    from rich.live import Live

    from scalerl.study.status import StudyStatus

Look = Callable[[], "StudyStatus"]
STOPPING = "stopping: the trainers save and end (Ctrl-C again ends them at once)"
_EVERY_S = 1.0
_SHARE = 0.05
"""Of the time that looking may take: with many jobs it is done less often."""


class StudyView:
    """Both views: `live` is None where there is no terminal."""

    def __init__(self, look: Look, live: bool | None) -> None:
        self.stops = 0
        self.failure: str | None = None
        """The first thing that went wrong while showing."""
        self._look = look
        self._console = ViewConsole(stderr=True, highlight=False, force_terminal=True if live else None)
        self._wants_live = self._console.is_terminal if live is None else live
        self._live: Live | None = None
        self._next_s = 0.0
        self._ended: set[str] | None = None

    @contextmanager
    def shown(self) -> Iterator[StudyView]:
        """For as long as the study runs; signals are ours meanwhile."""
        before = {number: signal.signal(number, self._ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with self._safely():
                self._open()
            yield self
        finally:
            with self._safely():
                self._close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def said(self, line: str) -> None:
        with self._safely():
            self._console.print(line, markup=False, soft_wrap=True)

    def tick(self) -> None:
        if time.monotonic() >= self._next_s:
            self.show()

    def show(self) -> None:
        """Look at the folder and show what is new."""
        started = time.monotonic()
        with self._safely():
            found = self._look()
            if self._live is not None:
                self._live.update(status_parts(found), refresh=True)
            else:
                self._say_ended(found)
        now = time.monotonic()
        self._next_s = now + max(_EVERY_S, (now - started) / _SHARE)

    def _say_ended(self, found: StudyStatus) -> None:
        """One line whenever further jobs have ended; those of an earlier start are not news."""
        ended = {job.name for job in found.jobs if job.state in ENDED}
        if self._ended is None or ended != self._ended:
            self.said(headline(found))
        self._ended = ended

    def _open(self) -> None:
        from rich.live import Live

        if self._wants_live:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()

    def _close(self) -> None:
        self.show()
        if self._live is not None:
            self._live.stop()

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1
        if self.stops == 1:
            self.said(STOPPING)
        if self.stops > 2:  # somebody is really impatient: the keepers stop the trainers
            signal.default_int_handler(number, frame)

    @contextmanager
    def _safely(self) -> Iterator[None]:
        """A view is a sink: none of its failures may end hours of training."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # see above
            self.failure = self.failure or f"{type(error).__name__}: {error}"
