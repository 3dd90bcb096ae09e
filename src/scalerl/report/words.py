"""What results say, as sentences: for the terminal now, for pages later. No layout, no colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from scalerl import numbers
from scalerl.curves import Fit
from scalerl.curves.results import Backtest, Decision, Estimate, Pair, Score, TargetForecast
from scalerl.report.picture import law_of

MEANINGS = {
    "ceiling": "{value} that more compute approaches",
    "exponent": "efficiency: how steep the rise is",
    "midpoint": "{compute} at which half of the gain is made",
    "floor": "{value} before training",
    "scale": "size of the gap to the ceiling",
    "level": "{value}, whatever the compute",
    "intercept": "{value} at one unit of {compute}",
    "slope": "gain with each factor e of {compute}",
}


def about(fit: Fit) -> str:
    """One line: what was fitted to what."""
    seeds = f" of {len(fit.fitted)} seeds" if len(fit.fitted) > 1 else ""
    held = sum(len(series) for series in fit.held_out)
    words = [
        f"{law_of(fit)} on {fit.points:,} points{seeds}",
        f"{numbers.amount(fit.first_compute)} to {numbers.amount(fit.last_compute)} {fit.compute_name}",
    ]
    words += [f"{held:,} held out"] if held else []
    words += [] if fit.r_squared is None else [f"R² {fit.r_squared:.3f}"]
    words += ["the paper's procedure"] if fit.method == "paper" else []
    return ", ".join(words)


def meaning(fit: Fit, parameter: str) -> str:
    words = MEANINGS.get(parameter, "").format(value=fit.value_name, compute=fit.compute_name)
    if parameter == "ceiling" and fit.fixed_ceiling is not None:
        return f"{words} (given)"
    if parameter == "ceiling" and not fit.identified:
        return "not identified yet: do not quote it"
    if parameter == "floor" and fit.fixed_floor is not None:
        return f"{words} ({'measured' if fit.floor_measured else 'given'})"
    return words


def target(found: TargetForecast) -> tuple[str, str]:
    """Where a target is reached and with which interval."""
    if found.compute is None:
        return "more likely never", "-"
    center, interval = numbers.ranged(found.compute, found.low, found.high, compute=True)
    if found.low is not None and found.high is None:
        interval = f"[{numbers.amount(found.low, 2)}, never]"
    return center, interval


def decision(made: Decision, unit: str) -> list[str]:
    """The reason, then the figures behind it."""
    at = f"{numbers.amount(made.budget)} {unit}".strip()
    lines = [numbers.name(made.reason, 400)]
    lines.append(f"P(gain of {made.delta:g} or more by {at}): {numbers.probability(made.probability)}")
    expected = numbers.UNKNOWN if made.expected_gain is None else numbers.number(made.expected_gain, 2, signed=True)
    lines.append(f"Now {numbers.number(made.now)}, expected gain {expected}")
    if made.action == "NEED MORE DATA":
        extra = (
            "none in sight" if made.extra_compute is None else f"{numbers.amount(made.extra_compute, 2)} {unit}".strip()
        )
        lines.append(f"Extra compute expected to settle it: {extra}")
    return lines


def pair(one: Pair, unit: str) -> list[str]:
    """A verdict with its probabilities, the paper's rule beside it, and when not to trust it."""
    winner = "" if one.winner is None else f", in favour of {numbers.name(one.winner)}"
    chances: dict[str, float | None] = {
        "ceiling higher": one.probability_ceiling_higher,
        "equal": one.probability_ceiling_equal,
        "lower": one.probability_ceiling_lower,
    }
    if one.probability_more_efficient is not None:
        chances["larger exponent at a common ceiling"] = one.probability_more_efficient
        chances["earlier midpoint there"] = one.probability_earlier
    lines = [
        f"{one.verdict}{winner}",
        ", ".join(f"P({event}) {numbers.probability(chance)}" for event, chance in chances.items()),
        f"the paper's rule: {numbers.name(one.paper_verdict, 200)}{_common(one)}",
    ]
    if one.overtakes_at is not None:
        who = "the one behind" if one.overtaker is None else f"{numbers.name(one.overtaker)}, now behind,"
        lines.append(f"{who} gets ahead at {_overtaking(one.overtakes_at)} {unit}".rstrip())
    if one.caution:
        lines.append(f"caution: {numbers.name(one.caution, 300)}")
    return lines


