"""The life of one `scalerl watch`: a thread that follows, a page that is served, news on standard error, and an end.

Called by `watch_page` with everything checked. It decides when the watching is over and what the exit code is; how runs
are read and fitted is the report's business.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scalerl import numbers
from scalerl.cli.decide import EXIT_CODES
from scalerl.unwaited import Unwaited

if TYPE_CHECKING:
    from scalerl.report.follow import Follower
    from scalerl.report.followed import Followed
    from scalerl.report.webhook import Webhook

OPEN = "NEED MORE DATA"
UNDECIDED = EXIT_CODES[OPEN]
_GLANCE_S = 0.1
"""How long Ctrl-C may go unnoticed."""
_LAST_FIT_S = 25.0
"""When the time is over the fit under way is waited for: it may be what was asked for."""
_LAST_WORDS_S = 1.0
"""After Ctrl-C only a short piece of work is."""

Document = dict[str, Any]


@dataclass
class News:
    """Tells people what has changed: one line on standard error, and the webhook."""

    webhook: Webhook | None = None
    say: Callable[[str], None] = field(default_factory=lambda: note)

    def changed(self, run: Followed, made: Document, before: str | None) -> None:
        """A first NEED MORE DATA is no news for the webhook: nothing has been decided."""
        was = "" if before is None else f" (was {before})"
        self.say(f"{numbers.name(run.name, 60)}: {made['action']}{was}: {reason_of(made)}")
        if self.webhook is not None and (before is not None or made["action"] != OPEN):
            self.webhook.tell(message_of(run, made, before))

    def troubled(self, path: str, problem: str) -> None:
        named = problem if path in problem else f"{path}: {problem}"
        self.say(f"note: {numbers.name(named, 300)}")


def message_of(run: Followed, made: Document, before: str | None) -> Document:
    """What a webhook receives."""
    at = run.forecast_of_the_decision or {}
    return {
        "run": run.name,
        "action": made["action"],
        "previous": before,
        "probability": made["probability"],
        "reason": made["reason"],
        "value": at.get("value"),
        "low": at.get("low"),
        "high": at.get("high"),
        "budget": made["budget"],
        "compute": run.last_compute,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def reason_of(made: Document) -> str:
    return f"{numbers.name(made['reason'], 200)}, P {numbers.probability(made['probability'])}"


@dataclass
class Watching:
    """Follows until it is interrupted, the time is over, or (if asked) everything is decided."""

    follower: Follower
    until_decided: bool = False
    timeout_s: float | None = None

    def run(self) -> None:
        """KeyboardInterrupt comes through; so does whatever went wrong in the thread."""
        stop = threading.Event()
        failed: list[BaseException] = []
        thread = Unwaited(self._follow, stop, failed)
        thread.start()
        end = time.monotonic() + (self.timeout_s or float("inf"))
        try:
            while thread.is_alive() and time.monotonic() < end:
                thread.join(_GLANCE_S)
        except KeyboardInterrupt:
            stop.set()
            thread.join(_LAST_WORDS_S)
            raise
        stop.set()
        thread.join(_LAST_FIT_S)
        if failed:
            raise failed[0]

    def _follow(self, stop: threading.Event, failed: list[BaseException]) -> None:
        try:
            self.follower.run(stop, self.is_over if self.until_decided else lambda: False)
        except BaseException as error:  # noqa: BLE001 (the main thread raises it again)
            failed.append(error)

    def is_over(self) -> bool:
        """Everything there is has been fitted, and each run is decided or will not get any further."""
        follower = self.follower
        if not follower.settled or follower.empty_targets:
            return False
        return all(run.action not in {None, OPEN} or run.state == "finished" for run in follower.runs)

    def result(self) -> tuple[str, int]:
        """One line for each run, and the exit code: the worst decision, or that there is none."""
        runs = self.follower.runs
        lines = [_line(run) for run in runs] + [
            f"{numbers.name(path, 60)}: nothing to read" for path in self.follower.empty_targets
        ]
        text = "".join(f"{line}\n" for line in lines)
        if not self.until_decided:
            return text, 0
        actions = [run.action or OPEN for run in runs]
        if not runs or OPEN in actions or self.follower.empty_targets:
            return text, UNDECIDED
        return text, max(EXIT_CODES[action] for action in actions)


def _line(run: Followed) -> str:
    name, made = numbers.name(run.name, 60), run.decision
    if made is None:
        return f"{name}: {OPEN}: {numbers.name(run.document()['problem'] or 'no fit yet', 200)}"
    return f"{name}: {made['action']}: {reason_of(made)}"


def note(text: str) -> None:
    """One line on standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write("".join(c if c.isprintable() else "?" for c in f"scalerl: {text}") + "\n")
        sys.stderr.flush()


@contextmanager
def told(url: str | None) -> Iterator[News]:
    """The news, with a webhook if there is an address for it; at the end what is left is told."""
    if url is None:
        yield News()
        return
    from scalerl.report.webhook import Webhook

    webhook = Webhook(url, note)
    try:
        yield News(webhook)
    finally:
        webhook.close()
