"""One run that is being followed: its curve as last read, its fits, and how its forecast has moved. Makes its document.

Held by `follow`, which decides when to read and when to fit. This module knows no file: curves come in, a RUN document
comes out. Points that arrive are in the document at once, beside the fit before them; the new fit follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from scalerl.curves import Fit
from scalerl.curves.fit import MIN_POINTS
from scalerl.errors import ScaleRLError
from scalerl.report.answers import Document, plain, source_document
from scalerl.report.document import RunResult, UnitResult, points_document, run_document, unit_document, unit_key
from scalerl.report.history import Moment, moment, moments
from scalerl.report.own_run import OwnRun, unit_name
from scalerl.report.thinning import evenly
from scalerl.series import Series

MOST_MOMENTS = 60
"""Of a forecast's history; of more, some from the first to the last."""

Seeds = tuple[Series, ...]


@dataclass(frozen=True)
class Ways:
    """How to read and fit, as the user has asked. Given by the command line, which the report must not know."""

    read: Callable[[str], Mapping[str, Sequence[Series]]]
    """The curves of one target by name; raises `ScaleRLError`."""
    units: Callable[[str, str], Mapping[str, Series]]
    """Of a run directory of ours, given its path and the unit in use: the curve in every other unit."""
    fit: Callable[[str, Sequence[Series]], Fit]
    """The law of one curve, by its name; raises `ScaleRLError`."""
    budget: Callable[[float], float | None]
    """The compute in question, given the last compute when watching began; None when nothing was asked."""
    delta: float | None = None
    targets: tuple[float, ...] = ()
    sets: Callable[[str], Sequence[Document]] = lambda _: ()
    """Of a run directory of ours, its downstream sets and parts (`set_documents`); raises `ScaleRLError`."""


