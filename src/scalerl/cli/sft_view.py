"""A supervised training on the screen: a bar on a terminal, plain lines elsewhere; and the wish to stop.

Used by `sft_model` as the training's watcher. Writes to standard error, so that standard output stays for the result.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from scalerl import numbers
from scalerl.cli.live import QUIET_S, ViewConsole
from scalerl.cli.screen import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from scalerl.supervised.session import Progress

Clock = Callable[[], float]


class SftView:
    """What is shown of a training, and whether the user wants it to end."""

    def __init__(self, console: Console, bar: Bar | None, clock: Clock = time.monotonic) -> None:
        """`bar`: None for plain lines."""
        self.stopping = False
        """The user has asked to stop."""
        self._console, self._bar, self._clock = console, bar, clock
        self._task: TaskID | None = None
        self._start: tuple[float, Progress] | None = None
        self._said_s, self._tenths = clock(), 0

    def reading(self, num_traces: int) -> None:
        if self._bar is not None:
            self._show(f"{num_traces:,} traces read", None, None)
        elif self._clock() - self._said_s >= QUIET_S:
            self._say(f"{num_traces:,} traces read")

    def notice(self, text: str) -> None:
        self._say(f"note: {text}")

    def started(self, progress: Progress) -> None:
        self._start = (self._clock(), progress)
        self._tenths = 10 * progress.step // max(1, progress.steps)
        self._say(f"training from step {progress.step:,} of {progress.steps:,}")

    def stepped(self, progress: Progress) -> None:
        if self._bar is not None:
            self._show(self._words(progress), progress.step, progress.steps)
            return
        tenths = 10 * progress.step // progress.steps
        if tenths > self._tenths or self._clock() - self._said_s >= QUIET_S:
            self._tenths = tenths
            self._say(self._words(progress))

    def evaluated(self, progress: Progress) -> None:
        if progress.step == 0 and progress.held_out_loss is not None:
            self._say(f"held-out loss {progress.held_out_loss:.3f} before training")

    def ask_to_stop(self) -> None:
        self.stopping = True
        self._say("stopping after this step and saving; press Ctrl-C again to end at once")

    @property
    def started_already(self) -> bool:
        """There is something to save."""
        return self._start is not None

    @contextmanager
    def shown(self) -> Iterator[SftView]:
        """The view, and Ctrl-C (or SIGTERM) as a wish, for as long as the training lasts."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.stopping or not self.started_already:
                signal.default_int_handler(number, frame)
            self.ask_to_stop()

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        if self._bar is not None:
            self._bar.start()
        try:
            yield self
        finally:
            if self._bar is not None:
                self._bar.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _words(self, progress: Progress) -> str:
        loss = "" if progress.loss is None else f", loss {progress.loss:.3f}"
        held_out = "" if progress.held_out_loss is None else f" (held-out {progress.held_out_loss:.3f})"
        return f"step {progress.step:,} of {progress.steps:,}{loss}{held_out}{self._pace(progress)}"

    def _pace(self, progress: Progress) -> str:
        """Speed and time left, at the rate of this session."""
        if self._start is None:
            return ""
        since_s, first = self._start
        passed_s, done = self._clock() - since_s, progress.step - first.step
        if done < 1 or passed_s <= 0:
            return ""
        speed = numbers.amount((progress.tokens - first.tokens) / passed_s)
        return f", {speed} tokens/s, {duration(passed_s / done * (progress.steps - progress.step))} left"

    def _show(self, text: str, done: int | None, total: int | None) -> None:
        assert self._bar is not None
        if self._task is None:
            self._task = self._bar.add_task(text, total=None)
        self._bar.update(self._task, description=text, completed=done, total=total)

    def _say(self, line: str) -> None:
        self._said_s = self._clock()
        with suppress(OSError):  # a full disk behind standard error is no reason to end hours of training
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def view_for(live: bool | None) -> SftView:
    """A bar on a terminal, plain lines elsewhere; `live` decides otherwise."""
    from rich.progress import BarColumn, Progress, TextColumn

    console = ViewConsole(stderr=True, highlight=False, force_terminal=True if live else None)
    wanted = console.is_terminal if live is None else live
    bar = Progress(BarColumn(), TextColumn("{task.description}"), console=console) if wanted else None
    return SftView(console, bar)
