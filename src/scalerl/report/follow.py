"""Follows running jobs: looks which of them have changed, reads and fits those again, and puts them on the board.

Run by `scalerl watch` in a thread of its own. One `step` is the whole work: look (every second or so, whatever else is
to be done), read what has changed and show its points at once, then one fit; then a piece of what is left to read of
long metrics; downstream sets, comparison and history when nothing else waits. So a point is on the page within the time
of one look and one fit, however many runs there are and however long they are. What cannot be read stays on the page
with its problem in words and comes back by itself. Knows no HTTP and no option.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from scalerl.curves import Fit
from scalerl.errors import ScaleRLError
from scalerl.report.answers import Document
from scalerl.report.beside import BACK_OFF, Beside
from scalerl.report.board import Board
from scalerl.report.comparing import Comparing
from scalerl.report.followed import Followed, Past, Ways
from scalerl.report.live_sets import LiveSets
from scalerl.report.targets import FileStamp, Stamp, Targets, ends_in_a_line
from scalerl.runs import layout
from scalerl.series import Series
from scalerl.unwaited import Unwaited

EVERY_S = 1.0
QUICK_S = 0.3
"""What is read faster than this is read as often as it changes."""
SHORT = 200
"""Points of a curve whose past forecasts are made again in every unit; of a longer one in the default unit only."""
FEW = 12
"""Runs of which so much is done; of more than that in the default unit only too."""
LARGE_BYTES = 1 << 24
"""A log above this size is read beside the loop, so that the others go on."""
PANELS_S = 0.1
"""Times the number of targets: how often what a run writes at every step is shown again."""
GONE = "the file is gone; what was read before is shown, and it is read again when it comes back"

Curves = Mapping[str, Sequence[Series]]
Changed = Callable[[Followed, Document, str | None], None]
"""A run, its new decision, and the action before (None: it had none)."""
Troubled = Callable[[str, str], None]
"""A path, and why nothing new can be read there."""


@dataclass(eq=False)
class _Target:
    """What is known about one path."""

    path: str
    stamp: Stamp | None = None
    """As of the last reading."""
    seen: Stamp | None = None
    """As of the last look."""
    not_before: float = 0.0
    problem: str | None = None
    """What was said last, while there is no run to say it of."""
    reading: Future[tuple[Curves, float]] | None = None
    again: bool = False
    """The last reading failed, perhaps in the middle of a write: try once more before saying so."""
    runs: dict[str, Followed] = field(default_factory=dict)
    """By the name that the reader gave the curve."""

    def __post_init__(self) -> None:
        self.beside = Beside(self.path)


class Follower:
    """Everything that is followed. Not for several threads at once."""

    def __init__(
        self, targets: Targets, ways: Ways, board: Board, *,
        every_s: float = EVERY_S, changed: Changed | None = None, troubled: Troubled | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._troubled = troubled
        self._targets, self._ways, self._board = targets, ways, board
        self._every_s, self._changed, self._clock = every_s, changed, clock
        self._known: dict[str, _Target] = {}
        self._looked_at = -float("inf")
        self._to_fit: deque[tuple[Followed, str]] = deque()
        self._beside: deque[_Target] = deque()
        self._unread: deque[_Target] = deque()
        self._past: deque[Past] = deque()
        self._sets = LiveSets(ways, board)
        self._comparing = Comparing(board, clock)
        self._actions: dict[str, str] = {}

    @property
    def runs(self) -> list[Followed]:
        return [run for target in self._known.values() for run in target.runs.values()]

    @property
    def settled(self) -> bool:
        """Everything that was there at the last look is read and, in its default unit, fitted."""
        reading = any(target.reading is not None for target in self._known.values())
        return bool(self._known) and not reading and not any(key == run.default for run, key in self._to_fit)

    @property
    def empty_targets(self) -> list[str]:
        """Targets in which no curve has been found yet."""
        return [target.path for target in self._known.values() if not target.runs]

    def run(self, stop: threading.Event, done: Callable[[], bool] = lambda: False) -> None:
        """Follow until `stop` is set or `done` says so."""
        while not stop.is_set() and not done():
            if not self.step():
                stop.wait(max(0.0, self._looked_at + self._every_s - self._clock()))

    def step(self) -> bool:
        """Look if it is time to, then do one piece of work; False when there is none left."""
        if self._clock() >= self._looked_at + self._every_s:
            self._looked_at = self._clock()
            self._look()
        if self._beside:
            self._take_beside(self._beside.popleft())
            return True
        if self._to_fit:
            self._fit_one()
            return True
        if self._unread:
            self._read_on(self._unread.popleft())
            return True
        if self._sets.renew_one():
            return True
        self._comparing.refresh(self.runs)
        return self._look_back()

    def _look(self) -> None:
        stamps = self._targets.poll()
        for path in [path for path in self._known if path not in stamps]:
            self._forget(self._known.pop(path))
        for path, stamp in stamps.items():
            target = self._known.setdefault(path, _Target(path))
            before, target.seen = target.seen, stamp
            if target.reading is not None:
                self._take_if_ready(target)
            elif stamp is None:
                target.stamp = None
                self._say(target, GONE if target.runs else "nothing there yet; it is read as soon as there is")
            elif self._is_due(target, stamp, before):
                self._read(target, stamp)
            if self._is_stale_beside(target) and target not in self._beside:
                self._beside.append(target)

    def _is_due(self, target: _Target, stamp: Stamp, before: Stamp | None) -> bool:
        """Changed, not too soon, and not in the middle of a line (unless nothing follows any more)."""
        if (not self._has_changed(target, stamp) and not target.again) or self._clock() < target.not_before:
            return False
        return stamp == before or ends_in_a_line(target.path, stamp)

    def _has_changed(self, target: _Target, stamp: Stamp) -> bool:
        """Whether the curve may be another one than at the last reading."""
        if target.stamp is None or stamp == target.stamp:
            return stamp != target.stamp
        return self._files_of_curve(target, stamp) != self._files_of_curve(target, target.stamp)

    def _files_of_curve(self, target: _Target, stamp: Stamp) -> tuple[FileStamp, ...]:
        """What the curve is read from: of a run of ours not the file that it writes at every step."""
        if not self._targets.is_run(target.path):
            return stamp.files
        return tuple(one for one in stamp.files if one[0].endswith((layout.CONFIG, layout.EVALS)))

    def _read(self, target: _Target, stamp: Stamp) -> None:
        target.stamp, target.reading = stamp, Future()
        size = sum(bytes_ for _, bytes_, _, _ in self._files_of_curve(target, stamp))
        if size > LARGE_BYTES:
            Unwaited(self._read_now, target.path, target.reading).start()
        else:
            self._read_now(target.path, target.reading)
            self._take_if_ready(target)

    def _read_now(self, path: str, result: Future[tuple[Curves, float]]) -> None:
        began = self._clock()
        try:
            result.set_result((self._ways.read(path), self._clock() - began))
        except Exception as error:  # noqa: BLE001 (whoever takes the result raises it again)
            result.set_exception(error)

    def _take_if_ready(self, target: _Target) -> None:
        if target.reading is None or not target.reading.done():
            return
        reading, target.reading = target.reading, None
        try:
            curves, took_s = reading.result()
        except ScaleRLError as error:
            if target.runs and not target.again:
                target.again = True
            else:
                target.again = False
                self._say(target, str(error))
            return
        target.again, target.problem = False, None
        if took_s > QUICK_S:
            target.not_before = self._clock() + BACK_OFF * took_s
        self._take(target, curves)

    def _take(self, target: _Target, curves: Curves) -> None:
        """New points: on the board at once, and into the queue of fits."""
        if not target.runs:
            self._board.remove(target.path)  # its problem, shown so far under its own name
        for name in [name for name in target.runs if name not in curves]:
            self._drop(target.runs.pop(name))
        for name, seeds in curves.items():
            known = target.runs.get(name)
            run = known or Followed(f"{target.path}#{name}", target.path, self._unique(name, target))
            target.runs[name] = run
            had_problem = run.problem is not None
            if run.take(seeds):
                self._queue(run, [run.default or ""])
                if self._targets.is_run(target.path):
                    self._sets.add(run)
            elif not had_problem:
                continue
            self._board.put(run.document())

    def _queue(self, run: Followed, keys: Sequence[str]) -> None:
        self._to_fit.extend((run, key) for key in keys if (run, key) not in self._to_fit)

    def _is_stale_beside(self, target: _Target) -> bool:
        """Whether a run of ours has more to show than its curve: other units, panels, state; not too often."""
        if not target.runs or target.seen is None or not self._targets.is_run(target.path):
            return False
        old = any(run.others_are_old for run in target.runs.values())
        return old or target.beside.is_old(target.seen, self._clock())

    def _take_beside(self, target: _Target) -> None:
        """What stands beside the curve of a run of ours."""
        target.beside.read(target.seen, self._clock, PANELS_S * len(self._known))
        for run in target.runs.values():
            if run.others_are_old:
                self._queue(run, run.take_others(self._ways.units(target.path, run.unit_name)))
        self._show_beside(target)

    def _read_on(self, target: _Target) -> None:
        """One more piece of metrics that are too long to be read at once."""
        target.beside.read_on()
        self._show_beside(target)

    def _show_beside(self, target: _Target) -> None:
        for run in target.runs.values():
            run.own = target.beside.run
            self._board.put(run.document())
        if target.beside.behind and target not in self._unread:
            self._unread.append(target)

    def _fit_one(self) -> None:
        """Default units first: they decide."""
        self._to_fit = deque(sorted(self._to_fit, key=lambda job: job[1] != job[0].default))
        run, key = self._to_fit.popleft()
        if key not in run.units:
            return
        first = key not in run.fits
        run.fit(key, self._ways)
        if first and key in run.fits and (key == run.default or self._is_little(run.fits[key])):
            self._past.append(Past.of(run, key, self._ways))
        self._board.put(run.document())
        if key == run.default:
            self._tell(run)

    def _is_little(self, fit: Fit) -> bool:
        """Whether there is time for the past of every unit."""
        return fit.points <= SHORT and len(self._known) <= FEW

    def _tell(self, run: Followed) -> None:
        made = run.decision
        if made is None or made["action"] == self._actions.get(run.id):
            return
        before = self._actions.get(run.id)
        self._actions[run.id] = made["action"]
        if self._changed is not None:
            self._changed(run, made, before)

    def _look_back(self) -> bool:
        """One more moment of some forecast's past."""
        if not self._past:
            return False
        past = self._past[0]
        one = past.one_more()
        if one is not None:
            past.found.append(one)
            return True
        self._past.popleft()
        if past.era == past.run.era and past.run in self.runs:
            past.run.add_history(past.key, past.found)
            self._board.put(past.run.document())
        return True

    def _say(self, target: _Target, problem: str) -> None:
        """Why there is nothing new: on every run of this target, or under its own name; once."""
        if problem == target.problem:
            return
        target.problem = problem
        if not target.runs:
            self._board.put(Followed(target.path, target.path, target.path, problem=problem).document())
        for run in target.runs.values():
            run.problem = problem
            self._board.put(run.document())
        if self._troubled is not None:
            self._troubled(target.path, problem)

    def _forget(self, target: _Target) -> None:
        self._board.remove(target.path)
        target.beside.behind = False
        for run in target.runs.values():
            self._drop(run)

    def _drop(self, run: Followed) -> None:
        self._board.remove(run.id)
        self._sets.drop(run)
        self._to_fit = deque(job for job in self._to_fit if job[0] is not run)

    def _unique(self, name: str, target: _Target) -> str:
        """The name with as many folders in front as tell it apart from those that are there."""
        taken = {run.name for run in self.runs}
        folders = [*target.path.replace("\\", "/").strip("/").split("/")][:-1]
        while name in taken and folders:
            name = f"{folders.pop()}/{name}"
        return name if name not in taken else f"{name} ({target.path})"
