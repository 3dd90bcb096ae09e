"""What the watch page shows right now, and who waits for news: the one place where the follower and the server meet.

The follower puts runs in, each browser's connection waits here for what has changed since it looked last. Every run is
kept as the JSON that is sent (`pieces`), so that a hundred browsers cost no more encoding than one, and those that ask
for the whole document at the same time get one copy of it. A slow browser has no queue that could grow: it asks for
everything after the number it has seen, and skips what was replaced in between.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scalerl.report.pieces import Pieces, encode

PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5
"""Times the number of runs; short enough for a point to be seen within two seconds."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class News:
    """A message for one listener: what has changed up to `number`."""

    number: int
    data: bytes
    """One JSON object on one line."""


@dataclass(frozen=True)
class Whole:
    """The document with all changes up to `number`."""

    number: int
    data: bytes

    @cached_property
    def packed(self) -> bytes:
        """As gzip."""
        return gzip.compress(self.data, 1)


@dataclass
class Board:
    """The document of the page in parts, each with the number of its last change."""

    head: dict[str, Any]
    """Everything of the document but its runs and their comparison."""
    _runs: dict[str, Pieces] = field(default_factory=dict)
    _removed: dict[str, int] = field(default_factory=dict)
    _comparison: tuple[int, bytes] = (0, b"null")
    _number: int = 0
    _closed: bool = False
    _whole: Whole | None = None
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _making: threading.Lock = field(default_factory=threading.Lock)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, *runs: Document) -> None:
        """Add runs, or replace those with the same id. Runs appear in the order of their first appearance.

        What is as it was is no news. Listeners do not wait while runs are encoded, only other writers do.
        """
        with self._writing:
            number = self._number + 1
            made = {str(run["id"]): Pieces.of(run, number, self._runs.get(str(run["id"]))) for run in runs}
            with self._changed:
                self._runs |= made
                for key in made:
                    self._removed.pop(key, None)
                if any(run.newest == number for run in made.values()):
                    self._number = number
                    self._changed.notify_all()

    def remove(self, key: str) -> None:
        with self._writing, self._changed:
            if self._runs.pop(key, None) is not None:
                self._number += 1
                self._removed[key] = self._number
                self._changed.notify_all()

    def compare(self, comparison: Document | None) -> None:
        """The comparison of the runs, as it is from now on."""
        data = encode(comparison)
        with self._writing, self._changed:
            if data != self._comparison[1]:
                self._number += 1
                self._comparison = (self._number, data)
                self._changed.notify_all()

    def close(self) -> None:
        """Nothing will come any more: every listener is let go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def number(self) -> int:
        """Of the last change; a listener that loads the document afterwards misses nothing that is newer."""
        return self._number

    @property
    def pause_s(self) -> float:
        """What a listener is spared between two messages: drawing takes longer the more runs there are."""
        return min(PAUSE_S * len(self._runs), LONGEST_PAUSE_S)

    def document(self) -> bytes:
        """The whole document, as it is now."""
        return self._make().data

    def whole(self, *, packed: bool) -> bytes:
        """The same for the many who ask at the same time: made once, and given to all who asked before it was made."""
        asked = self._number
        with self._making:
            if self._whole is None or self._whole.number < asked:
                self._whole = self._make()
            return self._whole.packed if packed else self._whole.data

    def _make(self) -> Whole:
        with self._changed:
            number, comparison = self._number, self._comparison[1]
            present = list(self._runs.values())
        runs = b", ".join(run.since(-1) for run in present)
        data = encode(self.head)[:-1] + b', "runs": [' + runs + b'], "comparison": ' + comparison + b"}"
        return Whole(number, data)

    def news(self, seen: int, timeout: float) -> News | None:
        """What is newer than `seen`, as soon as there is something; None: nothing in time, or no more ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > seen or self._closed, timeout)
            return None if self._number <= seen else self._since(seen)

    def _since(self, seen: int) -> News:
        runs = b", ".join(run.since(seen) for run in self._runs.values() if run.newest > seen)
        gone = encode([key for key, number in self._removed.items() if number > seen])
        data = b'{"runs": [' + runs + b'], "removed": ' + gone
        if self._comparison[0] > seen:
            data += b', "comparison": ' + self._comparison[1]
        return News(self._number, data + b"}")
