"""Bad input at scale: every fuzz target under atheris, one process at a time, with limits of time and memory.

    python scripts/fuzz.py                                # 1,000,000 executions over all targets, cheap ones more often
    python scripts/fuzz.py --only read- --seconds 60      # a minute for each target whose name begins so
    python scripts/fuzz.py --replay FILE --only read-csv  # one input again, with its traceback

The targets are those of tests/fuzz/targets.py. Needs atheris (pip install 'scalerl[fuzz]'). Findings, corpora and
counts go to --folder, outside of the repository (without it: to a new folder of this user alone, which is named at the
start and stays); a summary for each target is added up in benchmarks/results/fuzz.json. Exit code 1 when something was
found: an exception that is no refusal, a warning, an execution that took more than 5 seconds of processor time, a
process that died, hung or used too much memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.target import Target

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "fuzz.json"
HANG_S = 60
RSS_MB = 2048
ADDRESS_SPACE = 24 << 30
"""torch and pyarrow reserve much more than they use; what is used is limited by RSS_MB."""
LEAST = 3000
"""Executions of one target, when they are shared out."""
RESTARTS = 5
TIME_IS_UP = 72
"""How libFuzzer ends when its time is over before it has seen every sample."""


@dataclass
class Result:
    """One target, this time."""

    name: str
    executions: int = 0
    taken: int = 0
    longest_s: float = 0.0
    seconds: float = 0.0
    coverage: int = 0
    """Edges of scalerl's bytecode, as libFuzzer counts them."""
    findings: list[str] | None = None


def main() -> int:
    options = parser().parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tests.fuzz.targets import TARGETS

    chosen = {name: target for name, target in TARGETS.items() if name.startswith(tuple(options.only or ("",)))}
    if options.replay:
        return replay(chosen, options.replay)
    shares, folder = shared_out(chosen, options.executions), place(options.folder)
    print(f"findings go to {folder}", flush=True)
    results = []
    for name, target in chosen.items():
        result = fuzz(target, folder / name, None if options.seconds else shares[name], options.seconds)
        results.append(result)
        print(line(result), flush=True)
        if not options.dry:
            add_up(RESULTS, result)
    print(f"{sum(result.executions for result in results):,} executions")
    return int(any(result.findings for result in results))


def line(result: Result) -> str:
    figures = f"{result.executions:>8,} executions {result.seconds:>6.0f} s  coverage {result.coverage:>5}"
    found = "; ".join(result.findings or []) or "nothing found"
    return f"{result.name:<22} {figures}  longest {result.longest_s:.2f} s  {found}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", nargs="*", help="targets whose names begin with one of these")
    made.add_argument("--executions", type=int, default=1_000_000, help="of all targets together")
    made.add_argument("--seconds", type=int, help="for each target, in the place of a number of executions")
    made.add_argument("--folder", type=Path, help="of an earlier time, to go on with its corpora; else a new one")
    made.add_argument("--replay", type=Path, help="run this input once, in this process")
    made.add_argument("--dry", action="store_true", help="leave benchmarks/results/fuzz.json alone")
    return made


def place(given: Path | None) -> Path:
    """A folder that others cannot have prepared: its name is not known before, and it is ours alone."""
    return given or Path(tempfile.mkdtemp(prefix="scalerl-fuzz-"))


