"""A run on the screen while it trains: a live view for a terminal, plain lines for everything else.

Both are `Observer`s of the pipeline and write to standard error, so that standard output stays for the result. Whatever
goes wrong in here stays in here: the first failure is kept and told at the end, and the run goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

from scalerl.cli.progress import RunProgress
from scalerl.cli.screen import evaluation_line, screen, start_line, step_line, stopping_line, warm_start_line
from scalerl.report.plain import Printable

if TYPE_CHECKING:
    from rich.live import Live

    from scalerl.compute import Ledger
    from scalerl.config import RunConfig
    from scalerl.pipeline.types import EvalPoint, StepRecord, StopReason
    from scalerl.policy import Progress
    from scalerl.runs.events import Event

Clock = Callable[[], float]

QUIET_S = 30.0
"""Plain lines: a step is worth a line when nothing was said for this long."""
REFRESHES_PER_S = 2


class ViewConsole(Console):
    """Nobody reads any more: rich would end the process and close standard output, but the run goes on unwatched."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class View:
    """What both views share: the state of the run, and the promise not to raise."""

    def __init__(self, run: RunConfig, console: Console, clock: Clock = time.monotonic) -> None:
        self.state = RunProgress(run, clock)
        self.console = console
        self.failure: str | None = None
        """The first thing that went wrong while showing."""
        self._lock = threading.RLock()

    def preparing(self, progress: Progress) -> None:
        """The warm start goes on."""
        with self._safely():
            self.state.warm_start = progress
            self._show_warm_start(progress)

    def started(self, step: int, ledger: Ledger, points: Sequence[EvalPoint]) -> None:
        with self._safely():
            self.state.started(step, ledger, points)
            self._show_start()

    def generating(self, version: int, num_finished: int, num_wanted: int) -> None:  # noqa: ARG002  # the protocol's
        with self._safely():
            self.state.generating = (num_finished, num_wanted)

    def stepped(self, record: StepRecord) -> None:
        with self._safely():
            self.state.stepped(record)
            self._show_step()

    def evaluated(self, point: EvalPoint) -> None:
        with self._safely():
            self.state.evaluated(point)
            self._show_evaluation()

    def saved(self, step: int, folder: Path) -> None:
        with self._safely():
            self.state.saved = (step, folder)

    def noticed(self, event: Event) -> None:
        with self._safely():
            self.state.noticed(event)
        if event.name != "resumed":  # the first line says that
            self.notice(event.message)

    def stopped(self, reason: StopReason, step: int, ledger: Ledger) -> None:
        with self._safely():
            self.state.stopped(reason, step, ledger)

    def notice(self, text: str) -> None:
        """Something that the user should know of while the run goes on."""
        with self._safely():
            self.console.print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)

    def ask_to_stop(self) -> None:
        """The user wants the run to end after the step under way."""
        with self._safely():
            self.state.stopping = True
            self._show_stopping()

    @contextmanager
    def shown(self) -> Iterator[View]:
        """The view, for as long as the run lasts."""
        yield self

    @contextmanager
    def _safely(self) -> Iterator[None]:
        with self._keeping_failures(), self._lock:
            yield

    @contextmanager
    def _keeping_failures(self) -> Iterator[None]:
        """A view is a sink: none of its failures may end hours of training."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # see above
            self.failure = self.failure or f"{type(error).__name__}: {error}"

    def _show_warm_start(self, progress: Progress) -> None: ...
    def _show_start(self) -> None: ...
    def _show_step(self) -> None: ...
    def _show_evaluation(self) -> None: ...
    def _show_stopping(self) -> None: ...


class PlainLines(View):
    """One line for each evaluation, and for a step when nothing was said for a while."""

    def __init__(self, run: RunConfig, console: Console, clock: Clock = time.monotonic) -> None:
        super().__init__(run, console, clock)
        self._said_s = clock()
        self._tenths = 0

    def _show_warm_start(self, progress: Progress) -> None:
        tenths = 10 * progress.step // progress.steps
        if tenths > self._tenths:
            self._tenths = tenths
            self._say(warm_start_line(self.state))

    def _show_start(self) -> None:
        self._say(start_line(self.state))

    def _show_step(self) -> None:
        if self.state.clock() - self._said_s >= QUIET_S:
            self._say(step_line(self.state))

    def _show_evaluation(self) -> None:
        self._say(evaluation_line(self.state))

    def _show_stopping(self) -> None:
        self._say(stopping_line(self.state))

    def _say(self, line: str) -> None:
        self._said_s = self.state.clock()
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveView(View):
    """Everything on one screen, drawn again twice a second. It stays on the screen when the run is over."""

    @contextmanager
    def shown(self) -> Iterator[View]:
        live = self._live()
        with self._keeping_failures():
            live.start()
        try:
            yield self
        finally:
            with self._keeping_failures():  # without our lock: rich's thread may wait for it while it holds rich's own
                live.stop()

    def _live(self) -> Live:
        from rich.live import Live

        return Live(console=self.console, get_renderable=self.draw, refresh_per_second=REFRESHES_PER_S)

    def draw(self) -> Printable:
        """Called by rich's own thread, so it takes the lock, and what fails here must not end that thread."""
        shown: RenderableType = ""
        with self._safely():
            shown = screen(self.state)
        return Printable(shown)


def view_for(run: RunConfig, live: bool | None) -> View:
    """Live on a terminal, plain lines elsewhere; `live` decides otherwise."""
    console = ViewConsole(stderr=True, highlight=False, force_terminal=True if live else None)
    wanted = console.is_terminal if live is None else live
    return LiveView(run, console) if wanted else PlainLines(run, console)
