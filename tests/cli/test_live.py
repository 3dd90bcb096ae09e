"""The views of a run: what they show for a sequence of events, and that they never raise."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

import scalerl.cli.screen
from scalerl.cli import live, progress
from scalerl.cli.live import LiveView, PlainLines, View, view_for
from scalerl.cli.outlook import Outlook
from scalerl.cli.screen import duration
from scalerl.compute import Ledger, Usage
from scalerl.config import RunConfig, load_run
from scalerl.pipeline.types import EvalPoint, StepRecord
from scalerl.policy import Progress
from scalerl.runs.events import Event

VALUES = {
    "truncation_rate": 0.021, "age_mean": 3.25, "age_max": 8, "effective_rollouts": 180,
    "generator_idle": 0.12, "trainer_idle": 0.031,
}  # fmt: skip


@dataclass
class Clock:
    """Turned by hand."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Film:
    """A view, its clock, and what it printed."""

    kind: type[View]
    budget: str = "500 steps"
    encoding: str = "utf-8"
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.file = io.TextIOWrapper(io.BytesIO(), encoding=self.encoding)
        self.console = Console(file=self.file, width=100, force_terminal=False, highlight=False)
        self.view = self.kind(_run(self.budget), self.console, self.clock)

    @property
    def lines(self) -> list[str]:
        self.file.flush()
        assert isinstance(self.file.buffer, io.BytesIO)
        return self.file.buffer.getvalue().decode(self.encoding).splitlines()

    @property
    def live(self) -> LiveView:
        assert isinstance(self.view, LiveView)
        return self.view

    def drawn(self) -> str:
        with self.console.capture() as capture:
            self.console.print(self.live.draw())
        return capture.get()

    def play(self, steps: range, evaluate_every: int = 20, seconds: float = 0.5) -> None:
        for step in steps:
            self.clock.now_s += seconds
            self.view.stepped(StepRecord(step, VALUES, _ledger(step), self.clock.now_s))
            if step % evaluate_every == 0:
                self.view.evaluated(_point(step))


def _run(budget: str) -> RunConfig:
    amount, unit = budget.split()
    return load_run(overrides=[f"scale.budget.amount={amount}", f"scale.budget.unit={unit}"]).config


def _ledger(step: int) -> Ledger:
    """1e9 FLOPs, 1,000 tokens of generation and half a second a step."""
    return Ledger(Usage(0.3 * step, 4e8 * step, 1000 * step), Usage(0.2 * step, 6e8 * step, 1500 * step))


def _point(step: int) -> EvalPoint:
    rate = 0.28 + 0.6 / (1 + (95 / step) ** 1.1) if step else 0.28
    return EvalPoint(step, rate, 256, 4, 1024, 0.02, 0.015, 30.0, _ledger(step), {})


def _begin(film: Film) -> None:
    film.view.started(0, Ledger(), [])
    film.view.evaluated(_point(0))


def test_the_screen_shows_everything() -> None:
    film = Film(LiveView)
    _begin(film)
    film.play(range(1, 261))
    film.view.saved(200, Path("runs/a/checkpoints/step-000200"))
    text = film.drawn()
    for words in (
        "step 260 of 500, 2:10 gone, 2:00 left",
        "0.280 at step 0", "0.731 now", "0.731 best, at step 260",
        "512 rollouts/s", "2k tokens/s",
        "180 of 256 in the loss, truncated 2.1 %",
        "3.2 steps on average, 8 at most",
        "generator 12 %, trainer 3.1 %",
        "step 200, runs/a/checkpoints/step-000200",
        "5e11 FLOPs, the budget", "at the end of the budget (80 % interval)",
    ):  # fmt: skip
        assert words in text
    assert text.count("●") >= 10
    assert "░" in text
    assert film.view.failure is None


def test_the_forecast_is_for_the_end_of_the_budget_and_waits_for_enough_points() -> None:
    film = Film(LiveView)
    _begin(film)
    assert "after 8 more evaluations" in film.drawn()
    film.play(range(1, 141))
    assert "after 1 more evaluation" in film.drawn()
    film.play(range(141, 241))
    forecast = film.view.state.outlook.forecast
    assert forecast is not None
    assert forecast.compute == pytest.approx(5e11)
    assert forecast.low is not None
    assert forecast.high is not None
    assert forecast.low < forecast.value < forecast.high
    assert forecast.value == pytest.approx(0.28 + 0.6 / (1 + (95 / 500) ** 1.1), abs=0.03)