def shared_out(targets: dict[str, Target], executions: int) -> dict[str, int]:
    """More for the cheap ones; every target at least a few thousand (a share of that when few are asked for)."""
    least = min(LEAST, executions // (2 * len(targets)))
    rest = executions - least * len(targets)
    total = sum(target.cost**-3 for target in targets.values())
    return {name: int(least + rest * target.cost**-3 / total) + 1 for name, target in targets.items()}


def fuzz(target: Target, folder: Path, executions: int | None, seconds: int | None) -> Result:
    """As many processes one after the other as it takes: one that dies is a finding and is started again."""
    prepare(target, folder)
    result, before, began = Result(target.name, findings=[]), counts(folder), time.monotonic()
    for attempt in range(RESTARTS):
        done = counts(folder)[0] - before[0]
        left = None if executions is None else executions - done
        spare = None if seconds is None else int(seconds - (time.monotonic() - began))
        if (left is not None and left <= 0) or (spare is not None and spare <= 0):
            break
        code, text = one_process(target, folder, left, spare)
        result.coverage = max([result.coverage, *map(int, re.findall(r"cov: (\d+)", text))])
        if code and not (code == TIME_IS_UP and seconds is not None):
            result.findings = [*(result.findings or []), f"the process ended with {code} (start {attempt + 1})"]
            (folder / f"died-{int(time.time())}.txt").write_text(text[-20_000:])
    after = counts(folder)
    result.executions, result.taken, result.longest_s = after[0] - before[0], after[1] - before[1], after[2]
    result.seconds = time.monotonic() - began
    result.findings = [*(result.findings or []), *found_in(folder)]
    return result


def prepare(target: Target, folder: Path) -> None:
    from tests.fuzz.mutations import LONGEST_WORD, spoiled

    for name in ("corpus", "samples", "artifacts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate([*target.samples(), *spoiled(target)]):
        (folder / "samples" / f"{number:03d}").write_bytes(sample)
    words = [word.encode("utf-8", "surrogatepass") for word in target.words if len(word) <= LONGEST_WORD]
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words if word]
    (folder / "words").write_text("".join(lines))


def one_process(target: Target, folder: Path, executions: int | None, seconds: int | None) -> tuple[int, str]:
    from tests.fuzz.targets import HOMES

    command = [
        sys.executable, "-m", "tests.fuzz.guided", HOMES[target.name], target.name, str(folder), str(folder / "corpus"),
        str(folder / "samples"),
        f"-artifact_prefix={folder / 'artifacts'}/", f"-dict={folder / 'words'}", f"-timeout={HANG_S}",
        f"-rss_limit_mb={RSS_MB}", "-max_len=16384", "-print_final_stats=1", "-reload=0", "-verbosity=1",
    ]  # fmt: skip
    command += [] if executions is None else [f"-runs={executions}"]
    command += [] if seconds is None else [f"-max_total_time={seconds}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def counts(folder: Path) -> tuple[int, int, float]:
    from tests.fuzz.guided import COUNTS

    path = folder / "counts"
    executions, taken, longest = COUNTS.unpack(path.read_bytes()) if path.exists() else (0, 0, 0.0)
    return executions, taken, longest


def found_in(folder: Path) -> list[str]:
    found = [json.loads(path.read_text())["what"] for path in sorted(folder.glob("findings/*.json"))]
    return found + [f"{path.name} in {path.parent.name}" for path in sorted(folder.glob("artifacts/[!s]*"))]


def add_up(path: Path, result: Result) -> None:
    """Totals of every target over all times that this was run; findings are those of the last time."""
    saved: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"targets": {}}
    old = saved["targets"].get(result.name, {})
    saved["targets"][result.name] = {
        "executions": old.get("executions", 0) + result.executions,
        "taken": old.get("taken", 0) + result.taken,
        "seconds": round(old.get("seconds", 0) + result.seconds, 1),
        "coverage": max(old.get("coverage", 0), result.coverage),
        "longest_s": round(max(old.get("longest_s", 0.0), result.longest_s), 3),
        "findings_left": result.findings or [],
    }
    saved["targets"] = dict(sorted(saved["targets"].items()))
    saved["executions"] = sum(one["executions"] for one in saved["targets"].values())
    saved["findings_left"] = sum(len(one["findings_left"]) for one in saved["targets"].values())
    saved["until"] = datetime.now(UTC).date().isoformat()
    path.write_text(json.dumps(saved, indent=1) + "\n")


def replay(targets: dict[str, Target], file: Path) -> int:
    from tests.fuzz.target import attempt

    for name, target in targets.items():
        with tempfile.TemporaryDirectory() as folder:
            print(name, "taken" if attempt(target.make(Path(folder)), file.read_bytes()) else "refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
