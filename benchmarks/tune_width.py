"""How wide is a forecast's interval while the curve bends? Chosen on real curves and simulated runs, tried on our own.

    python benchmarks/tune_width.py --curves rl_curves.csv      # about two minutes

A nominal 80 % interval of the plain draws holds about 80 % before a curve bends and long after, and more in between. So
while it bends (`Prior.bending`) the interval is drawn in to a share of its width. The rule: the smallest share of
`WIDTHS` at which every project and every simulated horizon still holds 80 % there. For each project the rule is also
applied without it. Our own published studies (docs/studies) have no say; what the choice does to them is printed.
benchmarks/results/tune_width.json keeps the table. The real curves are not part of this repository.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from real_curves import load_real
from scalerl import Series
from scalerl.curves.backtest import TARGET_POINTS, split
from scalerl.curves.fit import MIN_POINTS
from scalerl.curves.infer import infer
from scalerl.curves.prior import DEFAULT_PRIOR, Prior
from scalerl.curves.scale import Scale
from scalerl.study.analyse import curves_of
from simulate import SCENARIOS, simulate

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "tune_width.json"
UNIT = Scale(0.0, 1.0, (True, True))
LEVEL = 0.8
WIDTHS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
HORIZONS = (2.0, 4.0)
FALLING = "plateau, then decay"
CASES = 60
SEED = 7
FEWEST = 20
"""Forecasts of bending curves that a project needs for a say of its own."""
PLAIN = Prior(bending_width=1.0)


@dataclass(frozen=True)
class Made:
    """A forecast by the plain draws, and what came."""

    stage: float
    """ln(last compute / midpoint)."""
    low: float
    middle: float
    high: float
    actual: float

    def inside(self, width: float) -> bool:
        factor = np.interp(self.stage, DEFAULT_PRIOR.bending, (1.0, width, width, 1.0))
        gap = self.actual - self.middle
        return bool(-factor * (self.middle - self.low) <= gap <= factor * (self.high - self.middle))

    @property
    def bending(self) -> bool:
        return DEFAULT_PRIOR.bending[0] < self.stage < DEFAULT_PRIOR.bending[-1]


def made(seen: Series, at: float, actual: float) -> Made:
    posterior = infer([seen], UNIT, "sigmoid", prior=PLAIN)
    tail = (1 - LEVEL) / 2
    low, middle, high = np.quantile(posterior.predictive(np.array([at]))[:, 0], [tail, 0.5, 1 - tail])
    return Made(-float(np.median(posterior.nodes[:, 0])), float(low), float(middle), float(high), actual)


def real(path: Path) -> dict[str, list[Made]]:
    """The end of every real curve, from several shares of it."""
    found: dict[str, list[Made]] = defaultdict(list)
    for (project, _), series in load_real(path).items():
        for share in SHARES:
            found[project].append(made(*split(series, share)))
    return dict(found)


def simulated() -> dict[str, list[Made]]:
    """Runs that rise, at twice and four times the compute seen."""
    rng = np.random.default_rng(SEED)
    found: dict[str, list[Made]] = defaultdict(list)
    for scenario in SCENARIOS:
        for _ in range(CASES):
            case = simulate(scenario, rng)
            for horizon in HORIZONS if scenario != FALLING else ():
                at = horizon * float(case.seen.compute[-1])
                found[f"simulated, {horizon:g}x"].append(made(case.seen, at, float(case.truth(np.array([at]))[0])))
    return dict(found)


def own() -> dict[str, list[Made]]:
    """The end of every run of our published studies; a curve that several studies share counts once."""
    found: dict[str, list[Made]] = defaultdict(list)
    known: set[bytes] = set()
    for file in sorted((ROOT / "docs" / "studies").glob("*.json")):
        for series in _runs(json.loads(file.read_text())):
            if series.value.tobytes() not in known:
                known.add(series.value.tobytes())
                for share, one in _cut(series):
                    found[f"our own, from {share:.0%}"].append(one)
    return dict(sorted(found.items()))


def _runs(document: Mapping[str, object]) -> Iterable[Series]:
    return [series for seeds in curves_of(document).values() for series in seeds.values()]


def _cut(series: Series) -> Iterator[tuple[float, Made]]:
    """By compute, as studies do."""
    at = float(np.exp(np.mean(np.log(series.compute[-TARGET_POINTS:]))))
    for share in SHARES:
        count = int(np.count_nonzero(series.compute <= share * series.compute[-1]))
        if count >= MIN_POINTS and len(series) - count >= TARGET_POINTS:
            yield share, made(series.head(count), at, float(series.value[-TARGET_POINTS:].mean()))


def holds(rows: Iterable[Made], width: float) -> float:
    return float(np.mean([row.inside(width) for row in rows]))


def choice(groups: Mapping[str, list[Made]]) -> float:
    """The rule. Groups with few bending curves have no say."""
    bending = {name: [row for row in rows if row.bending] for name, rows in groups.items()}
    judges = [rows for rows in bending.values() if len(rows) >= FEWEST]
    return min(width for width in WIDTHS if width == 1.0 or all(holds(rows, width) >= LEVEL for rows in judges))


def table(groups: Mapping[str, list[Made]]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, rows in groups.items():
        bending = [row for row in rows if row.bending]
        found[name] = {
            "forecasts": len(rows),
            "bending": len(bending),
            "holds_bending": {f"{width:g}": holds(bending, width) if bending else None for width in WIDTHS},
            "holds": {f"{width:g}": holds(rows, width) for width in WIDTHS},
        }
    return found


def show(found: Mapping[str, Mapping[str, object]]) -> None:
    print(f"{'holds while bending, at a width of':<36}" + "".join(f"{width:>7g}" for width in WIDTHS) + "   cases")
    for name, row in found.items():
        shares = row["holds_bending"]
        assert isinstance(shares, dict)
        cells = "".join("      -" if share is None else f"{share:>7.0%}" for share in shares.values())
        print(f"{name:<36}{cells}{row['bending']:>8}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--curves", type=Path, required=True)
    path: Path = parser.parse_args().curves
    projects, runs, ours = real(path), simulated(), own()
    chosen = choice(projects | runs)
    left_out = {name: choice({k: v for k, v in (projects | runs).items() if k != name}) for name in projects}
    found = table(projects | runs | ours)
    show(found)
    print(f"the rule chooses {chosen:g} (shipped: {DEFAULT_PRIOR.bending_width:g})")
    for name, width in left_out.items():
        print(f"  without {name}: {width:g}, which holds {holds(projects[name], width):.0%} of its forecasts")
    RESULTS.write_text(json.dumps({"chosen": chosen, "left_out": left_out, "table": found}, indent=1) + "\n")
    return 0 if chosen == DEFAULT_PRIOR.bending_width else 1


if __name__ == "__main__":
    raise SystemExit(main())
