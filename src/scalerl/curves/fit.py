"""`fit`: points in, `Fit` out: least-squares parameters, their intervals, and what to know before trusting them.

This is the door of the engine. The numbers come from `least_squares` (point estimates) and `posterior` (intervals),
the warnings from `diagnose`. A `Fit` keeps its data, so everything else (forecast, compare, decide) can be derived from
it, also after a round trip through JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from scalerl.curves.diagnose import UNTRUSTED, diagnose, is_identified, refit_windows
from scalerl.curves.infer import infer
from scalerl.curves.laws import LAWS, LawName
from scalerl.curves.least_squares import Problem, Solution, solve
from scalerl.curves.paper import solve_paper
from scalerl.curves.posterior import Posterior
from scalerl.curves.results import Diagnostic, Estimate, WindowFit, check_level
from scalerl.curves.scale import Bounds, Scale
from scalerl.display import Displayed
from scalerl.errors import InputError
from scalerl.numbers import estimate as shown
from scalerl.series import FloatArray, Series, StartValue

Method = Literal["varpro", "paper"]
Floor = float | Literal["measured", "free"] | None
Window = tuple[float | None, float | None]

MIN_POINTS = 5
SMALLEST, LARGEST = 1e-40, 1e40
"""Sizes of numbers that can be fitted."""
SCHEMA = 1


@dataclass(frozen=True)
class Options:
    """What a fit was asked to do, as given."""

    law: LawName
    method: Method
    level: float
    bounds: Bounds
    ceiling: float | None


@dataclass(frozen=True)
class Fit(Displayed):
    """A law fitted to one curve, or to several seeds of one recipe together."""

    name: str
    law: LawName
    method: Method
    level: float
    bounds: Bounds
    window: Window
    """As asked for; None is open."""
    fixed_floor: float | None
    """The floor the fit was given (measured at step 0 or by the user); None: it was free."""
    floor_measured: bool
    fixed_ceiling: float | None
    series: tuple[Series, ...]
    """Everything given, the points outside the window included."""
    parameters: Mapping[str, Estimate]
    sse: float
    """Weighted sum of squares of the fitted points (weights average 1)."""
    r_squared: float | None
    identified: bool
    """Whether the ceiling can be quoted."""
    diagnostics: tuple[Diagnostic, ...] = ()
    windows: tuple[WindowFit, ...] = ()

    @property
    def ceiling(self) -> Estimate | None:
        return self.parameters.get("ceiling")

    @property
    def exponent(self) -> Estimate | None:
        return self.parameters.get("exponent")

    @property
    def midpoint(self) -> Estimate | None:
        return self.parameters.get("midpoint")

    @property
    def floor(self) -> Estimate | None:
        return self.parameters.get("floor")

    @cached_property
    def fitted(self) -> tuple[Series, ...]:
        """The points inside the window."""
        return _inside(self.series, self.window)

    @cached_property
    def held_out(self) -> tuple[Series, ...]:
        """The points after the window's end."""
        if self.window[1] is None:
            return ()
        after = (s.window(float(np.nextafter(self.window[1], np.inf)), None) for s in self.series)
        return tuple(s for s in after if len(s))

    @property
    def points(self) -> int:
        return sum(len(s) for s in self.fitted)

    @property
    def first_compute(self) -> float:
        return min(float(s.compute[0]) for s in self.fitted)

    @property
    def last_compute(self) -> float:
        return max(float(s.compute[-1]) for s in self.fitted)

    @property
    def start(self) -> StartValue | None:
        return self.series[0].start

    @property
    def compute_name(self) -> str:
        return self.series[0].compute_name

    @property
    def value_name(self) -> str:
        return self.series[0].value_name

    @cached_property
    def posterior(self) -> Posterior:
        """Draws behind every interval; derived from the data, the same each time."""
        floor = None if self.floor_measured else self.fixed_floor
        scale = Scale.of(self.fitted, self.bounds)
        return infer(self.fitted, scale, self.law, floor=floor, ceiling=self.fixed_ceiling)

    def value_at(self, compute: FloatArray | Sequence[float] | float) -> FloatArray:
        """The least-squares law at any compute."""
        arguments = {name: estimate.value for name, estimate in self.parameters.items()}
        return LAWS[self.law].function(np.atleast_1d(np.asarray(compute, dtype=np.float64)), **arguments)

    def to_dict(self) -> dict[str, Any]:
        plain = {f: getattr(self, f) for f in ("name", "law", "method", "level", "fixed_floor", "floor_measured")}
        return plain | {
            "schema": SCHEMA,
            "bounds": None if self.bounds is None else [_or_none(end) for end in self.bounds],
            "window": list(self.window),
            "fixed_ceiling": self.fixed_ceiling,
            "series": [s.to_dict() for s in self.series],
            "parameters": {name: asdict(estimate) for name, estimate in self.parameters.items()},
            "sse": self.sse,
            "r_squared": self.r_squared,
            "identified": self.identified,
            "diagnostics": [asdict(d) for d in self.diagnostics],
            "windows": [asdict(w) for w in self.windows],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        if data.get("schema") != SCHEMA:
            raise InputError("not a saved fit", data.get("schema"), f"schema {SCHEMA}")
        fields = {key: value for key, value in data.items() if key != "schema"}
        bounds = data["bounds"]
        fields["bounds"] = None if bounds is None else (_or(bounds[0], -np.inf), _or(bounds[1], np.inf))
        fields["window"] = tuple(data["window"])
        fields["series"] = tuple(Series.from_dict(s) for s in data["series"])
        fields["parameters"] = {name: Estimate(**e) for name, e in data["parameters"].items()}
        fields["diagnostics"] = tuple(Diagnostic(**d) for d in data["diagnostics"])
        fields["windows"] = tuple(WindowFit(**w) for w in data["windows"])
        return cls(**fields)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        seeds = f", {len(self.fitted)} seeds" if len(self.fitted) > 1 else ""
        lines = [f"{self.name}: {self.law} on {self.points} points{seeds}, {self.level:.0%} intervals"]
        lines += [
            f"  {name:<9} {shown(estimate, compute=name in ('midpoint', 'scale'))}"
            for name, estimate in self.parameters.items()
        ]
        lines += [f"  ! {d.message}" for d in self.diagnostics]
        return "\n".join(lines)


def fit(
    series: Series | Sequence[Series],
    *,
    law: LawName = "sigmoid",
    floor: Floor = None,
    ceiling: float | None = None,
    bounds: Bounds = (0.0, 1.0),
    window: Window = (None, None),
    method: Method = "varpro",
    level: float = 0.8,
    name: str | None = None,
) -> Fit:
    """Fit a law to a curve, or to several seeds of one recipe together.

    `floor`: a number fixes it, "measured" takes the step-0 value, "free" estimates it; None means measured where every
    series has a step-0 value, else free. `ceiling` fixes the ceiling. `bounds` of the value: None for any range.
    `window` keeps the points between two computes. `method="paper"` is the paper's grid procedure, without intervals.
    """
    given = (series,) if isinstance(series, Series) else tuple(series)
    if not given:
        raise InputError("no series to fit", allowed="at least one")
    ask = Options(law, method, level, bounds, ceiling)
    _check_options(ask, floor)
    window = (_plain(window[0]), _plain(window[1]))
    for one in given:
        _check_values(one, bounds)
        _check_sizes(one)
    fitted = _inside(given, window)
    count = sum(len(s) for s in fitted)
    name = name or given[0].name
    _check_window(given, window, count, name)
    fixed_floor, measured = _resolve_floor(given, floor, ask)
    draft = Fit(
        name, law, method, level, bounds, window, fixed_floor, measured, ceiling, given,
        parameters={}, sse=0.0, r_squared=None, identified=False,
    )  # fmt: skip
    return _completed(draft)


def _completed(draft: Fit) -> Fit:
    """Solve, then add intervals, window refits and diagnostics."""
    problem = Problem.of(draft.fitted, draft.bounds, draft.fixed_floor, draft.fixed_ceiling)
    if draft.method == "paper":
        assert draft.fixed_floor is not None  # `_resolve_floor` has seen to it
        solution = solve_paper(draft.law, problem.compute, problem.value, draft.fixed_floor)
    else:
        solution = solve(draft.law, problem)
    if draft.method == "paper":  # it knows no weights
        problem = replace(problem, weight=np.ones_like(problem.weight))
    mean = float(np.average(problem.value, weights=problem.weight))
    total = problem.sse(np.full_like(problem.value, mean))
    tiny = 1e-20 * float(np.sum(problem.value**2)) + 1e-300
    solved = replace(
        draft,
        parameters=_estimates(draft, solution),
        sse=solution.sse,
        r_squared=1 - solution.sse / total if total > tiny else None,
    )
    _share_posterior(draft, solved)
    windows = refit_windows(solved, problem, solution)
    diagnostics = diagnose(solved, problem, solution, windows)
    trusted = not UNTRUSTED & {d.code for d in diagnostics}
    final = replace(solved, identified=trusted and is_identified(solved), windows=windows, diagnostics=diagnostics)
    _share_posterior(draft, final)
    return final


def _share_posterior(source: Fit, target: Fit) -> None:
    """Hand the draws on instead of drawing the same ones again."""
    target.__dict__["posterior"] = source.posterior


def _estimates(draft: Fit, solution: Solution) -> dict[str, Estimate]:
    """Point estimates with equal-tailed posterior intervals, widened where needed to hold the estimate itself.

    A parameter that was fixed, and every parameter of the paper's procedure, has no interval.
    """
    fixed = {
        "floor": draft.fixed_floor is not None and not draft.floor_measured,
        "ceiling": draft.fixed_ceiling is not None,
    }
    draws = {} if draft.method == "paper" else draft.posterior.parameter_draws()
    tail = (1 - draft.level) / 2
    estimates = {}
    for name, value in solution.parameters.items():
        if name not in draws or fixed.get(name, False):
            estimates[name] = Estimate(value)
            continue
        low, high = np.quantile(draws[name], [tail, 1 - tail])
        estimates[name] = Estimate(value, min(float(low), value), max(float(high), value))
    return estimates


def _inside(series: Sequence[Series], window: Window) -> tuple[Series, ...]:
    cut = (s.window(*window) for s in series)
    return tuple(s for s in cut if len(s))


def _resolve_floor(given: Sequence[Series], floor: Floor, ask: Options) -> tuple[float | None, bool]:
    """(the fixed floor or None, whether it was measured)."""
    where = given[0].name
    starts = [s.start.value for s in given if s.start is not None]
    every = len(starts) == len(given)
    if floor == "measured" and not every:
        allowed = "a row at zero compute, or a floor as a number or 'free'"
        raise InputError("no step-0 measurement", allowed=allowed, where=where)
    if floor == "free" or (floor is None and not every):
        if ask.method == "paper":
            allowed = "a row at zero compute, or a number"
            raise InputError("the paper's procedure needs a floor", allowed=allowed, where=where)
        return None, False
    measured = floor is None or floor == "measured"
    value = float(np.mean(starts)) if measured else _number(floor)
    low, high = ask.bounds or (-np.inf, np.inf)
    top = high if ask.ceiling is None else ask.ceiling
    if not (np.isfinite(value) and low <= value <= top):
        what = "the step-0 value lies above the ceiling" if measured else "unusable floor"
        raise InputError(what, value, f"{low:g} to {top:g}, 'measured' or 'free'", where)
    return value, measured


def _number(floor: object) -> float:
    if isinstance(floor, bool) or not isinstance(floor, int | float | np.number):
        raise InputError("unusable floor", str(floor), "a number, 'measured' or 'free'")
    return float(floor)


def _check_options(ask: Options, floor: Floor) -> None:
    if ask.law not in LAWS:
        raise InputError("unknown law", ask.law, ", ".join(LAWS))
    if ask.method not in ("varpro", "paper"):
        raise InputError("unknown method", ask.method, "varpro, paper")
    check_level(ask.level)
    low, high = ask.bounds or (-np.inf, np.inf)
    if not low < high:
        raise InputError("unusable bounds", ask.bounds, "low < high")
    if ask.ceiling is not None and not (np.isfinite(ask.ceiling) and low <= ask.ceiling <= high):
        raise InputError("unusable ceiling", ask.ceiling, f"{low:g} to {high:g}")
    if ask.ceiling is not None and (ask.method == "paper" or "ceiling" not in LAWS[ask.law].parameters):
        raise InputError(
            "a fixed ceiling does not go with", f"law {ask.law}, method {ask.method}", "sigmoid or power, varpro"
        )
    if floor is not None and ask.method == "varpro" and "floor" not in LAWS[ask.law].parameters:
        raise InputError("this law has no floor", ask.law, "sigmoid, or no floor given")


def _check_values(series: Series, bounds: Bounds) -> None:
    low, high = bounds or (-np.inf, np.inf)
    values = series.value if series.start is None else np.append(series.value, series.start.value)
    outside = values[(values < low) | (values > high)]
    if outside.size:
        raise InputError(
            "value outside the bounds",
            float(outside[0]),
            f"{low} to {high} (option bounds)",
            series.source or series.name,
        )


def _check_sizes(series: Series) -> None:
    """Squares and powers of the numbers must be numbers too; zero is one."""
    start = [] if series.start is None else [series.start.value]
    answers = [] if series.start is None or series.start.n is None else [series.start.n]
    counts = np.append([] if series.n is None else series.n, answers)
    for what, found in (("compute", series.compute), ("value", np.append(series.value, start)), ("n", counts)):
        size = np.abs(found[found != 0])
        odd = size[(size < SMALLEST) | (size > LARGEST)]
        if odd.size:
            allowed = f"zero, or {SMALLEST:g} to {LARGEST:g}: use another unit"
            raise InputError(
                f"{'an' if what == 'n' else 'a'} {what} that cannot be fitted",
                float(odd[0]),
                allowed,
                series.source or series.name,
            )


def _check_window(given: Sequence[Series], window: Window, count: int, name: str) -> None:
    where = ", ".join(dict.fromkeys([*(s.source for s in given if s.source), name]))
    if count == 0 and any(len(s) for s in given):
        low, high = min(s.compute[0] for s in given if len(s)), max(s.compute[-1] for s in given if len(s))
        allowed = f"compute runs from {low:g} to {high:g}"
        asked = " ".join(
            f"{word} {end:g}" for word, end in zip(("from", "until"), window, strict=True) if end is not None
        )
        raise InputError("no points in the window", asked, allowed, where)
    if count < MIN_POINTS:
        raise InputError("too few points to fit", count, f"at least {MIN_POINTS} beside step 0", where)


def _plain(end: float | None) -> float | None:
    return None if end is None else float(end)


def _or_none(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def _or(end: float | None, default: float) -> float:
    return default if end is None else end
