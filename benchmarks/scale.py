"""What scaling out costs and brings on this machine: Ray against `local`, one and two generators, weights on their way.

    python benchmarks/scale.py               # three quarters of an hour, idle; exit code 1 if a limit is missed
    python benchmarks/scale.py --parts overhead --rounds 10 --out /tmp/scale.json

  overhead    the same `laptop` run with one generator on `local` and on `ray`, both alive at once and taking turns of
              some seconds: seconds of 1,000 written tokens, ratio and its 95 % interval (limit 1.10). `local` stands
              there twice: against itself it says what this method can tell. All steps are made, but at a learning
              rate at which no answer changes. And with a policy of 3M parameters, whose step takes seconds: what Ray
              costs is by message and by process, not by FLOP
  runs        each variant alone, one after the other: rollouts per second, idle shares. With two generators there is
              nothing to gain on two cores, because the trainer needs one of them: it is here to be measured on larger
              machines. Ratios between these runs say little: this machine's speed drifts by a third within minutes
  simulator   what `scalerl plan` makes of each of these runs from its own rates: seconds of a step against the measured
              ones (limit 15 %); benchmarks/plan_check.py asks more of it
  weights     seconds from the trainer's tensors to a generator's, by the size of the policy (float32), through shared
              memory (`local`), through Ray's object store (`ray`), and over a wire (`direct`, gloo)
benchmarks/results/scale.json keeps everything, the load of the machine included; parts that are not measured stay as
they are in it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scalerl.config import RunConfig, load_run
from scalerl.pipeline.launch.ray.cluster import Cluster
from scalerl.pipeline.launch.ray.drive import train_on_ray
from scalerl.pipeline.observe import Silent
from scalerl.pipeline.session import train
from scalerl.pipeline.weights import Parcel, SharedWeights
from scalerl.pipeline.wire import End, Exchange, Receiving
from scalerl.plan.likeness import like
from scalerl.plan.simulate import simulate
from turns import RUN_IN, compare

RESULTS = Path(__file__).parent / "results" / "scale.json"
OVERHEAD_LIMIT, SIMULATOR_LIMIT = 1.10, 0.15
SIMULATED_STEPS = 60
ALL_RUNS = ["scale.evaluation.every=1000000", "scale.evaluation.problems=8", "scale.checkpoint_every=1000000"]
VARIANTS = {
    "local": ['scale.launcher.kind="local"'],
    "ray": ['scale.launcher.kind="ray"'],
    "ray, direct": ['scale.launcher.kind="ray"', "scale.launcher.transfer=direct"],
    "ray, 2 generators": ['scale.launcher.kind="ray"', "scale.launcher.generators=2"],
}
LARGE = [
    "scale.model.width=256", "scale.model.layers=4", "scale.model.heads=8", "scale.model.feed_forward=768",
    "scale.warm_start.steps=20",
]  # fmt: skip
LARGE_STEPS = 12
VARIANTS |= {f"{name}, 3M": [*VARIANTS[name], *LARGE] for name in ("local", "ray")}
AGAIN = ", again"
TURNS = {"laptop": ("local", "local, again", "ray", "ray, direct"), "3M": ("local, 3M", "local, 3M, again", "ray, 3M")}
TURN_S = 3.0
LIMITED = ("ray", "ray, 3M")
STILL = ["scale.budget.amount=1000000", "scale.optimiser.learning_rate=1e-12"]
"""Runs without an end that write the same all the time: what learns goes its own way, and its answers change."""
PARTS = ("overhead", "runs", "weights")
MILLIONS = (1.0, 10.0, 50.0, 135.0)
TIMES = 5


@dataclass(frozen=True)
class Speed:
    """One run."""

    step_s: float
    simulated_s: float
    rollouts_per_s: float
    generator_idle: float
    trainer_idle: float
    load: float


class Watching(Silent):
    def preparing(self, progress: object) -> None: ...

    def notice(self, text: str) -> None:
        print(text, file=sys.stderr)


def trained(run: RunConfig, folder: Path) -> Path:
    """The folder of the run, when it has ended."""
    if run.scale.launcher.kind == "ray":
        return train_on_ray(run, folder, watcher=Watching()).folder
    return train(run, folder).folder


def measure(variant: str, steps: int) -> Speed:
    steps = min(steps, LARGE_STEPS) if variant.endswith("3M") else steps
    overrides = [*ALL_RUNS, *VARIANTS[variant], f"scale.budget.amount={RUN_IN + steps}"]
    run: RunConfig = load_run("scalerl", "laptop", overrides=overrides).config
    with tempfile.TemporaryDirectory() as place:
        found = like(trained(run, Path(place) / "run"))
    simulated = simulate(found.question, steps=SIMULATED_STEPS, rates=found.rates, fleet=found.fleet(found.question))
    measured = found.measured
    return Speed(
        step_s=measured.step_s,
        simulated_s=simulated.step_s,
        rollouts_per_s=run.scale.batch.prompts * run.scale.batch.rollouts / measured.step_s,
        generator_idle=measured.generator_idle,
        trainer_idle=measured.trainer_idle,
        load=os.getloadavg()[0],
    )


def tensors(millions: float) -> dict[str, Tensor]:
    """Sixteen matrices and as many vectors, as a policy of that size might have."""
    width = round((millions * 1e6 / 16) ** 0.5)
    return {f"{i}": torch.randn(width, width) for i in range(16)} | {f"n{i}": torch.randn(width) for i in range(16)}


class Receiver:
    """A generator, as far as weights are concerned: copied into memory that actor and process see, and from there."""

    def __init__(self, millions: float) -> None:
        torch.set_num_threads(1)
        self._shared, self._own = tensors(millions), tensors(millions)

    def load(self, parcel: Parcel) -> int:
        copy_into(self._shared, parcel.tensors())
        copy_into(self._own, self._shared)
        return parcel.version


def copy_into(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    for name, tensor in weights.items():
        own[name].copy_(tensor)


def through_ray(cluster: Cluster, millions: float) -> list[float]:
    weights, times = tensors(millions), []
    receiver, parcel = cluster.start(Receiver, (millions,), 0, 1), None
    for version in range(TIMES + 1):
        started = time.perf_counter()
        parcel = Parcel.of(weights, version, parcel)
        cluster.get(cluster.call(receiver, "load", cluster.put(parcel)))
        times.append(time.perf_counter() - started)
    cluster.kill(receiver)
    return times[1:]


def through_memory(millions: float) -> list[float]:
    context = get_context("spawn")
    weights, times, lock = tensors(millions), [], context.Lock()
    here, there = context.Pipe()
    process = context.Process(target=fetch, args=(there, lock, millions), daemon=True)
    process.start()
    shared = SharedWeights.create(weights, lock, process.is_alive)
    here.send(shared.handle)
    here.recv()
    for version in range(TIMES + 1):
        started = time.perf_counter()
        shared.publish(weights, version)
        here.send(version)
        here.recv()
        times.append(time.perf_counter() - started)
    here.send(None)
    process.join()
    shared.close()
    return times[1:]


def fetch(link: Connection, lock: Lock, millions: float) -> None:
    torch.set_num_threads(1)
    own = tensors(millions)
    shared = SharedWeights.attach(link.recv(), lock, lambda: True)
    link.send("ready")
    while (version := link.recv()) is not None:
        shared.fetch(version - 1, lambda weights, _: copy_into(own, weights))
        link.send(version)
    shared.close()


def through_wire(millions: float) -> list[float]:
    context = get_context("spawn")
    weights, times = tensors(millions), []
    exchange = Exchange("127.0.0.1", 1, "gloo")
    exchange.publish(weights, 0)
    wire = exchange.lay()
    here, there = context.Pipe()
    process = context.Process(target=ask, args=(there, wire.end, millions), daemon=True)
    process.start()
    here.recv()
    for version in range(1, TIMES + 2):
        started = time.perf_counter()
        exchange.publish(weights, version)
        wire.answer()
        here.send(version)
        here.recv()
        times.append(time.perf_counter() - started)
    here.send(None)
    process.join()
    wire.cut()
    return times[1:]


def ask(link: Connection, end: End, millions: float) -> None:
    torch.set_num_threads(1)
    own = tensors(millions)
    link.send("ready")
    wire = Receiving(end, 1, torch.device("cpu"))
    while link.recv() is not None:
        came = wire.receive(borrowed=True)
        assert came is not None
        for name, tensor in came[1]:
            own[name].copy_(tensor)
        link.send("loaded")


def measure_weights(sizes: list[float]) -> list[dict[str, Any]]:
    rows = []
    cluster = Cluster.connect(None, [{"CPU": 1.0}])
    try:
        cluster.place([{"CPU": 1.0}], print)
        for millions in sizes:
            ways = {
                "ray_s": through_ray(cluster, millions), "direct_s": through_wire(millions),
                "local_s": through_memory(millions),
            }  # fmt: skip
            rows.append({"millions": millions} | {name: statistics.median(times) for name, times in ways.items()})
    finally:
        cluster.close()
    return rows


def measure_overhead(rounds: int) -> dict[str, Any]:
    """All runs of one size take turns; each ratio is of all their turns."""
    found: dict[str, Any] = {"turn_s": TURN_S}
    for title, names in TURNS.items():
        variants = {name: [*ALL_RUNS, *VARIANTS[name.removesuffix(AGAIN)], *STILL] for name in names}
        with tempfile.TemporaryDirectory() as place:
            runs = compare(Path(place), variants, rounds, TURN_S)
        base = runs[names[0]]
        found[title] = {
            name: {
                "ratio": run.against(base), "interval": run.interval(base), "pace_s": run.pace_s,
                "tokens": run.tokens, "seconds": run.seconds,
            } for name, run in runs.items()
        }  # fmt: skip
    return found


def show_overhead(overhead: dict[str, Any]) -> bool:
    met = True
    for title in TURNS:
        print(f"\n{title}: seconds of 1,000 tokens in turns of {overhead['turn_s']:g} s, against local")
        for name, one in list(overhead[title].items())[1:]:
            low, high = one["interval"]
            limit = name in LIMITED
            met &= not limit or one["ratio"] <= OVERHEAD_LIMIT
            words = f", limit {OVERHEAD_LIMIT:.2f}x{_missed(one['ratio'], OVERHEAD_LIMIT)}" if limit else ""
            print(f"{name:<20} {one['pace_s']:>8.4f}s  {one['ratio']:.2f}x ({low:.2f} to {high:.2f}){words}")
    return met


def show_runs(runs: dict[str, list[dict[str, float]]]) -> bool:
    print(f"\n{'each alone':<20} {'step':>8} {'rollouts/s':>11} {'idle gen, train':>17} {'simulated':>10}")
    errors = []
    for name, each in runs.items():
        middle = sorted(each, key=lambda one: one["step_s"])[len(each) // 2]
        errors.append(statistics.median(one["simulated_s"] / one["step_s"] - 1 for one in each))
        idle = f"{middle['generator_idle']:>8.0%} {middle['trainer_idle']:>8.0%}"
        print(f"{name:<20} {middle['step_s']:>7.3f}s {middle['rollouts_per_s']:>11.0f} {idle} {errors[-1]:>+10.1%}")
    worst = max(map(abs, errors))
    print(f"simulator: largest error {worst:.1%}, limit {SIMULATOR_LIMIT:.0%}{_missed(worst, SIMULATOR_LIMIT)}")
    return worst <= SIMULATOR_LIMIT


def show_weights(weights: list[dict[str, Any]]) -> bool:
    print(f"\n{'parameters':>10} {'local':>10} {'ray':>10} {'direct':>10}")
    for row in weights:
        times = " ".join(f"{row[name] * 1e3:>8.1f}ms" for name in ("local_s", "ray_s", "direct_s"))
        print(f"{row['millions']:>9g}M {times}")
    return True


def _missed(value: float, limit: float) -> str:
    return "" if value <= limit else "  MISSED"


def measure_runs(steps: int, repeats: int) -> dict[str, list[dict[str, float]]]:
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    for repeat in range(repeats):
        for name, each in runs.items():
            each.append(asdict(measure(name, steps)))
            print(f"repeat {repeat + 1}: {name} measured", file=sys.stderr)
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=30, help="of the overhead: turns of each run")
    parser.add_argument("--steps", type=int, default=60, help="of each of the runs")
    parser.add_argument("--repeats", type=int, default=3, help="of the runs")
    parser.add_argument("--sizes", default=",".join(f"{size:g}" for size in MILLIONS), help="millions of parameters")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="a trial should not replace the figures that are kept"
    )
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--parts {arguments.parts}: allowed are {', '.join(PARTS)}, with commas between them")
    found: dict[str, Any] = {}
    if "overhead" in parts:
        found["overhead"] = measure_overhead(arguments.rounds)
    if "weights" in parts:
        found["weights"] = measure_weights([float(size) for size in arguments.sizes.split(",")])
    if "runs" in parts:
        found["runs"] = measure_runs(arguments.steps, arguments.repeats)
    shows: dict[str, Callable[[Any], bool]] = {"overhead": show_overhead, "runs": show_runs, "weights": show_weights}
    met = [shows[part](found[part]) for part in PARTS if part in parts]
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    kept = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {}
    limits = {"overhead_limit": OVERHEAD_LIMIT, "simulator_limit": SIMULATOR_LIMIT}
    arguments.out.write_text(json.dumps(kept | found | limits | {"machine": machine}, indent=1) + "\n")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
