"""What the engine returns: frozen plain data that prints itself and round-trips through JSON.

Numbers only: how they were computed lives in the sibling modules, how they look in `scalerl.report`. Unknown is None,
never a zero-width band.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from scalerl.display import Displayed
from scalerl.errors import InputError
from scalerl.numbers import estimate


def check_level(level: float) -> float:
    """The share an interval should hold, if it is one."""
    if not 0 < level < 1:
        raise InputError("unusable level", level, "between 0 and 1, for example 0.8")
    return level


Verdict = Literal["moves the ceiling", "moves the efficiency", "no difference shown"]
Action = Literal["SCALE", "STOP", "NEED MORE DATA", "UNSTABLE"]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; `low` and `high` are None together when the interval is unknown."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return estimate(self)


@dataclass(frozen=True)
class Diagnostic:
    """One thing to know before trusting a fit."""

    code: str
    """Stable name: see `diagnose.py` for the list."""
    message: str
    compute: float | None = None
    """For `ceiling_not_identified`: the total compute expected to identify it."""


@dataclass(frozen=True)
class Forecast:
    """The value expected at one compute: median and interval of the posterior predictive."""

    compute: float
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TargetForecast:
    """The compute at which the curve reaches `target`."""

    target: float
    probability: float | None
    """Chance that the curve ever reaches it (that it lies below the ceiling)."""
    compute: float | None
    """Median compute; None when it is more likely never reached."""
    low: float | None
    high: float | None
    """Upper end; None when the chance of never reaching it exceeds what the interval leaves out."""
    message: str


@dataclass(frozen=True)
class WindowFit:
    """The law refitted on another window, as in the paper's table A.7."""

    low: float
    high: float
    points: int
    ceiling: float
    exponent: float
    midpoint: float


@dataclass(frozen=True)
class Decision:
    """What to do at a budget, and why."""

    action: Action
    probability: float | None
    """Posterior probability that the gain over now is at least `delta` at `budget`."""
    reason: str
    budget: float
    delta: float
    now: float
    """Where the curve stands at its last point (posterior median)."""
    expected_gain: float | None
    extra_compute: float | None
    """For NEED MORE DATA: the smallest extra compute expected to settle it; None when none is in sight."""


@dataclass(frozen=True)
class Pair:
    """`challenger` against `reference`; every difference is challenger minus reference."""

    reference: str
    challenger: str
    ceiling: Estimate
    exponent: Estimate
    """Difference of the exponents, each with its own ceiling."""
    log_midpoint: Estimate
    """Difference of ln midpoint: negative means the challenger is there earlier."""
    probability_ceiling_higher: float
    """Chance that the challenger's ceiling is higher by more than the margin."""
    probability_ceiling_equal: float
    """Chance that the ceilings differ by no more than the margin."""
    probability_ceiling_lower: float
    """Chance that it is lower by more than the margin; the three add up to 1."""
    probability_more_efficient: float | None
    """Chance that, at a common ceiling, the challenger has the larger exponent; None when the ceilings differ by more
    than the margin, so that none is common."""
    probability_earlier: float | None
    """Chance that, at a common ceiling, the challenger has the smaller midpoint; None likewise."""
    verdict: Verdict
    winner: str | None
    paper_verdict: str
    """The paper's own rule: ceilings within the margin count as equal, then both are refitted with the mean ceiling."""
    common_ceiling: float | None
    exponents_at_common_ceiling: tuple[float, float] | None
    """(reference, challenger), when the paper's rule calls the ceilings equal."""
    overtakes_at: Estimate | None
    """Compute beyond the last common point at which the one now behind is ahead; None when it is not expected to be."""
    caution: str
    """When not to trust this row; empty when there is nothing to say."""
    overtaker: str | None = None
    """Which of the two gets ahead at `overtakes_at`."""


@dataclass(frozen=True)
class Comparison(Displayed):
    """All challengers against one reference, best first by the paper's rule (ceiling, then exponent)."""

    reference: str
    level: float
    margin: float
    ranking: tuple[str, ...]
    """Every curve; those whose ceiling is not identified have no rank and stand at the end."""
    pairs: tuple[Pair, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Score:
    """One method's forecast of the held-out rest of one curve."""

    curve: str
    method: str
    share: float
    compute: float
    actual: float
    value: float
    low: float | None
    high: float | None
    crps: float | None
    interval_score: float | None

    @property
    def error(self) -> float:
        return self.value - self.actual

    @property
    def inside(self) -> bool | None:
        return None if self.low is None or self.high is None else self.low <= self.actual <= self.high


@dataclass(frozen=True)
class Backtest:
    """Scores of every method on every curve and share."""

    level: float
    scores: tuple[Score, ...]

    def to_dict(self) -> dict[str, Any]:
        scores = [asdict(s) | {"error": s.error, "inside": s.inside} for s in self.scores]
        return {"level": self.level, "scores": scores}
