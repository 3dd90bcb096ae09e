"""What a cell's differences to the base amount to: the verdict, its probabilities, and the paper's rule beside it.

Called by `analyse`. Ours: the ceiling moves when both ceilings can be quoted (the joint fits identify them) and the
chance of a difference beyond the margin is .80 or more: before a curve has bent, slow looks like low. If the ceilings
(means over the seeds) agree within the margin, every seed is refitted with their mean as a fixed ceiling, and the cell
is faster (or slower) when the chance of a larger exponent, or else of an earlier midpoint, is .975 or more. What is
neither, but has a value beyond the margin (chance .80 or more), is higher (or lower) at equal compute: by ceiling or by
speed, the curves do not say. That compute is the full budget, or where the shorter side ends: what was measured counts,
not what is expected of a curve that was stopped. Otherwise no difference is shown, which is not the same as no
difference. The intervals are those of `differences`, with the variation between seeds. The paper's rule: joint ceilings
within the margin are equal, and then the exponents decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scalerl.curves import Estimate, Pair, refit_with_ceiling
from scalerl.curves.compare import CEILING_SHARE
from scalerl.study.cell_fits import QUANTITIES, CellFits, Measured, measure
from scalerl.study.differences import Difference, Seeds, differences

BySeed = Mapping[int, Mapping[str, Measured]]
SPEED_SHARE = 0.975
"""Chance that makes a verdict of faster or slower. Two questions (exponent, midpoint) with two sides each are asked of
every cell, so that where nothing differs at most one cell in ten is called so."""
Verdict = Literal[
    "raises the ceiling", "lowers the ceiling", "faster", "slower", "higher at equal compute", "lower at equal compute",
    "no difference shown",
]  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """One cell against the base; every difference is the cell minus the base."""

    cell: str
    ceiling: Estimate
    exponent: Estimate
    log_midpoint: Estimate
    """Negative: half of the gain is made earlier."""
    value: Estimate
    """At the base's full budget."""
    probability_ceiling_higher: float
    """By more than the margin; with the next two it adds up to 1."""
    probability_ceiling_equal: float
    probability_ceiling_lower: float
    probability_value_higher: float
    """At the base's full budget, by any amount."""
    common_ceiling: float | None
    """Mean of both ceilings, when they differ by no more than the margin."""
    exponent_at_common: Estimate | None
    log_midpoint_at_common: Estimate | None
    probability_more_efficient: float | None
    """Chance of a larger exponent at the common ceiling; None without one."""
    probability_earlier: float | None
    """Chance of an earlier midpoint there."""
    verdict: Verdict
    paper_verdict: str
    paper_exponents: tuple[float, float] | None
    """(base, cell): the joint fits at their mean ceiling, if the paper's rule calls the ceilings equal."""
    overtakes_at: Estimate | None
    """Compute beyond the data at which the one now behind is expected to be ahead."""
    between: str
    """How the variation between seeds came in: "paired", "unpaired" or "unknown"."""
    caution: str


@dataclass(frozen=True)
class Terms:
    """What the comparison is about."""

    at: float
    """Compute at which values are compared."""
    level: float
    margin: float


@dataclass(frozen=True)
class Common:
    """The differences once both sides have the same ceiling."""

    ceiling: float
    exponent: Difference
    log_midpoint: Difference


def choices(base: CellFits, cells: Mapping[str, CellFits], pairs: Mapping[str, Pair], terms: Terms) -> list[Choice]:
    """Every cell against the base. `pairs`: the engine's, of the joint fits."""
    known = base.measured(terms.at)
    free = _differences({name: (known, one.measured(terms.at)) for name, one in cells.items()}, QUANTITIES)
    middle = _mean_ceiling(known)
    ceilings = {name: middle + free[name]["ceiling"].value / 2 for name in cells}
    close = {name: ceilings[name] for name in cells if abs(free[name]["ceiling"].value) <= terms.margin}
    refitted = {name: (_refitted(base, at, terms), _refitted(cells[name], at, terms)) for name, at in close.items()}
    at_common = _differences(refitted, ("exponent", "log_midpoint"))
    common = {name: Common(close[name], found["exponent"], found["log_midpoint"]) for name, found in at_common.items()}
    equal = _differences({name: _at_equal_compute(base, one, terms.at) for name, one in cells.items()}, ("value",))
    settled = {name: base.joint.identified and one.joint.identified for name, one in cells.items()}
    found = {name: free[name] | {"equal": equal[name]["value"]} for name in cells}
    return [_choice(pairs[name], found[name], common.get(name), terms, settled=settled[name]) for name in cells]


