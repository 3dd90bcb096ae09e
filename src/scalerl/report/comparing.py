"""The comparison of everything that is followed, renewed when fits have changed, but not too often: it takes long.

Used by `follow` when nothing else waits. It works in a thread of its own, so that looking at the files goes on. The
comparison itself is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalerl.curves import Fit
from scalerl.errors import ScaleRLError
from scalerl.report.answers import plain
from scalerl.report.board import Board
from scalerl.report.document import comparison_documents
from scalerl.report.followed import Followed
from scalerl.unwaited import Unwaited

BACK_OFF = 10.0
"""After a comparison that took t, the next one begins this many t later at the earliest."""
FEW = 12
"""With more runs than this only their default units are compared: the time grows with runs times units."""

Fits = dict[str, list[Fit]]


class Comparing:
    """Remembers which fits the board's comparison is of."""

    def __init__(self, board: Board, clock: Callable[[], float]) -> None:
        self._board, self._clock = board, clock
        self._not_before = 0.0
        self._compared: Fits = {}
        self._thread: Unwaited | None = None

    def refresh(self, runs: Sequence[Followed]) -> None:
        """Compare again if some fit is another one than last time, and it is not too soon."""
        fits: Fits = {}
        for run in runs:
            for key, fit in run.fits.items():
                if key == run.default or len(runs) <= FEW:
                    fits.setdefault(key, []).append(fit)
        busy = self._thread is not None and self._thread.is_alive()
        if busy or self._clock() < self._not_before or _same(fits, self._compared):
            return
        self._compared = fits
        self._thread = Unwaited(self._compare, fits)
        self._thread.start()

    def wait(self) -> None:
        """Until the comparison under way is on the board."""
        if self._thread is not None:
            self._thread.join()

    def _compare(self, fits: Fits) -> None:
        began = self._clock()
        try:
            documents = plain(comparison_documents(fits)) or None
        except ScaleRLError:  # what cannot be compared (other bounds, say) is shown side by side
            documents = None
        self._board.compare(documents)
        now = self._clock()
        self._not_before = now + BACK_OFF * (now - began)


def _same(some: Fits, others: Fits) -> bool:
    """The same objects: a fit that was made again is another one."""
    if some.keys() != others.keys():
        return False
    pairs = [(some[key], others[key]) for key in some]
    return all(len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True)) for a, b in pairs)
