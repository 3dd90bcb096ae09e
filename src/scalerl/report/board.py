"""What the watch page shows right now, and who waits for news: the one place where the follower and the server meet.

The follower puts runs in, each browser's connection waits here for what has changed since it looked last. Every run is
kept as the JSON that was sent, so that a hundred browsers cost no more encoding than one. A slow browser has no queue
that could grow: it asks for everything after the number it has seen, and skips what was replaced in between.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5
"""Times the number of runs; short enough for a point to be seen within two seconds."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class News:
    """A message for one listener: what has changed up to `number`."""

    number: int
    data: bytes
    """One JSON object on one line."""


@dataclass
class Board:
    """The document of the page in parts, each with the number of its last change."""

    head: dict[str, Any]
    """Everything of the document but its runs and their comparison."""
    _runs: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _removed: dict[str, int] = field(default_factory=dict)
    _comparison: tuple[int, bytes] = (0, b"null")
    _number: int = 0
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, *runs: Document) -> None:
        """Add runs, or replace those with the same id. Runs appear in the order of their first appearance."""
        encoded = [(str(run["id"]), encode(run)) for run in runs]
        with self._changed:
            self._number += 1
            for key, data in encoded:
                self._runs[key] = (self._number, data)
                self._removed.pop(key, None)
            self._changed.notify_all()

    def remove(self, key: str) -> None:
        with self._changed:
            if self._runs.pop(key, None) is not None:
                self._number += 1
                self._removed[key] = self._number
                self._changed.notify_all()

    def compare(self, comparison: Document | None) -> None:
        """The comparison of the runs, as it is from now on."""
        data = encode(comparison)
        with self._changed:
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
        with self._changed:
            comparison = self._comparison[1]
            runs = b", ".join(data for _, data in self._runs.values())
        return encode(self.head)[:-1] + b', "runs": [' + runs + b'], "comparison": ' + comparison + b"}"

    def news(self, seen: int, timeout: float) -> News | None:
        """What is newer than `seen`, as soon as there is something; None: nothing in time, or no more ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > seen or self._closed, timeout)
            return None if self._number <= seen else self._since(seen)

    def _since(self, seen: int) -> News:
        runs = b", ".join(data for number, data in self._runs.values() if number > seen)
        gone = encode([key for key, number in self._removed.items() if number > seen])
        data = b'{"runs": [' + runs + b'], "removed": ' + gone
        if self._comparison[0] > seen:
            data += b', "comparison": ' + self._comparison[1]
        return News(self._number, data + b"}")


def encode(value: Any) -> bytes:
    """JSON on one line, which is what an event stream needs; NaN would be a bug and raises."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(", ", ": ")).encode()