ALARM = Event(40, "alarm", "alarm truncation at step 40: 13 % of the rollouts of the last 5 steps were cut off")


@pytest.mark.parametrize("kind", [LiveView, PlainLines])
def test_an_alarm_is_said_at_once_and_stays_on_the_screen(kind: type[View]) -> None:
    film = Film(kind)
    _begin(film)
    film.play(range(1, 41))
    film.view.noticed(Event(40, "resumed", "the run goes on at step 40"))
    film.view.noticed(ALARM)
    assert [line for line in film.lines if line.startswith("note: ")] == [f"note: {ALARM.message}"]
    if kind is LiveView:
        assert ALARM.message[:60] in film.drawn()
    assert film.view.failure is None


def test_a_run_that_was_rolled_back_begins_its_pace_again() -> None:
    film = Film(LiveView)
    _begin(film)
    film.play(range(1, 41))
    film.view.started(20, _ledger(20), [_point(0), _point(20)])
    assert film.view.state.left_s is None
    film.view.stopped("guard", 21, _ledger(21))
    assert "stopped by a guard" in film.drawn()


@pytest.mark.parametrize(
    ("budget", "share"),
    [("1000 steps", 0.1), ("4e11 flops", 0.25), ("500000 tokens", 0.5), ("0.05 device_hours", 50 / 180)],
)
def test_every_unit_of_budget_has_a_share_and_a_time_left(budget: str, share: float) -> None:
    film = Film(LiveView, budget)
    _begin(film)
    film.play(range(1, 101))
    assert film.view.state.share == pytest.approx(share)
    assert film.view.state.left_s == pytest.approx(50 * (1 - share) / share)
    assert film.view.state.end_flops == pytest.approx(1e11 / share)


def test_the_forecast_is_computed_after_evaluations_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(points: Sequence[EvalPoint], end_flops: float | None) -> Outlook:
        calls.append((len(points), end_flops))
        return Outlook()

    monkeypatch.setattr(progress, "look_ahead", counted)
    film = Film(LiveView)
    _begin(film)
    film.play(range(1, 61))
    film.drawn()
    assert calls == [(0, None), (1, None), *((n, 5e11) for n in (2, 3, 4))]


def test_a_resumed_run_goes_on_with_its_points_and_its_own_pace() -> None:
    film = Film(LiveView)
    film.view.started(400, _ledger(400), [_point(step) for step in range(0, 401, 20)])
    text = film.drawn()
    assert "step 400 of 500, 0:00 gone, time left unknown" in text
    assert "at the end of the budget" in text
    film.play(range(401, 411), seconds=2.0)
    assert "step 410 of 500, 0:20 gone, 3:00 left" in film.drawn()


def test_starting_up_does_not_count_as_pace() -> None:
    film = Film(LiveView)
    _begin(film)
    film.play(range(1, 2), seconds=60.0)
    assert "1:00 gone, time left unknown" in film.drawn()
    film.play(range(2, 12), seconds=1.0)
    assert film.view.state.left_s == pytest.approx(489)


def test_warm_start_evaluation_and_stopping_have_their_titles() -> None:
    film = Film(LiveView)
    assert "─ preparing the policy ─" in film.drawn()
    film.view.preparing(Progress(300, 1500, 1.25, 9000, 20.0))
    text = film.drawn()
    assert "warm start" in text
    assert "300 of 1,500 steps, loss 1.250, 0:20 gone, 1:20 left" in text
    _begin(film)
    film.view.generating(0, 12, 256)
    assert "evaluating, 12 of 256 problems" in film.drawn()
    film.play(range(1, 3))
    assert "─ training ─" in film.drawn()
    film.view.ask_to_stop()
    assert "Ctrl-C again ends at once" in film.drawn()
    film.view.stopped("interrupted", 2, _ledger(2))
    assert "─ stopped ─" in film.drawn()


def test_ascii_is_enough() -> None:
    film = Film(LiveView, encoding="ascii")
    _begin(film)
    film.play(range(1, 261))
    assert film.drawn().isascii()
    assert film.view.failure is None


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_every_width(width: int) -> None:
    film = Film(LiveView)
    _begin(film)
    film.play(range(1, 261))
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(film.live.draw())
    assert max(map(len, capture.get().splitlines())) <= min(width, 100)


