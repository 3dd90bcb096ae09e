"""What scaling out costs and brings on this machine: Ray against `local`, one and two generators, weights on their way.

    python benchmarks/scale.py               # fifteen minutes on an idle machine; exit code 1 if a limit is missed
    python benchmarks/scale.py --steps 30 --repeats 1 --sizes 1,10 --out /tmp/scale.json

  overhead    the same `laptop` run with one generator on `local` and on `ray`, in turn: seconds of a step, ratio within
              each repeat (limit 1.10); and with a policy of 3M parameters, whose step takes seconds: what Ray costs
              is by message and by process, not by FLOP
  generators  the same run on `ray` with two: rollouts per second. With two cores there is nothing to gain, because the
              trainer needs one of them: it is here to be measured on larger machines
  simulator   what `scalerl plan` makes of each of these runs from its own rates: seconds of a step against the measured
              ones (limit 15 %); benchmarks/plan_check.py asks more of it
  weights     seconds from the trainer's tensors to a generator's, by the size of the policy (float32), through shared
              memory (`local`), through Ray's object store (`ray`), and over a wire (`direct`, gloo)
benchmarks/results/scale.json keeps everything, the load of the machine included.
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
from collections.abc import Mapping
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


def measure(variant: str, steps: int) -> Speed:
    run_in = 18  # two rounds of the pipeline, k = 8
    steps = min(steps, LARGE_STEPS) if variant.endswith("3M") else steps
    overrides = [*ALL_RUNS, *VARIANTS[variant], f"scale.budget.amount={run_in + steps}"]
    run: RunConfig = load_run("scalerl", "laptop", overrides=overrides).config
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        if run.scale.launcher.kind == "ray":
            train_on_ray(run, folder, watcher=Watching())
        else:
            train(run, folder)
        found = like(folder)
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
    receiver = cluster.start(Receiver, (millions,), 0, 1)
    for version in range(TIMES + 1):
        started = time.perf_counter()
        cluster.get(cluster.call(receiver, "load", cluster.put(Parcel.of(weights, version))))
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
        came = wire.receive()
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


def show(runs: dict[str, list[Speed]], weights: list[dict[str, Any]]) -> dict[str, Any]:
    print(f"{'run':<20} {'step':>8} {'rollouts/s':>11} {'idle gen, train':>17} {'simulated':>10}")
    errors = {}
    for name, each in runs.items():
        middle = sorted(each, key=lambda one: one.step_s)[len(each) // 2]
        errors[name] = statistics.median(one.simulated_s / one.step_s - 1 for one in each)
        idle = f"{middle.generator_idle:>8.0%} {middle.trainer_idle:>8.0%}"
        print(f"{name:<20} {middle.step_s:>7.3f}s {middle.rollouts_per_s:>11.0f} {idle} {errors[name]:>+10.1%}")
    ratios = _ratios(runs["ray"], runs["local"])
    large = _ratios(runs["ray, 3M"], runs["local, 3M"])
    direct = _ratios(runs["ray, direct"], runs["local"])
    two = _ratios(runs["ray"], runs["ray, 2 generators"])
    overhead, worst = statistics.median(ratios), max(abs(error) for error in errors.values())
    missed = _missed(overhead, OVERHEAD_LIMIT)
    print(f"Ray against local: {overhead:.2f}x the time of a step, limit {OVERHEAD_LIMIT:.2f}x{missed}")
    print(f"the same with transfer=direct: {statistics.median(direct):.2f}x")
    found = statistics.median(large)
    print(f"the same with 3M parameters: {found:.2f}x, limit {OVERHEAD_LIMIT:.2f}x{_missed(found, OVERHEAD_LIMIT)}")
    print(f"two generators against one: {statistics.median(two):.2f}x the rollouts on {os.cpu_count()} cores")
    print(f"simulator: largest error {worst:.1%}, limit {SIMULATOR_LIMIT:.0%}{_missed(worst, SIMULATOR_LIMIT)}")
    print(f"\n{'parameters':>10} {'local':>10} {'ray':>10} {'direct':>10}")
    for row in weights:
        times = " ".join(f"{row[name] * 1e3:>8.1f}ms" for name in ("local_s", "ray_s", "direct_s"))
        print(f"{row['millions']:>9g}M {times}")
    return {
        "overhead": overhead, "overheads": ratios, "overhead_limit": OVERHEAD_LIMIT, "overheads_3m": large,
        "overheads_direct": direct,
        "two_generators": two,
        "simulator_errors": errors, "simulator_limit": SIMULATOR_LIMIT,
        "met": overhead <= OVERHEAD_LIMIT and worst <= SIMULATOR_LIMIT,
    }  # fmt: skip


def _ratios(ones: list[Speed], others: list[Speed]) -> list[float]:
    """Of the steps, within each repeat."""
    return [one.step_s / other.step_s for one, other in zip(ones, others, strict=True)]


def _missed(value: float, limit: float) -> str:
    return "" if value <= limit else "  MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", default=",".join(f"{size:g}" for size in MILLIONS), help="millions of parameters")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="a trial should not replace the figures that are kept"
    )
    arguments = parser.parse_args()
    weights = measure_weights([float(size) for size in arguments.sizes.split(",")])
    runs: dict[str, list[Speed]] = {name: [] for name in VARIANTS}
    for repeat in range(arguments.repeats):
        for name, each in runs.items():
            each.append(measure(name, arguments.steps))
            print(f"repeat {repeat + 1}: {name} measured", file=sys.stderr)
    found = show(runs, weights)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    kept = {name: [asdict(one) for one in each] for name, each in runs.items()}
    document = {"machine": machine, "steps": arguments.steps, "runs": kept, "weights": weights, **found}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