def _at_equal_compute(base: CellFits, cell: CellFits, full: float) -> tuple[BySeed, BySeed]:
    """Both sides as far as both were measured."""
    at = min(full, base.last_compute, cell.last_compute)
    return base.measured(at), cell.measured(at)


def _mean_ceiling(known: BySeed) -> float:
    return float(np.mean([one["ceiling"].mean for one in known.values()]))


def _refitted(one: CellFits, ceiling: float, terms: Terms) -> BySeed:
    """The quantities of each seed, with the ceiling fixed."""
    return {seed: measure(refit_with_ceiling(fit, ceiling), terms.at) for seed, fit in one.units.items()}


def _differences(
    sides: Mapping[str, tuple[BySeed, BySeed]], quantities: Sequence[str]
) -> dict[str, dict[str, Difference]]:
    """Cell -> quantity -> difference, from (base, cell)."""
    found: dict[str, dict[str, Difference]] = {name: {} for name in sides}
    for quantity in quantities:
        picked = {id(side): _pick(side, quantity) for pair in sides.values() for side in pair}
        pairs = {name: (picked[id(base)], picked[id(cell)]) for name, (base, cell) in sides.items()}
        for name, difference in differences(pairs).items():
            found[name][quantity] = difference
    return found


def _pick(side: BySeed, quantity: str) -> Seeds:
    return Seeds({seed: measured[quantity] for seed, measured in side.items()})


def _choice(
    pair: Pair, free: Mapping[str, Difference], common: Common | None, terms: Terms, *, settled: bool
) -> Choice:
    """`free`: the differences of every quantity, and "equal": of the value at equal compute."""
    ceiling = free["ceiling"]
    higher, lower = ceiling.chance_above(terms.margin), 1 - ceiling.chance_above(-terms.margin)
    faster = None if common is None else common.exponent.chance_above(0.0)
    earlier = None if common is None else 1 - common.log_midpoint.chance_above(0.0)
    verdict = (
        (_by_ceiling(higher, lower) if settled else None)
        or _by_speed(faster, earlier)
        or _by_value(free["equal"], terms.margin)
        or "no difference shown"
    )
    return Choice(
        cell=pair.challenger,
        ceiling=ceiling.estimate(terms.level),
        exponent=free["exponent"].estimate(terms.level),
        log_midpoint=free["log_midpoint"].estimate(terms.level),
        value=free["value"].estimate(terms.level),
        probability_ceiling_higher=higher,
        probability_ceiling_equal=max(0.0, 1 - higher - lower),
        probability_ceiling_lower=lower,
        probability_value_higher=free["value"].chance_above(0.0),
        common_ceiling=None if common is None else common.ceiling,
        exponent_at_common=None if common is None else common.exponent.estimate(terms.level),
        log_midpoint_at_common=None if common is None else common.log_midpoint.estimate(terms.level),
        probability_more_efficient=faster,
        probability_earlier=earlier,
        verdict=verdict,
        paper_verdict=pair.paper_verdict,
        paper_exponents=pair.exponents_at_common_ceiling,
        overtakes_at=pair.overtakes_at,
        between=ceiling.between,
        caution=_caution(pair, ceiling, faster, earlier),
    )


def _by_ceiling(higher: float, lower: float) -> Verdict | None:
    if max(higher, lower) < CEILING_SHARE:
        return None
    return "raises the ceiling" if higher > lower else "lowers the ceiling"


def _by_speed(faster: float | None, earlier: float | None) -> Verdict | None:
    if faster is None or earlier is None or _contradict(faster, earlier):
        return None
    for chance in (faster, earlier):
        if _sure(chance):
            return "faster" if chance > 0.5 else "slower"
    return None


def _by_value(value: Difference, margin: float) -> Verdict | None:
    higher, lower = value.chance_above(margin), 1 - value.chance_above(-margin)
    if max(higher, lower) < CEILING_SHARE:
        return None
    return "higher at equal compute" if higher > lower else "lower at equal compute"


def _sure(chance: float) -> bool:
    return max(chance, 1 - chance) >= SPEED_SHARE


def _contradict(faster: float, earlier: float) -> bool:
    """Steeper but later, or flatter but earlier: neither is simply faster."""
    return _sure(faster) and _sure(earlier) and (faster > 0.5) != (earlier > 0.5)


def _caution(pair: Pair, ceiling: Difference, faster: float | None, earlier: float | None) -> str:
    words = [part for part in pair.caution.split("; ") if part and part != "one seed each"]
    if ceiling.between == "unknown":
        words.append("one seed: the variation between seeds is unknown")
    if faster is not None and earlier is not None and _contradict(faster, earlier):
        words.append("steeper but later" if faster > 0.5 else "earlier but flatter")
    return "; ".join(words)
