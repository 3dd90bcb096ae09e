"""What stands beside the curve of one run that is followed: read when the run has changed, not too often, and of long
metrics a piece at a time.

Held by `follow` for each of its targets, which says when there is time. It knows no board and fits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from scalerl.errors import ScaleRLError
from scalerl.report.own_run import OwnReader, OwnRun
from scalerl.report.targets import Stamp

PIECE_BYTES = 1 << 22
"""Of metrics that are read at a time: the next look is not to be late."""
BACK_OFF = 5.0
"""What took t to read is read again after this many t at the earliest."""


class Beside:
    """Of one run of ours; of anything else it is never asked for anything."""

    def __init__(self, path: str) -> None:
        self.run: OwnRun | None = None
        """As last read."""
        self.behind = False
        """Whether `read_on` has something to do."""
        self.not_before = 0.0
        self._path = path
        self._reader: OwnReader | None = None
        self._stamp: Stamp | None = None

    def is_old(self, seen: Stamp, now: float) -> bool:
        """Whether the run has changed since it was read, and it is time to read it again."""
        return seen != self._stamp and now >= self.not_before

    def read(self, seen: Stamp | None, clock: Callable[[], float], pause_s: float) -> None:
        """Read it if it is time to; what cannot be read is as it was. `pause_s`: until the next time at least."""
        began = clock()
        if began < self.not_before:
            return
        self._stamp = seen
        self._reader = self._reader or OwnReader(self._path)
        self.behind = False
        with suppress(ScaleRLError):
            self.run = self._reader.read(PIECE_BYTES)
            self.behind = self._reader.behind
        now = clock()
        self.not_before = now + max(BACK_OFF * (now - began), pause_s)

    def read_on(self) -> None:
        """One more piece of the metrics; where they are broken they end."""
        if self.run is None or self._reader is None or not self.behind:
            return
        self.behind = False
        with suppress(ScaleRLError):
            self.run = self._reader.read_on(self.run, PIECE_BYTES)
            self.behind = self._reader.behind
