"""metrics.jsonl and evals.jsonl read side by side: steps without a gap, a ledger that adds up, groups and ages.

Called by `verify`. Both files are walked once and together, a line at a time. What is booked is checked like this: no
number of the ledger ever falls; an evaluation stands at a step that was made and has exactly the ledger of that step;
the cost of evaluation changes behind an evaluation and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalerl.compute import ROLES, Ledger
from scalerl.config.recipe import Asynchrony, Pipeline, PpoOffPolicy
from scalerl.errors import InputError
from scalerl.readers.json_lines import Record
from scalerl.runs import layout
from scalerl.runs.points import check_line
from scalerl.runs.verify_findings import Finding, Subject, Tally
from scalerl.runs.verify_groups import Trained, parse_ranges
from scalerl.runs.verify_lines import Line, is_number, ledger_of, read_lines, step_of

NO_REMEDY = "go back to a copy; what is written here cannot be computed again from the rest"
TORN = "nothing: the next line replaces it; or --repair"
_FIELDS = ("device_s", "flops", "tokens")


def check_steps(subject: Subject) -> tuple[list[Finding], int]:
    """Everything about the lines of both logs, and the last step of all."""
    evals = _Evals(subject)
    steps = _Steps(subject, evals)
    for line in read_lines(subject.folder / layout.METRICS):
        steps.read(line)
    steps.end()
    return steps.findings() + evals.findings(), steps.last


def oldest_allowed(asynchrony: Asynchrony) -> int:
    """The bound of docs/staleness.md on the age of a token."""
    if isinstance(asynchrony, Pipeline):
        return asynchrony.k
    return asynchrony.k - 1 if isinstance(asynchrony, PpoOffPolicy) else 0


def torn_finding(check: str, where: str, line: Line, subject: Subject) -> Finding:
    """The end of a log that has no newline."""
    if subject.held:
        return Finding(check, "ok", "its last line is being written", where)
    return Finding(check, "warning", f"line {line.number:,} is torn: it has no end", where, TORN)


@dataclass(frozen=True)
class _Point:
    """An evaluation, as far as steps are concerned."""

    step: int
    ledger: Ledger
    kept: bool


class _Evals:
    """evals.jsonl, taken up to a step at a time."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._lines = Tally("evals", layout.EVALS, NO_REMEDY)
        self._torn: Finding | None = None
        self._last = -1
        self._num = 0
        self._points = self._read()
        self._next = next(self._points, None)

    def up_to(self, step: float) -> Iterator[_Point]:
        """The points at this step and before it that were not taken yet."""
        while self._next is not None and self._next.step <= step:
            yield self._next
            self._next = next(self._points, None)

    def findings(self) -> list[Finding]:
        last = f", the last at step {self._last:,}" if self._num else ""
        found = [self._lines.finding(f"{self._num:,} evaluations{last}")]
        return found if self._torn is None else [*found, self._torn]

    def _read(self) -> Iterator[_Point]:
        for line in read_lines(self._subject.folder / layout.EVALS):
            if line.torn:
                self._torn = torn_finding("evals", layout.EVALS, line, self._subject)
                return
            kept = self._subject.keeps("evals", line.end)
            problem = self._problem(line)
            if problem is not None:
                self._lines.wrong(f"line {line.number:,}: {problem}", kept=kept)
            step, ledger = (None, None) if line.record is None else (step_of(line.record), ledger_of(line.record))
            if step is None or ledger is None or step <= self._last:
                continue
            self._last, self._num = step, self._num + 1
            yield _Point(step, ledger, kept)

    def _problem(self, line: Line) -> str | None:
        if line.record is None:
            return line.problem
        step, rate = step_of(line.record), line.record.get("pass_rate")
        if step is None:
            return "no step"
        if step <= self._last:
            return f"step {step:,} after step {self._last:,}"
        if ledger_of(line.record) is None:
            return "no ledger, or one with a number missing"
        if rate is not None and not (is_number(rate) and 0 <= rate <= 1):
            return f"pass rate {rate!r:.40}"
        try:
            check_line(line.record, "")
        except InputError as error:
            return f"{error.what:.40} is {error.value}"
        return None


