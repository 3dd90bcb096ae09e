"""Which part of the GPUs should generate: short simulations of several splits, a closer look around the best, and full
ones until the best of all is one of these.

Called by the command line. A split is better when its steps take less time; GPUs are paid for whether they work or not,
so it is also the cheapest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scalerl.errors import InputError
from scalerl.plan.outcome import Outcome
from scalerl.plan.question import Question
from scalerl.plan.rates import fewest_training, generator_size
from scalerl.plan.simulate import simulate

ALL_UP_TO = 10
"""So many splits are all tried."""
_SHARES = (1 / 16, 1 / 8, 1 / 5, 0.3, 0.4, 0.55, 0.7)
"""Of the GPUs, that train: the first look."""
_STEPS, _ROLLOUTS = 20, 256
"""Of the short simulations."""
_ROUNDS = 2

Simulate = Callable[[int, int], Outcome]
"""(generating, training) -> what comes of it."""


@dataclass(frozen=True)
class Splits:
    """What was tried, by GPUs that train, and the best of it, simulated in full."""

    tried: tuple[Outcome, ...]
    best: Outcome


def best_split(
    question: Question, gpus: int, full: Simulate, *, seed: int = 0, short: Simulate | None = None
) -> Splits:
    """Split so many GPUs. `full` and `short`: how to simulate one split; in short by default briefly and with a part of
    the rollouts."""

    def briefly(generating: int, training: int) -> Outcome:
        asked = question.split(generating, training)
        return simulate(asked, steps=_STEPS, seed=seed, most_rollouts=_ROLLOUTS)

    run = short or briefly
    size, fewest = generator_size(question), fewest_training(question)
    possible = _possible(gpus, size, fewest)
    if not possible:
        allowed = f"at least {size + fewest}: {size} for one generator, {fewest} to train"
        raise InputError("--gpus", gpus, allowed, f"{question.model.parameters:.3g} parameters")
    tried: dict[int, Outcome] = {}
    if len(possible) <= ALL_UP_TO:
        for training in possible:
            tried[training] = run(gpus - training, training)
    else:
        for training in sorted({_nearest(possible, share * gpus) for share in _SHARES}):
            tried[training] = run(gpus - training, training)
        for _ in range(_ROUNDS):
            for training in _around(possible, tried):
                tried[training] = run(gpus - training, training)
    in_full: set[int] = set()
    while (best := _fastest(tried)) not in in_full:  # a short one is off by up to a tenth: the best of many was lucky
        tried[best] = full(gpus - best, best)
        in_full.add(best)
    return Splits(tuple(tried[training] for training in sorted(tried)), tried[best])


def _possible(gpus: int, size: int, fewest: int) -> range:
    """GPUs that may train: what generates is whole generators. A range, however many GPUs there are."""
    return range(gpus - max(0, gpus - fewest) // size * size, gpus, size)


def _nearest(possible: range, wanted: float) -> int:
    """The smaller of two that are as near."""
    place = math.ceil((wanted - possible.start) / possible.step - 0.5)
    return possible[min(max(place, 0), len(possible) - 1)]


def _around(possible: range, tried: dict[int, Outcome]) -> list[int]:
    """Half-way from the best to its neighbours on both sides."""
    known = sorted(tried)
    at = known.index(_fastest(tried))
    ends = [known[max(0, at - 1)], known[min(len(known) - 1, at + 1)]]
    found = {_nearest(possible, (known[at] + end) / 2) for end in ends}
    return sorted(found - tried.keys())


def _fastest(tried: dict[int, Outcome]) -> int:
    """GPUs that train in the best split so far."""
    return min(tried, key=lambda training: tried[training].step_s)
