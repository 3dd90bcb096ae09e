"""Are the verifiers right, and do they bear what a model can write? Accuracy on our own pairs; 10,000 verifications.

    python benchmarks/verify.py                # minutes on idle cores: 10,000 verifications, 1 % of them pathological
    python benchmarks/verify.py --items 1000

Accuracy: every pair in tests/verify/pairs (reference, text, what a careful marker says), judged once. Endurance: the
same pairs over and over, in groups of 16 as in training, with towers of powers, nested LaTeX and endless texts strewn
in; each has a limit of two seconds of processor time. Exit code 1 when a limit is missed: a false positive, more than
2 % false negatives, an ordinary pair with another verdict than before, a process left behind, too much processor time
(of all processes: the clock depends on what else runs). benchmarks/results/verify.json keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scalerl.verify import Kind, Verdict, build_verifier
from scalerl.verify.symbolic import MathVerifier

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "verify.json"
KINDS: tuple[Kind, ...] = ("exact", "number", "choice", "math")
TIMEOUT_S = 2.0
GROUP = 16
LIMITS = {
    "false_positives": 0, "false_negative_share": 0.02, "changed_verdicts": 0, "processes_left": 0, "cpu_seconds": 900
}  # fmt: skip

PATHOLOGICAL = (
    r"\boxed{9^{9^{9^{9}}}}",
    r"\boxed{10^{10^{10}}}",
    r"\boxed{((((9!)!)!)!)}",
    r"\boxed{2^{2^{2^{2^{2^{2}}}}} \bmod 7}",
    r"\boxed{\sum_{n=1}^{10^{9}} \frac{1}{n^2}}",
    r"\boxed{\int_0^1 x^{x^{x^{x}}} \sin(e^{x^2}) dx}",
    r"\boxed{(x+y+z+1)^{400} - (x+y+z+2)^{400}}",
    rf"\boxed{{{'x+' * 450}x}}",
    rf"\boxed{{{chr(92)}sqrt{{ {'x^{' * 80}2{'}' * 80} }}}}",
    "\\boxed{" + "\\frac{1}{1+" * 60 + "x" + "}" * 60 + "}",
    "\\boxed{" * 20_000,
    "$" * 50_000,
    "(" * 100_000,
    "The answer is " * 20_000,
    "9" * 200_000,
    "\\boxed{" + "9" * 900 + "}",
    " " * 500_000 + "x",
    "1,111," * 30_000,
    "\x00\ud83d\u202e\\boxed{\\",
)

Pair = tuple[str, str, str]
Verdicts = dict[tuple[Kind, Pair], Verdict]


def read_pairs(kind: str) -> list[Pair]:
    """Reference, text, and what a careful marker says."""
    text = (ROOT / "tests" / "verify" / "pairs" / f"{kind}.toml").read_text(encoding="utf-8")
    return [(reference, answer, verdict) for reference, answer, verdict in tomllib.loads(text)["pairs"]]


def accuracy() -> tuple[dict[Kind, dict[str, float]], Verdicts]:
    """Figures of each kind, and every verdict."""
    figures: dict[Kind, dict[str, float]] = {}
    verdicts: Verdicts = {}
    for kind in KINDS:
        pairs, begin = read_pairs(kind), time.perf_counter()
        verifier = build_verifier(kind)
        found = [verifier.verify(text, reference) for reference, text, _ in pairs]
        verifier.close()
        rows = list(zip(pairs, found, strict=True))
        equal = sum(said == "correct" for _, _, said in pairs)
        wrong = sum(verdict.correct for (_, _, said), verdict in rows if said != "correct")
        missed = sum(not verdict.correct for (_, _, said), verdict in rows if said == "correct")
        seconds = time.perf_counter() - begin
        figures[kind] = {
            "pairs": len(pairs), "equal": equal, "false_positives": wrong, "false_negatives": missed, "seconds": seconds
        }  # fmt: skip
        verdicts.update({(kind, pair): verdict for pair, verdict in rows})
    return figures, verdicts


def mixture(size: int, seed: int = 0) -> Iterator[tuple[Kind, Pair | None, str, str]]:
    """Kind, pair (None: pathological), text and reference; 1 % are pathological, and those are for `math`."""
    rng = random.Random(seed)
    pairs = [(kind, pair) for kind in KINDS for pair in read_pairs(kind)]
    odd = set(rng.sample(range(size), max(1, size // 100)))
    for i in range(size):
        if i in odd:
            yield "math", None, PATHOLOGICAL[len([j for j in odd if j < i]) % len(PATHOLOGICAL)], "x^2+1"
        else:
            kind, pair = rng.choice(pairs)
            yield kind, pair, pair[1], pair[0]


def endure(size: int, before: Verdicts) -> dict[str, object]:
    """Judge a mixture, group after group; what came of it."""
    verifiers = {kind: build_verifier(kind) for kind in KINDS if kind != "math"}
    mathematics = MathVerifier(TIMEOUT_S)
    items, others = list(mixture(size)), children()
    begin, cpu, found = time.perf_counter(), cpu_seconds(), []
    for start in range(0, size, GROUP):
        group = items[start : start + GROUP]
        hard = iter(
            mathematics.verify_pairs([(text, reference) for kind, _, text, reference in group if kind == "math"])
        )
        found += [next(hard) if kind == "math" else verifiers[kind].verify(text, ref) for kind, _, text, ref in group]
    seconds = time.perf_counter() - begin
    mathematics.close()
    spent = cpu_seconds() - cpu
    rows = list(zip(items, found, strict=True))
    changed = sum(
        verdict.status != before[kind, pair].status for (kind, pair, _, _), verdict in rows if pair is not None
    )
    odd = Counter(verdict.status for (_, pair, _, _), verdict in rows if pair is None)
    return {
        "items": size, "seconds": seconds, "cpu_seconds": spent,
        "statuses": dict(Counter(verdict.status for verdict in found)), "pathological": dict(odd),
        "changed_verdicts": changed, "processes_left": len(children() - others),
    }  # fmt: skip


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def children() -> set[int]:
    """Our own child processes, by the kernel's account. Linux only."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(number) for task in tasks for number in task.read_text().split()}


def main() -> int:
    parser = argparse.ArgumentParser(description="accuracy and endurance of the verifiers")
    parser.add_argument("--items", type=int, default=10_000)
    size: int = parser.parse_args().items
    kinds, verdicts = accuracy()
    lasting = endure(size, verdicts)
    equal, missed = (sum(one[key] for one in kinds.values()) for key in ("equal", "false_negatives"))
    figures = {
        "false_positives": sum(one["false_positives"] for one in kinds.values()),
        "false_negative_share": missed / equal,
        **{key: lasting[key] for key in ("changed_verdicts", "processes_left", "cpu_seconds")},
    }
    met = all(float(str(figures[key])) <= limit for key, limit in LIMITS.items())
    for kind, one in kinds.items():
        print(f"{kind:8} {one['pairs']:4.0f} pairs, {one['equal']:4.0f} of them equal:", end=" ")
        print(f"{one['false_positives']:.0f} false positives, {one['false_negatives']:.0f} false negatives")
    print(f"{size} verifications: {lasting['statuses']}; pathological: {lasting['pathological']}")
    for key, limit in LIMITS.items():
        print(f"{key:22} {figures[key]:10.4g}   limit {limit:g}")
    record = {"limits": LIMITS, "met": met, "accuracy": kinds, "endurance": lasting, "timeout_s": TIMEOUT_S}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
