"""Comparison of recipes: does a choice move the ceiling, or only how fast it is reached?

Differences are taken draw by draw, so every interval is that OF THE DIFFERENCE. Beside it stands the paper's own rule:
ceilings within 0.02 count as equal, and then both curves are refitted with the mean ceiling and their exponents
compared. Curves are taken as independent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalerl.curves.fit import Fit, Floor, fit
from scalerl.curves.results import Comparison, Estimate, Pair, Verdict, check_level
from scalerl.errors import InputError
from scalerl.series import FloatArray, IntArray

MARGIN = 0.02
"""The paper's margin for pass rates: three seeds moved the ceiling by at most 0.015."""
CEILING_SHARE = 0.80
"""Chance of a ceiling difference beyond the margin that makes a verdict."""
EFFICIENCY_SHARE = 0.90


def compare(
    fits: Sequence[Fit], *, reference: str | None = None, margin: float | None = None, level: float | None = None
) -> Comparison:
    """Every fit against the reference (default: the first one).

    `margin`: ceilings this close count as equal; by default .02 of the value's range.
    """
    base = _reference(fits, reference)
    margin = MARGIN * base.posterior.scale.width if margin is None else margin
    if not margin > 0:
        raise InputError("unusable margin", margin, "above zero")
    level = base.level if level is None else check_level(level)
    pairs = tuple(_pair(base, other, margin, level) for other in fits if other is not base)
    return Comparison(base.name, level, margin, _ranking(fits, margin), pairs)


def _reference(fits: Sequence[Fit], reference: str | None) -> Fit:
    names = [f.name for f in fits]
    if len(fits) < 2:
        raise InputError("too few curves to compare", len(fits), "two or more")
    if len(set(names)) < len(names):
        raise InputError("curves with the same name", max(names, key=names.count), "one name per curve")
    for one in fits:
        if one.law != "sigmoid" or one.method != "varpro":
            raise InputError(
                "only sigmoid fits can be compared", f"{one.law}, {one.method}", "sigmoid, varpro", one.name
            )
    units = {_unit(f.compute_name): f.compute_name for f in fits}
    if len(units) > 1:
        raise InputError("curves in different units of compute", ", ".join(units.values()), "one unit for all curves")
    if reference is None:
        return fits[0]
    if reference not in names:
        raise InputError("unknown reference", reference, ", ".join(names))
    return fits[names.index(reference)]


def _pair(base: Fit, other: Fit, margin: float, level: float) -> Pair:
    mine, theirs = other.posterior.parameter_draws(), base.posterior.parameter_draws()
    ceiling = mine["ceiling"] - _shuffled(theirs["ceiling"])
    exponent = mine["exponent"] - _shuffled(theirs["exponent"])
    midpoint = np.log(mine["midpoint"]) - _shuffled(np.log(theirs["midpoint"]))
    common = (_value(base, "ceiling") + _value(other, "ceiling")) / 2
    at_common = [refit_with_ceiling(f, common) for f in (base, other)]
    faster = _chance_larger(at_common, "exponent")
    earlier = 1 - _chance_larger(at_common, "midpoint")
    verdict, winner = _verdict(base, other, ceiling, faster, earlier, margin)
    close = abs(_value(other, "ceiling") - _value(base, "ceiling")) <= margin
    exponents = (_value(at_common[0], "exponent"), _value(at_common[1], "exponent"))
    overtakes_at, overtaker = _overtaking(base, other, level)
    return Pair(
        reference=base.name,
        challenger=other.name,
        ceiling=_estimate(ceiling, _value(other, "ceiling") - _value(base, "ceiling"), level),
        exponent=_estimate(exponent, _value(other, "exponent") - _value(base, "exponent"), level),
        log_midpoint=_estimate(midpoint, np.log(_value(other, "midpoint") / _value(base, "midpoint")), level),
        probability_ceiling_higher=float(np.mean(ceiling > margin)),
        probability_ceiling_equal=float(np.mean(np.abs(ceiling) <= margin)),
        probability_ceiling_lower=float(np.mean(ceiling < -margin)),
        probability_more_efficient=faster if close else None,
        probability_earlier=earlier if close else None,
        verdict=verdict,
        winner=winner,
        paper_verdict=_paper_verdict(base, other, exponents, close),
        common_ceiling=common if close else None,
        exponents_at_common_ceiling=exponents if close else None,
        overtakes_at=overtakes_at,
        caution=_caution(base, other),
        overtaker=overtaker,
    )


def refit_with_ceiling(one: Fit, ceiling: float) -> Fit:
    """The same fit with its ceiling fixed, so that exponents can be compared."""
    floor: Floor = "measured" if one.floor_measured else one.fixed_floor
    above = ceiling if one.fixed_floor is None else max(one.fixed_floor, ceiling)
    return fit(
        one.series, floor="free" if floor is None else floor, ceiling=above,
        bounds=one.bounds, window=one.window, level=one.level, name=one.name,
    )  # fmt: skip


