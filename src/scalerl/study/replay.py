"""The race played again on finished curves: what it would have stopped, what that saves, and whether verdicts change.

Called by `scalerl study report --replay-prune`. At each rung the curves of every live cell are cut and judged together,
as `execute` does; a stopped cell keeps its shorter curves. Then the study is analysed as it would have been left. Pure:
nothing is read or written. The compute that the race would have given to the undecided is not spent here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalerl.series import Series
from scalerl.study.analyse import Curves, Settings, analyse, curves_of, full_of, settings_of
from scalerl.study.race import judge

_ROOM = 1e-9
"""A point at the rung itself belongs to it, whatever the rounding."""


@dataclass(frozen=True)
class Stopped:
    """A cell that the race would have ended."""

    cell: str
    rung: float
    probability: float | None
    reason: str


@dataclass(frozen=True)
class Changed:
    """A verdict that the race would have changed."""

    cell: str
    before: str
    after: str


@dataclass(frozen=True)
class Replay:
    """The race as it would have been."""

    rungs: tuple[float, ...]
    delta: float
    threshold: float
    stopped: tuple[Stopped, ...]
    saved: float
    """Share of the study's compute that would not have been spent."""
    verdicts: int
    """How many there are to compare."""
    changed: tuple[Changed, ...]
    best_before: str | None
    best_after: str | None
    """First in the ranking; None: no ceiling is known well enough."""


@dataclass(frozen=True)
class Race:
    """The `prune` table of a study."""

    rungs: Sequence[float]
    delta: float
    threshold: float


def replay_results(results: Mapping[str, Any]) -> Replay:
    """The race on the curves that a results document holds, with the study's own `prune` table."""
    prune = results["prune"]
    race = Race(prune["rungs"], prune["delta"], prune["threshold"])
    return replay(curves_of(results), results["base"], full_of(results), race, settings_of(results))


def replay(
    curves: Curves, base: str, full: Mapping[str, float], race: Race, settings: Settings | None = None
) -> Replay:
    """Race finished curves, then compare the verdicts with those of the whole curves."""
    settings = settings or Settings()
    known = {cell: dict(seeds) for cell, seeds in curves.items() if seeds and cell in full}
    stopped = _stops(known, base, full, race, settings)
    left = {cell: _cut(seeds, stopped[cell].rung * full[cell]) if cell in stopped else seeds
            for cell, seeds in known.items()}  # fmt: skip
    before, after = analyse(known, base, full, settings), analyse(left, base, full, settings)
    were, are = before.verdicts(), after.verdicts()
    return Replay(
        rungs=tuple(race.rungs),
        delta=race.delta,
        threshold=race.threshold,
        stopped=tuple(stopped.values()),
        saved=_saved(known, full, stopped),
        verdicts=len(were),
        changed=tuple(
            Changed(cell, were[cell], are.get(cell, "unknown")) for cell in were if are.get(cell) != were[cell]
        ),
        best_before=before.best,
        best_after=after.best,
    )


def _stops(curves: Curves, base: str, full: Mapping[str, float], race: Race, settings: Settings) -> dict[str, Stopped]:
    stopped: dict[str, Stopped] = {}
    for rung in race.rungs:
        live = {cell: seeds for cell, seeds in curves.items() if cell not in stopped}
        if base not in live or len(live) < 2:
            break
        seen = {cell: list(_cut(seeds, rung * full[cell]).values()) for cell, seeds in live.items()}
        for made in judge(seen, base, full, race.delta, race.threshold, bounds=settings.bounds):
            if made.action == "stop":
                stopped[made.cell] = Stopped(made.cell, rung, made.probability, made.reason)
    return stopped


def _cut(seeds: Mapping[int, Series], until: float) -> dict[int, Series]:
    return {seed: one.window(None, until * (1 + _ROOM)) for seed, one in seeds.items()}


def _saved(curves: Curves, full: Mapping[str, float], stopped: Mapping[str, Stopped]) -> float:
    total = sum(len(seeds) * full[cell] for cell, seeds in curves.items())
    freed = sum(len(curves[cell]) * full[cell] * (1 - one.rung) for cell, one in stopped.items())
    return freed / total if total else 0.0
