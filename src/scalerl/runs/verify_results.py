"""The results by problem of each evaluation against its line in evals.jsonl: the pass rate follows from the counts.

Called by `verify`. One file is read at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.json_lines import Record
from scalerl.runs import layout
from scalerl.runs.scores import HELD_OUT, PART, Results, read_results
from scalerl.runs.verify_findings import Finding, Subject, Tally
from scalerl.runs.verify_lines import read_lines, step_of

CHECK = "results"
_NEAR = 1e-9
"""The same mean, summed in another order."""


def check_results(subject: Subject) -> list[Finding]:
    """Every line has its file, every file says what its line says."""
    tally = Tally(
        CHECK, layout.EVALUATIONS, "nothing: the curve is whole, but this evaluation cannot be compared by problem"
    )
    num = 0
    for line in read_lines(subject.folder / layout.EVALS):
        if line.record is None or (step := step_of(line.record)) is None:
            continue
        num += 1
        file = subject.folder / layout.EVALUATIONS / f"{layout.step_name(step)}.json"
        for problem in _problems(file, line.record):
            tally.wrong(f"{file.name}: {problem}", kept=subject.keeps("evals", line.end))
    found = [tally.finding(f"{num:,} files agree with their lines")]
    left = _num_files(subject.folder / layout.EVALUATIONS) - num
    if left > 0 and not subject.held:
        words = f"{left:,} more files than evaluations: a session died before the line was written"
        found.append(Finding(CHECK, "warning", words, layout.EVALUATIONS, "nothing: going on writes them again"))
    return found


def _problems(file: Path, line: Record) -> Iterator[str]:
    parts = [key.removeprefix(PART) for key in line if key.startswith(PART) and key.count("/") == 1]
    try:
        found = read_results(file, parts)
    except InputError as error:
        yield error.what
        return
    if not found:
        yield "missing"
        return
    for name, results in found.items():
        if line.get(name) is not None:
            yield from _differences(name, results, line)


def _differences(name: str, results: Results, line: Record) -> Iterator[str]:
    """What the counts say, and the line does not."""
    below = "" if name == HELD_OUT else f"{name}/"
    judged = [(correct, num) for correct, num in results.by_problem.values() if num]
    rate = math.fsum(correct / num for correct, num in judged) / len(judged) if judged else None
    value = line[name]
    usable = type(value) in {int, float} and 0 <= value <= 1
    if rate is None or not usable or not math.isclose(rate, value, abs_tol=_NEAR):
        yield f"{name} is {rate} by its counts, {value!r:.40} in its line"
    counts = {"num_problems": len(judged), "num_judged": sum(num for _, num in judged)}
    for key, counted in counts.items():
        if line.get(below + key, counted) != counted:
            yield f"{below}{key} is {counted} by its counts, {line[below + key]!r:.40} in its line"


def _num_files(folder: Path) -> int:
    return sum(1 for _ in folder.glob("step-*.json")) if folder.is_dir() else 0
