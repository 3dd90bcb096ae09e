"""The whole torture, as a program: `make faults`, or

    python -m tests.faults --runs 200 --out faults.jsonl --summary benchmarks/results/faults.json

Kills at random moments, a failure at every operation that writes, damaged checkpoints. Each run is a line of JSON with
its seed, what was done to it, and what was wrong; a table of all lines in that file stands at the end, so that what was
interrupted can go on (`--first`, `--only`). The exit code is 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from . import commands, damages, failures, kills
from .nursery import Nursery
from .small import Small

CAMPAIGNS = ("kills", "writes", "checkpoints")
FRESH_EVERY = 20
"""So often a run is killed in processes that were started from nothing."""

_COUNTED = {
    "saved_lines_lost": "have changed", "saved_checkpoints_lost": "the newest checkpoint was",
    "groups_trained_twice": "trained twice", "groups_lost": "is lost", "left_behind": "left behind",
}  # fmt: skip
"""What the table says of the complaints, by words in them."""

Case = Callable[[Path], Any]


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="scalerl-faults-") as name:
        nursery = Nursery(Path(name) / "nursery")
        for campaign in options.only:
            _campaign(campaign, nursery, Path(name), options)
    found = [json.loads(line) for line in options.out.read_text().splitlines()]
    table = _table(found)
    for row in table:
        sys.stdout.write("  ".join(f"{key} {value}" for key, value in row.items()) + "\n")
    if options.summary is not None:
        options.summary.write_text(json.dumps({"campaigns": table}, indent=2) + "\n")
    return 1 if any(line["wrong"] for line in found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="runs that are killed")
    parser.add_argument("--damages", type=int, default=100, help="checkpoints that are damaged")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which is its seed")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operation that writes is made to fail")
    parser.add_argument("--command", choices=(*commands.BY_NAME, "train"), help="the only one whose writes fail")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--only", nargs="+", choices=CAMPAIGNS, default=CAMPAIGNS)
    parser.add_argument("--out", type=Path, default=Path("faults.jsonl"), help="one line a run; is appended to")
    parser.add_argument("--summary", type=Path, help="the table as JSON")
    return parser.parse_args()


def _campaign(campaign: str, nursery: Nursery, root: Path, options: argparse.Namespace) -> None:
    base = root / f"{campaign}-reference"
    base.mkdir()
    cases = {"kills": _kills, "writes": _writes, "checkpoints": _damages}[campaign](nursery, base, options)
    with ThreadPoolExecutor(options.workers) as workers, options.out.open("a") as log:
        mapped = map if options.workers == 1 else workers.map  # without threads it ends with Ctrl-C
        for number, outcome in enumerate(mapped(lambda case: _tried(case, root), cases), 1):
            line = outcome.to_dict() | {"time": time.strftime("%Y-%m-%dT%H:%M:%S")}
            log.write(json.dumps(line) + "\n")
            log.flush()
            sys.stderr.write(f"{campaign} {number}: {'; '.join(line['wrong']) or 'ok'}\n")


def _tried(case: Case, root: Path) -> Any:
    folder = Path(tempfile.mkdtemp(dir=root, prefix="case-"))
    try:
        return case(folder)
    finally:
        shutil.rmtree(folder)


def _kills(nursery: Nursery, base: Path, options: argparse.Namespace) -> Iterable[Case]:
    grounds = {}
    for launcher in ("inline", "local"):
        (base / launcher).mkdir()
        grounds[launcher] = kills.undisturbed(nursery, base / launcher, Small(launcher))
    for number in range(options.first, options.first + options.runs):
        plan = kills.plan_of(number, grounds, fresh=number % FRESH_EVERY == FRESH_EVERY - 1)
        yield partial(kills.torture, nursery, plan=plan, ground=grounds[plan.launcher])


def _writes(nursery: Nursery, base: Path, options: argparse.Namespace) -> Iterable[Case]:
    """Both errors at every operation: of the other commands, then of a run."""
    for number, writer in enumerate(commands.WRITERS):
        if options.command in (None, writer.name):
            ground = commands.undisturbed(nursery, base / str(number), writer)
            for failure in _failures(ground.points, options):
                yield partial(commands.strike, nursery, failure=failure, ground=ground)
    if options.command in (None, "train"):
        nursery.run(failures.RUN.begin("warm"), base)
        points = failures.points_of(nursery, base)
        for failure in _failures(points, options):
            point = points[failure.at - 1]
            yield partial(failures.strike, nursery, failure=failure, point=point, reference=base / "run")


def _failures(points: Sequence[str], options: argparse.Namespace) -> Iterable[failures.Failure]:
    for at in range(1, len(points) + 1, options.every):
        yield from failures.failures_at(at, points[at - 1])


def _damages(nursery: Nursery, base: Path, options: argparse.Namespace) -> Iterable[Case]:
    for run, name in ((damages.ENDED, "ended"), (damages.LONGER, "longer")):
        ran = nursery.run(run.begin(name), base)
        assert ran.code == 0, ran.err
    for number in range(options.damages):
        yield partial(damages.damage_newest, nursery, number=number, ended=base / "ended", longer=base / "longer")


def _table(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a campaign."""
    rows = []
    for campaign in dict.fromkeys(line["campaign"] for line in found):
        own = [line for line in found if line["campaign"] == campaign]
        row = {
            "campaign": campaign,
            "runs": len(own),
            "faults": sum(len(line["kills"]) if "kills" in line else 1 for line in own),
            "survived": sum(not line["wrong"] for line in own),
            "seconds": round(sum(line["wall_s"] for line in own)),
            "until": max(line["time"] for line in own)[:10],
        }
        texts = [text for line in own for text in line["wrong"]]
        row |= {name: sum(words in text for text in texts) for name, words in _COUNTED.items()}
        if campaign == "kills":
            row["steps_made_again"] = sum(line["steps_again"] for line in own)
            row |= Counter(f"killed: {kill.partition(' at ')[0]}" for line in own for kill in line["kills"])
        if campaign == "write failures":
            row |= Counter(f"{line['command']}, {line['failure']['error']}" for line in own)
        rows.append(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