def _verdict(
    base: Fit, other: Fit, ceiling: FloatArray, faster: float, earlier: float, margin: float
) -> tuple[Verdict, str | None]:
    higher, lower = float(np.mean(ceiling > margin)), float(np.mean(ceiling < -margin))
    if max(higher, lower) >= CEILING_SHARE:
        return "moves the ceiling", other.name if higher > lower else base.name
    apart = abs(_value(other, "ceiling") - _value(base, "ceiling"))
    for chance in (faster, earlier) if apart <= margin else ():  # a common ceiling must be plausible
        if max(chance, 1 - chance) >= EFFICIENCY_SHARE:
            return "moves the efficiency", other.name if chance > 0.5 else base.name
    return "no difference shown", None


def _paper_verdict(base: Fit, other: Fit, exponents: tuple[float, float], close: bool) -> str:
    if not close:
        better = max((base, other), key=lambda f: _value(f, "ceiling"))
        return f"{better.name} has the higher ceiling"
    if exponents[0] == exponents[1]:
        return "equal ceiling and exponent"
    better = other if exponents[1] > exponents[0] else base
    return f"equal ceilings; {better.name} has the larger exponent"


def _ranking(fits: Sequence[Fit], margin: float) -> tuple[str, ...]:
    """Higher ceiling first; among those within the margin of the best one left, the larger exponent at their mean.

    A ceiling that is not identified is no reason for a place: such curves follow at the end, in the order given.
    """
    left = sorted((f for f in fits if f.identified), key=lambda f: -_value(f, "ceiling"))
    names: list[str] = []
    while left:
        top = _value(left[0], "ceiling")
        tied = [f for f in left if top - _value(f, "ceiling") <= margin]
        common = float(np.mean([_value(f, "ceiling") for f in tied]))
        refits = [refit_with_ceiling(f, common) for f in tied] if len(tied) > 1 else tied
        order = sorted(refits, key=lambda f: -_value(f, "exponent"))
        names += [f.name for f in order]
        left = left[len(tied) :]
    return (*names, *(f.name for f in fits if not f.identified))


def _overtaking(base: Fit, other: Fit, level: float) -> tuple[Estimate | None, str | None]:
    """Where the one now behind gets ahead, when that is more likely than not, and which one it is."""
    last = max(base.last_compute, other.last_compute)
    ticks = np.geomspace(last, 1000 * last, 120)
    paths = []
    for one in (base, other):
        unit = one.posterior.curve(ticks) + one.posterior.state[:, 1:2]
        paths.append(one.posterior.scale.to_value(unit))
    ahead = paths[1] - paths[0][_permutation(paths[0].shape[0])]
    behind_now = np.median(ahead[:, 0]) < 0
    crossed = (ahead > 0) if behind_now else (ahead < 0)
    at = np.where(crossed.any(axis=1), ticks[np.argmax(crossed, axis=1)], np.inf)
    tail = (1 - level) / 2
    low, middle, high = np.quantile(at, [tail, 0.5, 1 - tail], method="inverted_cdf")
    if not np.isfinite(middle) or middle <= last:
        return None, None
    at_last = Estimate(float(middle), float(low), float(high)) if np.isfinite(high) else Estimate(float(middle))
    return at_last, other.name if behind_now else base.name


def _caution(base: Fit, other: Fit) -> str:
    words = []
    for one in (base, other):
        codes = {d.code for d in one.diagnostics}
        if codes & {"declining", "collapsing"}:
            words.append(f"{one.name} is falling")
        elif not one.identified:
            words.append(f"ceiling of {one.name} not identified")
        if "too_few_points" in codes:
            words.append(f"{one.name} has few points")
    if len(base.fitted) == len(other.fitted) == 1:
        words.append("one seed each")
    return "; ".join(words)


def _chance_larger(pair: Sequence[Fit], name: str) -> float:
    base, other = (f.posterior.parameter_draws()[name] for f in pair)
    return float(np.mean(other > _shuffled(base)))


def _estimate(draws: FloatArray, value: float, level: float) -> Estimate:
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Estimate(float(value), float(min(low, value)), float(max(high, value)))


def _shuffled(draws: FloatArray) -> FloatArray:
    """The draws of two posteriors share one random stream; shuffling one side makes the pairs independent."""
    shuffled: FloatArray = draws[_permutation(draws.size)]
    return shuffled


def _permutation(size: int) -> IntArray:
    return np.random.default_rng(7).permutation(size)


def _unit(name: str) -> str:
    """`GPU-hours` and `gpu_hours` are one unit."""
    return "".join(c for c in name.lower() if c.isalnum())


def _value(one: Fit, name: str) -> float:
    return one.parameters[name].value