def ratio(log_difference: Estimate) -> Estimate:
    """A difference of logarithms as a factor."""
    low, high = (None if end is None else math.exp(end) for end in (log_difference.low, log_difference.high))
    return Estimate(math.exp(log_difference.value), low, high)


def _common(one: Pair) -> str:
    if one.common_ceiling is None or one.exponents_at_common_ceiling is None:
        return ""
    named = zip((one.reference, one.challenger), one.exponents_at_common_ceiling, strict=True)
    exponents = ", ".join(f"{numbers.name(name)} {exponent:.3f}" for name, exponent in named)
    return f" (exponents at ceiling {numbers.number(one.common_ceiling)}: {exponents})"


def _overtaking(at: Estimate) -> str:
    center, interval = numbers.split(at, compute=True)
    return center if interval == numbers.UNKNOWN else f"{center} {interval}"


@dataclass(frozen=True)
class Summary:
    """The scores of one method at one share."""

    method: str
    share: float
    count: int
    mean_error: float
    median_error: float
    coverage: float | None
    """None, like everything below, when the method gives no interval."""
    width: float | None
    crps: float | None
    interval_score: float | None

    def holds(self, level: float) -> str:
        """Whether the intervals keep their promise, within what this number of curves can show."""
        if self.coverage is None:
            return numbers.UNKNOWN
        doubt = 2 * math.sqrt(level * (1 - level) / self.count)
        if self.coverage < level - doubt:
            return "too narrow"
        return "too wide" if self.coverage > level + doubt else "as promised"


def summaries(backtest: Backtest) -> list[Summary]:
    """By share, then in the order the methods were run."""
    keys = sorted({s.share for s in backtest.scores}), list(dict.fromkeys(s.method for s in backtest.scores))
    groups = [(share, method) for share in keys[0] for method in keys[1]]
    chosen = [[s for s in backtest.scores if (s.share, s.method) == group] for group in groups]
    return [_summary(scores) for scores in chosen if scores]


def _summary(scores: Sequence[Score]) -> Summary:
    errors = [abs(score.error) for score in scores]
    inside = [float(score.inside) for score in scores if score.inside is not None]
    widths = [score.high - score.low for score in scores if score.high is not None and score.low is not None]
    crps = [score.crps for score in scores if score.crps is not None]
    interval_scores = [score.interval_score for score in scores if score.interval_score is not None]
    return Summary(
        method=scores[0].method,
        share=scores[0].share,
        count=len(scores),
        mean_error=mean(errors),
        median_error=median(errors),
        coverage=mean(inside) if inside else None,
        width=median(widths) if widths else None,
        crps=mean(crps) if crps else None,
        interval_score=mean(interval_scores) if interval_scores else None,
    )


def backtest_findings(rows: Sequence[Summary], level: float) -> list[str]:
    """For one share: who errs least, who forecasts best, whose intervals hold."""
    lines = [f"Smallest mean error: {_best(rows, 'mean_error')}; smallest median error: {_best(rows, 'median_error')}."]
    if any(row.crps is not None for row in rows):
        lines.append(
            f"Best forecast by CRPS: {_best(rows, 'crps')}; by interval score: {_best(rows, 'interval_score')}."
        )
    by_verdict: dict[str, list[str]] = {}
    for row in rows:
        share = numbers.UNKNOWN if row.coverage is None else f"{100 * row.coverage:.0f} %"
        by_verdict.setdefault(row.holds(level), []).append(f"{row.method} ({share})")
    verdicts = "; ".join(f"{verdict}: {', '.join(methods)}" for verdict, methods in sorted(by_verdict.items()))
    lines.append(f"{numbers.percent(level)} intervals, given {rows[0].count} curves: {verdicts}.")
    if rows[0].count < 20:
        lines.append(f"{rows[0].count} curves are few: a difference between methods may be luck.")
    return lines


def _best(rows: Sequence[Summary], field: str) -> str:
    known = [(getattr(row, field), row.method) for row in rows if getattr(row, field) is not None]
    if not known:
        return numbers.UNKNOWN
    best = min(value for value, _ in known)
    return " and ".join(f"{method} ({numbers.number(value)})" for value, method in known if value == best)