class _Steps:
    """metrics.jsonl, with what must agree with it."""

    def __init__(self, subject: Subject, evals: _Evals) -> None:
        self._subject, self._evals = subject, evals
        self._lines = Tally("metrics", layout.METRICS, NO_REMEDY)
        self._steps = Tally("steps", layout.METRICS, NO_REMEDY)
        self._ledger = Tally("ledger", layout.METRICS, NO_REMEDY)
        self._points = Tally("evaluations", layout.EVALS, NO_REMEDY)
        self._ages = Tally("ages", layout.METRICS, "report it: the schedule rules this out")
        self._groups = Tally("groups", layout.METRICS, "report it: a group is trained once")
        self._torn: Finding | None = None
        self._trained, self._num_named, self._num = Trained(), 0, 0
        self._left_out = False  # a group, by the last line that is kept
        self._step, self._booked, self._wall_s = 0, Ledger(), 0.0
        self._oldest: int | None = None
        self._measured = self._take(0, Ledger(), 0)

    @property
    def last(self) -> int:
        """The step of the last line that can be read."""
        return self._step

    def read(self, line: Line) -> None:
        if line.torn:
            self._torn = torn_finding("metrics", layout.METRICS, line, self._subject)
            return
        kept = self._subject.keeps("metrics", line.end)
        step, ledger = (None, None) if line.record is None else (step_of(line.record), ledger_of(line.record))
        if line.record is None or step is None or ledger is None:
            problem = line.problem or ("no step" if step is None else "no ledger, or one with a number missing")
            self._lines.wrong(f"line {line.number:,}: {problem}", kept=kept)
            return
        self._num += 1
        self._check_order(step, kept)
        self._check_booked(step, ledger, line.record, kept)
        self._check_batch(step, line.record, kept)
        self._measured = self._take(step, ledger, line.number)
        self._step, self._booked = step, ledger

    def end(self) -> None:
        """What stands behind the last step."""
        for point in self._evals.up_to(float("inf")):
            words = f"an evaluation of step {point.step:,}, but the last step is {self._step:,}"
            self._points.wrong(words, kept=point.kept)
        if self._trained.missing and self._num_named == self._num:
            words = f"{self._trained.missing:,} groups were left out: admitted before others, and never trained"
            self._groups.wrong(words, kept=self._left_out)

    def findings(self) -> list[Finding]:
        found = [self._lines.finding(f"{self._num:,} lines")]
        found += [] if self._torn is None else [self._torn]
        span = f"1 to {self._step:,}, without a gap" if self._num else "none yet"
        found.append(self._steps.finding(span))
        found.append(self._ledger.finding("never falls, and agrees with the evaluations"))
        found.append(self._points.finding("each at a step that was made, none missing"))
        bound = "unknown" if self._subject.config is None else oldest_allowed(self._subject.config.recipe.asynchrony)
        oldest = "none recorded" if self._oldest is None else f"the oldest token was {self._oldest} steps old"
        found.append(self._ages.finding(f"{oldest}, the bound is {bound}"))
        found.append(self._groups.finding(self._groups_words()))
        return found

    def _groups_words(self) -> str:
        if not self._num_named:
            return "not recorded" if self._num else "none yet"
        some = "" if self._num_named == self._num else f" (of {self._num_named:,} of {self._num:,} steps)"
        return f"{self._trained.num_groups:,} groups, each trained once{some}"

    def _take(self, step: int, ledger: Ledger, number: int) -> bool:
        """Whether this step was measured; what the evaluations up to it say must agree with its line."""
        measured = False
        for point in self._evals.up_to(step):
            if point.step != step:
                self._points.wrong(f"an evaluation of step {point.step:,}, which was never made", kept=point.kept)
                continue
            measured = True
            if point.ledger != ledger:
                where = f"line {number:,} of {layout.METRICS}" if number else "nothing, as before the first step"
                self._ledger.wrong(f"the evaluation of step {step:,} has another ledger than {where}", kept=point.kept)
        return measured

    def _check_order(self, step: int, kept: bool) -> None:
        if step != self._step + 1:
            self._steps.wrong(f"step {step:,} after step {self._step:,}", kept=kept)
        every = 0 if self._subject.config is None else self._subject.config.scale.evaluation.every
        if every and self._step % every == 0 and not self._measured:
            self._points.wrong(f"no evaluation of step {self._step:,}, although step {step:,} was made", kept=kept)

    def _check_booked(self, step: int, ledger: Ledger, record: Record, kept: bool) -> None:
        for role in ROLES:
            before, now = getattr(self._booked, role), getattr(ledger, role)
            for name in _FIELDS:
                if getattr(now, name) < getattr(before, name):
                    self._ledger.wrong(f"{name} of {role} falls at step {step:,}", kept=kept)
        if step == self._step + 1 and (ledger.evaluation != self._booked.evaluation) != self._measured:
            words = "is not booked" if self._measured else "is booked, but there was none"
            self._ledger.wrong(f"the evaluation behind step {self._step:,} {words}", kept=kept)
        wall_s = record.get("wall_s")
        if not is_number(wall_s) or wall_s < self._wall_s:
            self._ledger.wrong(f"wall_s falls or is no number at step {step:,}", kept=kept)
        else:
            self._wall_s = wall_s

    def _check_batch(self, step: int, record: Record, kept: bool) -> None:
        config, age = self._subject.config, record.get("age_max")
        if type(age) is int:
            self._oldest = max(age, self._oldest or 0)
            if config is not None and not 0 <= age <= oldest_allowed(config.recipe.asynchrony):
                self._ages.wrong(f"a token of age {age} at step {step:,}", kept=kept)
        if "groups" not in record:
            return
        self._num_named += 1
        ranges = parse_ranges(record["groups"])
        if ranges is None:
            self._groups.wrong(f"step {step:,}: no list of groups: {record['groups']!r:.40}", kept=kept)
            return
        num = sum(last - first + 1 for first, last in ranges)
        if config is not None and num != config.scale.batch.prompts:
            self._groups.wrong(f"{num} groups at step {step:,}, not {config.scale.batch.prompts}", kept=kept)
        for one in ranges:
            if (twice := self._trained.add(one)) is not None:
                self._groups.wrong(f"group {twice:,} is trained a second time at step {step:,}", kept=kept)
        self._left_out = self._trained.missing > 0 if kept else self._left_out
        self._check_admitted(step, max(last for _, last in ranges), kept)

    def _check_admitted(self, step: int, highest: int, kept: bool) -> None:
        at, admitted = self._subject.admitted or (-1, 0)
        if step <= at and highest >= admitted:
            words = f"group {highest:,} at step {step:,}, but {admitted:,} were admitted by step {at:,}"
            self._groups.wrong(words, kept=kept)