@dataclass(eq=False)
class Followed:
    """One curve of one target."""

    id: str
    path: str
    name: str
    """The only one of this name on the page."""
    own: OwnRun | None = None
    sets: tuple[Document, ...] = ()
    """Downstream sets and parts, as of the last time that there was time for their laws."""
    problem: str | None = None
    """Why nothing new is known, in words: the file is gone, or cannot be read at the moment."""
    fits: dict[str, Fit] = field(default_factory=dict)
    """By unit; the fit before the newest points until the next one is there."""
    budgets: dict[str, float] = field(default_factory=dict)
    histories: dict[str, tuple[Moment, ...]] = field(default_factory=dict)
    era: int = 0
    """Counts the times that the points went back: a run that began anew has no past in common with the one before."""
    others_are_old: bool = False
    """The curve in other units has fewer points than in its own."""
    _units: dict[str, Seeds] = field(default_factory=dict)
    """The first is the default."""
    _documents: dict[str, Document] = field(default_factory=dict)
    _no_fit: str | None = None

    @property
    def default(self) -> str | None:
        return next(iter(self._units), None)

    @property
    def unit_name(self) -> str:
        """What the curve itself calls its default unit."""
        return "" if self.default is None else self._units[self.default][0].compute_name

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(self._units)

    @property
    def last_compute(self) -> float:
        return 0.0 if self.default is None else _last(self._units[self.default])

    @property
    def decision(self) -> Document | None:
        """About the default unit; None while there is no fit, and while the run cannot be read."""
        found = self._documents.get(self.default or "", {}).get("fit")
        return None if found is None or self.problem is not None else found["decision"]

    @property
    def action(self) -> str | None:
        return None if self.decision is None else str(self.decision["action"])

    @property
    def state(self) -> str:
        return "unknown" if self.own is None else self.own.state

    @property
    def forecast_of_the_decision(self) -> Document | None:
        """What is expected at the budget that the decision is about."""
        made = self.decision
        if made is None:
            return None
        found = self._documents[self.default or ""]["fit"]["forecast"]
        return next((one for one in found if one["compute"] == made["budget"]), None)

    def take(self, seeds: Sequence[Series]) -> bool:
        """The curve as it is now; whether it has changed. Points that went back begin a new history."""
        given = tuple(seeds)
        key = unit_key(given[0].compute_name)
        self.problem = None
        if self._units.get(key) == given:
            return False
        if self.default not in {None, key} or _last(given) < self.last_compute:
            self.fits, self.budgets, self.histories, self._units, self._documents = {}, {}, {}, {}, {}
            self._no_fit, self.era = None, self.era + 1
        self._units[key] = given
        self._show_points(key)
        self.others_are_old = True
        return True

    def take_others(self, others: Mapping[str, Series]) -> list[str]:
        """The same curve in other units; which of them have changed."""
        units: dict[str, Seeds] = {unit_key(key): (one,) for key, one in others.items()}
        changed = [key for key, seeds in units.items() if self._units.get(key) != seeds and key != self.default]
        self._units |= {key: units[key] for key in changed}
        for key in changed:
            self._show_points(key)
        self.others_are_old = False
        return changed

    def fit(self, key: str, ways: Ways) -> None:
        """Fit one unit again, remember what it forecasts, and renew its part of the document."""
        seeds = self._units[key]
        made, problem = self._try_fit(seeds, ways)
        if key == self.default:
            self._no_fit = problem
        if made is None:
            self.fits.pop(key, None)
        else:
            self.fits[key] = made
            budget = self._budget(key, made, ways)
            self._remember(key, moment(made, budget, doubling=self.asked(key, ways) is None, delta=ways.delta))
        result = self._result(key, made, ways)
        self._documents[key] = plain(unit_document(result))

    def add_history(self, key: str, earlier: Iterable[Moment]) -> None:
        """What was forecast before watching began."""
        kept = {one.compute: one for one in (*earlier, *self.histories.get(key, ()))}
        moments = [kept[compute] for compute in sorted(kept)]
        self.histories[key] = tuple(moments[i] for i in evenly(len(moments), MOST_MOMENTS).tolist())
        if key in self._documents:
            history = [asdict(one) for one in self.histories[key]]
            self._documents[key] = self._documents[key] | {"history": history}

    def document(self) -> Document:
        """The RUN for the page."""
        seeds = self._units.get(self.default or "", ())
        notes = dict.fromkeys(note for one in seeds for note in one.notes)
        own = self.own
        head = RunResult(
            self.id, self.name, self.path, (),
            state="unknown" if own is None else own.state,
            notes=(*notes, *(() if own is None else own.notes)),
            warning=self.problem if self.fits else None,
            panels=() if own is None else own.panels,
            events=() if own is None else own.events,
            provenance=None if own is None else own.provenance,
            sets=self.sets,
            problem=self._no_fit or (None if self.fits else self.problem),
        )  # fmt: skip
        hidden = {"fit": None, "curve": None, "log_f": None} if head.problem else {}
        return run_document(head) | {"units": [self._documents[key] | hidden for key in self._units]}

    def _show_points(self, key: str) -> None:
        result = UnitResult(key, self._name(key), self._units[key], self.fits.get(key))
        known = self._documents.get(key) or unit_document(replace(result, fit=None))
        self._documents[key] = known | {"points": points_document(result)}

    def _name(self, key: str) -> str:
        return unit_name(self._units[key][0].compute_name)

    def _try_fit(self, seeds: Seeds, ways: Ways) -> tuple[Fit | None, str | None]:
        count = sum(len(one) for one in seeds)
        if count < MIN_POINTS:
            return None, f"{count} points so far; a fit needs at least {MIN_POINTS} beside step 0"
        try:
            return ways.fit(self.name, seeds), None
        except ScaleRLError as error:
            return None, str(error)

    def _budget(self, key: str, made: Fit, ways: Ways) -> float:
        """Fixed when watching began; once the curve has passed it, twice what there is then."""
        found = self.budgets.get(key)
        if found is None:
            asked = ways.budget(_last(self._units[key])) if key == self.default else self._same_budget(key)
            planned = None if self.own is None else self.own.planned(key, _last(self._units[key]))
            found = asked or planned or 2 * made.last_compute
        if found <= made.last_compute:
            found = 2 * made.last_compute
        self.budgets[key] = found
        return found

    def asked(self, key: str, ways: Ways) -> float | None:
        """The budget to decide about, if the user gave one that is still ahead; None: twice the compute there is.

        The budget of the history stays where it is, and no gain is left when the curve comes near it. A decision about
        that one would tell every run to stop.
        """
        given = ways.budget(_last(self._units[self.default or key])) is not None
        found = self.budgets.get(key)
        return found if given and found is not None and found > _last(self._units[key]) else None

    def _same_budget(self, key: str) -> float | None:
        """The default unit's budget in another unit, at the rate so far."""
        default = self.default or ""
        if default not in self.budgets or not self.last_compute:
            return None
        return self.budgets[default] * _last(self._units[key]) / self.last_compute

    def _remember(self, key: str, now: Moment | None) -> None:
        if now is not None:
            self.add_history(key, [*self.histories.get(key, ()), now])

    def _result(self, key: str, made: Fit | None, ways: Ways) -> UnitResult:
        seeds = self._units[key]
        source: dict[str, Any] = source_document(one.source for one in seeds)
        return UnitResult(
            key, self._name(key), seeds, made, budget=self.asked(key, ways),
            targets=ways.targets, delta=ways.delta, history=self.histories.get(key, ()), source=source,
        )  # fmt: skip


@dataclass
class Past:
    """The forecasts of a run before watching began, as far as they have been made again."""

    run: Followed
    key: str
    rest: Iterator[Moment]
    era: int
    found: list[Moment] = field(default_factory=list)

    @classmethod
    def of(cls, run: Followed, key: str, ways: Ways) -> Self:
        doubling = run.asked(key, ways) is None
        return cls(run, key, moments(run.fits[key], run.budgets[key], doubling=doubling, delta=ways.delta), run.era)

    def one_more(self) -> Moment | None:
        """None: that was all. So it is when the run began anew, or an earlier part of it cannot be fitted."""
        try:
            return next(self.rest, None) if self.era == self.run.era else None
        except ScaleRLError:
            return None


def _last(seeds: Seeds) -> float:
    return max((float(one.compute[-1]) for one in seeds if len(one)), default=0.0)
