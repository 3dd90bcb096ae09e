"""Who measures: an evaluation by the trainer's own engine, by the generator, and by two generators of a cluster.

    python benchmarks/evaluations.py             # ten minutes, idle
    python benchmarks/evaluations.py --repeats 1 --out /tmp/evaluations.json

The `laptop` run at k = 8 with an evaluation every few steps; what is compared is how long the trainer stands still for
one, from the end of the step to the point. While generators answer, they also write what was under way: that work is
not lost, it is there when the trainer goes on. So the whole run is compared too, in seconds of a step, evaluations
included. All variants learn at a rate of nearly zero, so that their answers are equally long, and are run one after the
other again and again, because the speed of this machine drifts. On two cores there is little to gain: while the trainer
measures, only its own core works, and while two generators do, both.
Pass rates at step 0 must be equal: the seeds and the policy are the same. benchmarks/results/evaluations.json keeps it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from scale import trained
from scalerl.config import RunConfig, load_run

RESULTS = Path(__file__).parent / "results" / "evaluations.json"
EVERY, EVALUATIONS = 6, 5
ALL_RUNS = [
    f"scale.evaluation.every={EVERY}", f"scale.budget.amount={EVERY * EVALUATIONS}",
    "scale.optimiser.learning_rate=1e-12", "scale.checkpoint_every=1000000",
]  # fmt: skip
BY = "scale.evaluation.by=generators"
VARIANTS = {
    "the trainer": ['scale.launcher.kind="local"'],
    "the generator": ['scale.launcher.kind="local"', BY],
    "two generators": ['scale.launcher.kind="ray"', "scale.launcher.generators=2", BY],
}


def measure(variant: str) -> dict[str, Any]:
    run: RunConfig = load_run("scalerl", "laptop", overrides=[*ALL_RUNS, *VARIANTS[variant]]).config
    with tempfile.TemporaryDirectory() as place:
        folder = trained(run, Path(place) / "run")
        steps = {line["step"]: line for line in lines(folder / "metrics.jsonl")}
        points = lines(folder / "evals.jsonl")
    waited = [point["wall_s"] - steps[point["step"]]["wall_s"] for point in points if point["step"]]
    first, last = points[1], points[-1]
    return {
        "evaluation_s": statistics.median(waited),
        "step_s": (last["wall_s"] - first["wall_s"]) / (last["step"] - first["step"]),
        "start": points[0]["pass_rate"],
        "evaluation_tokens": last["ledger"]["evaluation"]["tokens"],
        "load": os.getloadavg()[0],
    }


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def show(runs: dict[str, list[dict[str, Any]]]) -> bool:
    print(f"{'measured by':<16} {'an evaluation':>14} {'a step, all in':>15} {'pass rate at 0':>15}")
    for name, each in runs.items():
        middle = {key: statistics.median(one[key] for one in each) for key in ("evaluation_s", "step_s", "start")}
        print(f"{name:<16} {middle['evaluation_s']:>13.2f}s {middle['step_s']:>14.3f}s {middle['start']:>15.4f}")
    starts = {one["start"] for each in runs.values() for one in each}
    same = bool(max(starts) - min(starts) < 1e-3)  # rows of other batches may round a token the other way
    print("pass rates at step 0 agree" if same else f"pass rates at step 0 DIFFER: {sorted(starts)}")
    return same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    for _ in range(arguments.repeats):
        for name, each in runs.items():
            each.append(measure(name))
    same = show(runs)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    arguments.out.write_text(json.dumps({"runs": runs, "machine": machine}, indent=1) + "\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