def test_plain_lines() -> None:
    film = Film(PlainLines)
    for step in range(1, 101):
        film.view.preparing(Progress(step, 100, 1.5, 0, step / 10))
    assert len(film.lines) == 10
    assert film.lines[1] == "warm start: step 20 of 100, loss 1.500, 0:08 left"
    _begin(film)
    film.play(range(1, 41))
    assert film.lines[10] == "training from step 0, budget 500 steps"
    assert film.lines[11] == "step 0 of 500, pass rate 0.280 +- 0.020, truncated 1.5 %"
    assert len(film.lines) == 14
    assert film.lines[13].startswith(
        "step 40 of 500, pass rate 0.447 +- 0.020, truncated 1.5 %, 512 rollouts/s, 2k tokens"
    )
    film.play(range(41, 161))
    assert "forecast at the end" in film.lines[-1]
    film.view.ask_to_stop()
    assert film.lines[-1] == "stopping after step 161 and saving; press Ctrl-C again to end at once"


def test_plain_lines_are_not_silent_between_rare_evaluations() -> None:
    film = Film(PlainLines)
    _begin(film)
    film.play(range(1, 200), evaluate_every=1000, seconds=1.0)
    assert [line.split(",")[0] for line in film.lines[2:]] == [f"step {n} of 500" for n in (30, 60, 90, 120, 150, 180)]


def test_a_failure_of_the_view_stays_in_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (LiveView, PlainLines):
        film = Film(kind)
        nonsense: Any = None
        film.view.evaluated(nonsense)
        film.view.stepped(nonsense)
        film.view.preparing(nonsense)
        assert film.view.failure is not None
        assert film.view.failure.startswith("AttributeError")
    film = Film(LiveView)
    monkeypatch.setattr(live, "screen", lambda _: 1 / 0)
    assert film.drawn().strip() == ""
    assert film.view.failure == "ZeroDivisionError: division by zero"


class Gone(io.StringIO):
    """A reader that went away: `| head`, a closed terminal."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str, /) -> int:
        if text:
            raise self.error
        return 0


@pytest.mark.parametrize("kind", [LiveView, PlainLines])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(5, "Input/output error")])
def test_a_reader_that_goes_away_does_not_end_the_run(kind: type[View], error: OSError) -> None:
    """rich would raise SystemExit for a broken pipe, and send standard output nowhere."""
    view = kind(_run("500 steps"), live.ViewConsole(file=Gone(error), width=100, force_terminal=kind is LiveView))
    with view.shown():
        view.started(0, Ledger(), [])
        view.evaluated(_point(0))
    assert view.state.points
    assert (view.failure is None) == isinstance(error, BrokenPipeError)
    assert isinstance(view_for(_run("500 steps"), None).console, live.ViewConsole)


def test_an_interrupt_is_not_a_failure_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    film = Film(PlainLines)
    monkeypatch.setattr(film.view.state, "stepped", interrupt)
    with pytest.raises(KeyboardInterrupt):
        film.view.stepped(StepRecord(1, {}, Ledger(), 0.0))


def test_the_live_view_draws_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the thread that rich starts."""
    file = io.StringIO()
    view = LiveView(_run("500 steps"), Console(file=file, width=100, force_terminal=True))
    drawn = threading.Event()
    screen = scalerl.cli.screen.screen

    def noticed(state: progress.RunProgress) -> RenderableType:
        if threading.current_thread() is not threading.main_thread():
            drawn.set()
        return screen(state)

    monkeypatch.setattr(live, "screen", noticed)
    with view.shown():
        view.started(0, Ledger(), [])
        view.evaluated(_point(0))
        assert drawn.wait(20)
    assert "0.280 at step 0" in file.getvalue()
    assert view.failure is None


def test_live_on_a_terminal_only() -> None:
    run = _run("500 steps")
    assert isinstance(view_for(run, None), PlainLines)  # standard error is no terminal in a test
    assert isinstance(view_for(run, True), LiveView)
    assert isinstance(view_for(run, False), PlainLines)


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 42, 725, 11220)] == ["0:00", "0:42", "12:05", "3:07:00"]
