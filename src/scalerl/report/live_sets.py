"""Downstream sets and parts on the live page: which runs have new ones, and one run after the other fitted again.

Held by `follow`, which calls when no curve waits for its fit: a set has a law of its own, and the decision comes first.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from scalerl.errors import ScaleRLError
from scalerl.report.answers import plain
from scalerl.report.board import Board
from scalerl.report.followed import Followed, Ways


class LiveSets:
    """The runs whose sets are older than their curves."""

    def __init__(self, ways: Ways, board: Board) -> None:
        self._ways, self._board = ways, board
        self._waiting: deque[Followed] = deque()

    def add(self, run: Followed) -> None:
        if run not in self._waiting:
            self._waiting.append(run)

    def drop(self, run: Followed) -> None:
        if run in self._waiting:
            self._waiting.remove(run)

    def renew_one(self) -> bool:
        """The sets of one more run; False when none waits. What cannot be read is as it was."""
        if not self._waiting:
            return False
        run = self._waiting.popleft()
        with suppress(ScaleRLError):
            found = tuple(plain(one) for one in self._ways.sets(run.path))
            if found != run.sets:
                run.sets = found
                self._board.put(run.document())
        return True
